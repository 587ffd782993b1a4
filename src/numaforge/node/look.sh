# shellcheck shell=sh
# What a change of a node is decided on, read in one go.

need_tools() { # NAME...: ends with what this host lacks, before anything is read wrongly
    lacks=
    for tool in "$@"; do
        command -v "$tool" > /dev/null 2>&1 || lacks="$lacks $tool"
    done
    [ -z "$lacks" ] || { echo "lacks$lacks" && exit 0; }
}

read_values() { # PATH...: prints PATH:VALUE for the first line of each kernel file that can be read
    for path in "$@"; do
        shift
        case $path in
        # A sysctl gives its value to the first read only, and the shell reads one byte at a time.
        /proc/sys/*) set -- "$@" "$path" ;;
        *) if [ -r "$path" ] && IFS= read -r line < "$path"; then printf '%s\n' "$path:$line"; fi ;;
        esac
    done 2> /dev/null
    if [ "$#" -gt 0 ]; then grep -sH '' "$@"; fi
    echo .
}
tell_transactions() {
    printf 'uptime '
    uptime_seconds
    printf 'last '
    last
    if [ -e "$ROOT/failed" ]; then sed 's/^/failed-/' "$ROOT/failed"; fi
    if [ -L "$ROOT/current" ]; then echo "unfinished $(readlink "$ROOT/current")"; fi
    for folder in "$ROOT"/*/; do
        if [ -e "$folder/unproved" ]; then
            folder=${folder%/}
            echo "unproved ${folder##*/}"
        fi
    done
}
# The checksums are what a change has to find again. They are taken before any text is read and before any part looks:
# what is edited in between is edited after the look, and the change does not begin.
read_files_and_drop_ins() { # FOLDER KNOWN-CHECKSUMS PATH...
    found=
    if [ -d "$1" ]; then found=$(find -L "$1" -type f -name '*.conf'); fi
    shift
    set -f
    IFS='
'
    for file in $found; do printf 'drop-in %s\n' "$file"; done
    echo files
    # shellcheck disable=SC2086 # a line each
    read_files "$@" $found
}
tell_part() { # PART FUNCTION ARGUMENT...: what it prints stands below a line with its name, whatever was before that
    printf '\npart %s\n' "$1"
    shift
    "$@" || :
}
tell_end() { printf '\nlooked\n'; }
# What looks of parts are made of. Each line begins with a word of the part's own, so that none is taken for the name
# of a part; and what a file holds is printed by printf, for echo makes lines of a backslash and an n.
tell_first_line() { # WORD TEXT
    printf '%s %s\n' "$1" "${2%%
*}"
}
tell_as() { # WORD, lines on stdin
    while IFS= read -r line; do printf '%s %s\n' "$1" "$line"; done
}
tell_record() { each_record "$2" printf '%s %s\n' "$1"; } # WORD RECORD
each_record() {                                           # RECORD COMMAND...: run it with each line that is no comment
    record=$1
    shift
    if [ ! -e "$record" ]; then return; fi
    while IFS= read -r line || [ -n "$line" ]; do
        case $line in '' | '#'*) ;; *) "$@" "$line" ;; esac
    done < "$record"
}
tell_link() { if [ -L "$1" ]; then echo "unit enabled"; else echo "unit disabled"; fi; } # BOOT-LINK
tell_unit() { # UNIT
    for asker in curl python3 wget bash; do
        if command -v "$asker" > /dev/null 2>&1; then echo "asker=$asker"; fi
    done
    if command -v systemctl > /dev/null 2>&1 && [ -d /run/systemd/system ]; then
        systemctl show -p ActiveState -p SubState "$1"
    fi
    echo end
}
