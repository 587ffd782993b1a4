# shellcheck shell=sh
# Writes files: all of them, or none. Everything is staged and flushed before the first file is replaced; what is
# replaced or removed is kept below BACKUP_DIR, and put back when a later replacement fails.

write_files() { # lines NUMBER MODE OWNER GROUP BASE64 PATH on stdin; "-" for all but PATH: it must not exist
    umask 022
    backup=$BACKUP_DIR/$(date -u +%Y%m%dT%H%M%SZ)-$$
    wanted=$(cat)
    replacing=
    trap undo_files EXIT
    trap 'exit 1' HUP INT TERM
    each_file stage_file && each_file keep_file || exit 1
    replacing=yes
    each_file place_file || exit 1
    replacing=
}
each_file() { # COMMAND: run it with NUMBER MODE OWNER GROUP BASE64 PATH
    while IFS=' ' read -r number mode owner group text path <&3; do
        "$1" "$number" "$mode" "$owner" "$group" "$text" "$path" 3<&- || return 1
    done 3<<END
$wanted
END
}
stage_file() {
    if [ "$1" = - ]; then return; fi
    case $5 in
    _) text= ;; # an empty file
    *) text=$5 ;;
    esac
    printf '%s\n' "$text" | stage "$1" "$6" "$2" "$3" "$4"
}
keep_file() { keep "$backup" "$6"; }
place_file() { if [ "$1" = - ]; then remove "$6"; else place "$1" "$6"; fi; }
discard_file() { if [ "$1" != - ]; then discard "$1" "$6"; fi; }
put_file_back() { put_back "$backup" "$6" || :; }
undo_files() {
    status=$?
    if [ "$status" -ne 0 ]; then
        each_file discard_file
        if [ -n "$replacing" ]; then
            echo "putting back what was there before" >&2
            each_file put_file_back
        fi
    fi
    exit "$status"
}
