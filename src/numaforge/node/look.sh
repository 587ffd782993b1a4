# shellcheck shell=sh
# The input of a change's decision, read in one pass.

tell_transactions() {
    printf 'boot '
    boot_id
    printf 'uptime '
    uptime_seconds
    printf 'last '
    last
    if [ -e "$ROOT/failed" ]; then sed 's/^/failed-/' "$ROOT/failed"; fi
    tell_unfinished "$ROOT"
    if [ -e "$GUARD" ]; then echo "plans-itself $GUARD"; fi
    for folder in "$ROOT"/*/; do
        if [ -e "$folder/unproved" ]; then
            folder=${folder%/}
            echo "unproved ${folder##*/}"
        fi
    done
}
# A change must find these checksums again. They are taken before any text is read and before any part looks: an edit in
# between counts as one after the look, and the change does not begin.
read_files_and_drop_ins() { # FOLDER KNOWN-CHECKSUMS PATH...
    found=
    if [ -d "$1" ]; then found=$(find -L "$1" -type f -name '*.conf'); fi
    shift
    set -f
    IFS='
'
    begin_part drop-ins
    for file in $found; do printf '%s\n' "$file"; done
    # shellcheck disable=SC2086 # a line each
    read_files "$@" $found
}
tell_redirectable() { # PATH...: a line "NUMBER WHY", from 0, for each that another user could redirect (paths.sh)
    read_rights "$@"
    number=0
    for path; do
        resolve "$path" 2> /dev/null || tell_first_line "$number" "$why"
        number=$((number + 1))
    done
}
# Building blocks for the looks of parts. Each line begins with a word of the part's own. File contents are printed by
# printf, since echo turns a backslash and an n into a newline.
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
        echo systemd=runs
        for property in ActiveState SubState; do
            unit_says "$1" "$property"
            echo "$property=$unit_value"
        done
    fi
}
