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
    if [ -L "$ROOT/current" ]; then echo "unfinished $(readlink "$ROOT/current")"; fi
    for folder in "$ROOT"/*/; do
        if [ -e "$folder/unproved" ]; then
            folder=${folder%/}
            echo "unproved ${folder##*/}"
        fi
    done
}
tell_part() { # PART FUNCTION ARGUMENT...
    name=$1
    shift
    "$@" | sed "s/^/part $name /"
}
read_files_and_drop_ins() { # FOLDER KNOWN-CHECKSUMS PATH...
    found=
    if [ -d "$1" ]; then found=$(find -L "$1" -type f -name '*.conf'); fi
    shift
    set -f
    IFS='
'
    for file in $found; do echo "drop-in $file"; done
    echo files
    # shellcheck disable=SC2086 # a line each
    read_files "$@" $found
}
tell_unit() { # UNIT
    for asker in curl python3 wget bash; do
        if command -v "$asker" > /dev/null 2>&1; then echo "asker=$asker"; fi
    done
    if command -v systemctl > /dev/null 2>&1 && [ -d /run/systemd/system ]; then
        systemctl show -p ActiveState -p SubState "$1"
    fi
    echo end
}
