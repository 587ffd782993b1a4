# shellcheck shell=sh
# Files, replaced atomically. `written` has a line for each: NUMBER CHECKSUM MODE OWNER GROUP PATH. Its
# content is base64 in a file named by the number. `absent` has the paths that must not exist.

files_read_rights() {
    set --
    while IFS=' ' read -r _ _ _ _ _ path <&3; do set -- "$@" "$path"; done 3< "$PART/written"
    while IFS= read -r path <&3; do set -- "$@" "$path"; done 3< "$PART/absent"
    read_rights "$@"
}
files_each() { # COMMAND: run it with NUMBER CHECKSUM MODE OWNER GROUP PATH; "- absent - - - PATH" for a path to remove
    files_read_rights
    while IFS=' ' read -r number checksum mode owner group path <&3; do
        "$1" "$number" "$checksum" "$mode" "$owner" "$group" "$path" 3<&- || return 1
    done 3< "$PART/written"
    while IFS= read -r path <&3; do
        "$1" - absent - - - "$path" 3<&- || return 1
    done 3< "$PART/absent"
}
files_keep() { files_each files_keep_one && files_finish; }
files_keep_one() {
    if [ "$1" != - ]; then write_beside "$1" "$6" < "$PART/$1" || return 1; fi
    keep "$FOLDER/backup" "$6"
}
files_finish() { # in one call for consecutive files of the same mode and owner
    same=
    set --
    while IFS=' ' read -r number _ mode owner group path <&3; do
        if [ "$mode $owner:$group" != "$same" ]; then
            [ "$#" -eq 0 ] || finish_staged "${same% *}" "${same#* }" "$@" || return 1
            same="$mode $owner:$group"
            set --
        fi
        temporary "$number" "$path" || return 1
        set -- "$@" "$new"
    done 3< "$PART/written"
    [ "$#" -eq 0 ] || finish_staged "${same% *}" "${same#* }" "$@"
}
files_apply() { # each file is replaced atomically; after an interruption all are put back
    if ! files_each files_place_one 2> "$PART/errors"; then
        why="$path could not be $([ "$checksum" = absent ] && echo removed || echo replaced): $(files_error)"
        return 1
    fi
    why="the replaced files could not be flushed"
    set --
    while IFS=' ' read -r _ _ _ _ _ path <&3; do
        resolve "$path" || return 1
        set -- "$@" "${target%/*}/"
    done 3< "$PART/written"
    [ "$#" -eq 0 ] || sync "$@"
}
files_place_one() { if [ "$1" = - ]; then remove "$6"; else rename_staged "$1" "$6"; fi; }
files_error() { # the last line that programs have said of what failed, which the unit's journal has too
    cat "$PART/errors" >&2
    tail -n 1 "$PART/errors"
}
files_undo() {
    take_back_once files_each files_take_back 2> "$PART/errors" && return
    why="these files could not be put back: $(tr '\n' ' ' < "$PART/stuck")($(files_error))"
    return 1
}
files_take_back() { # keep a copy of a text that is neither ours nor the backup's
    now=$(content "$6")
    if [ "$now" != absent ] && [ "$now" != "$2" ] && [ "$now" != "$(content "$FOLDER/backup$6")" ]; then
        keep "$FOLDER/edited" "$6" || {
            printf '%s\n' "$6" >> "$PART/stuck"
            return
        }
    fi
    take_back "$6"
}
files_by_hand() { stuck_by_hand; }
files_discard() {
    files_each files_discard_one
    remove_made
}
files_discard_one() { [ "$1" = - ] || discard "$1" "$6" || :; } # go on after a file that cannot be removed
files_notes() { # the texts that files_take_back kept
    [ -d "$FOLDER/edited" ] || return 0
    find "$FOLDER/edited" -type f | LC_ALL=C sort | while IFS= read -r path; do
        printf '; %s was edited during the change: its text is kept in %s' "${path#"$FOLDER/edited"}" "$path"
    done
}
