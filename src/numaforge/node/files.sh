# shellcheck shell=sh
# The building blocks of all code that replaces files, whose paths are resolved first (paths.sh): a file behind a
# symbolic link is replaced, and the link stays.

temporary() { # NUMBER PATH: sets `new` to a name beside its target, which is in `target`
    resolve "$2" && new=${target%/*}/.numaforge-$1
}
stage() { write_beside "$1" "$2" && finish_staged "$3" "$4:$5" "$new"; } # NUMBER PATH MODE OWNER GROUP, base64 on stdin
write_beside() {                                                         # NUMBER PATH, content as base64 on stdin
    temporary "$1" "$2" || return 1
    if [ -e "$target" ] && [ ! -f "$target" ]; then
        echo "$2: is not a regular file; move it away and run again" >&2
        return 1
    fi
    folder_of "$target" && base64 -d > "$new"
}
finish_staged() { # MODE OWNER:GROUP FILE...: all that have these, by one program each, and flushed
    bits=$1 owners=$2
    shift 2
    chown "$owners" "$@" && chmod "$bits" "$@" && sync "$@"
}
folder_of() { # PATH: make it; what is made outside of the transaction goes with an undo
    if [ -d "${1%/*}/" ]; then return; fi
    case $1 in
    "$FOLDER"/*) ;;
    *)
        made=${1%/*}
        until [ -d "$made/" ]; do
            printf '%s\n' "$made" >> "$FOLDER/made" || return 1
            made=${made%/*}
        done
        ;;
    esac
    mkdir -p "${1%/*}"
}
remove_made() { # the folders that `folder_of` made and that are empty
    [ -e "$FOLDER/made" ] || return 0
    while IFS= read -r made; do
        if resolve "$made/."; then rmdir "$made" 2> /dev/null || :; fi
    done < "$FOLDER/made"
}
discard() { # NUMBER PATH
    temporary "$1" "$2" && rm -f "$new"
}
place() { rename_staged "$1" "$2" && sync "${target%/*}/"; } # NUMBER PATH: replace the target with the staged file
rename_staged() {                                            # NUMBER PATH: without flushing its folder
    temporary "$1" "$2" && mv -f "$new" "$target"
}
keep() { # FOLDER PATH: copy the present file below FOLDER
    resolve "$2" || return 1
    if [ -e "$target" ]; then
        folder_of "$1$2" && cp -a "$target" "$1$2" && sync "$1$2"
    fi
}
remove() { # PATH, and its folder where that is one of drop-ins, or of ours, and has nothing else
    resolve "$1" || return 1
    if [ ! -e "$target" ]; then return; fi
    rm -f "$target" && sync "${target%/*}/" || return 1
    case ${target%/*} in
    /etc/systemd/system/*.d | /etc/numaforge | /var/lib/numaforge/lib) rmdir "${target%/*}" 2> /dev/null || : ;;
    esac
}
same() { # PATH PATH: equal in content, rights and age
    [ "$(stat -c '%a %u %g %Y' "$1")" = "$(stat -c '%a %u %g %Y' "$2" 2> /dev/null)" ] &&
        [ "$(sha256sum < "$1")" = "$(sha256sum < "$2")" ]
}
put_back() { # FOLDER PATH: restore PATH as `keep` saw it, in a folder that `remove` may have removed
    temporary back "$2" || return 1
    if [ ! -e "$1$2" ]; then
        remove "$2"
    elif ! same "$1$2" "$target"; then
        folder_of "$target" && cp -a "$1$2" "$new" && sync "$new" && place back "$2"
    fi
}
# A record on the host, with the lines of $PART/record, keeps the state before numaforge; without lines it is removed.
write_record() { # RECORD WHAT-IT-HOLDS
    if [ ! -s "$PART/record" ]; then
        remove "$1"
        return
    fi
    { echo "# Written by numaforge: $2." && cat "$PART/record"; } | base64 |
        stage new "$1" 0644 root root && place new "$1"
}
# How a part puts files back: `take_back` notes below $PART the files that it cannot restore, for `stuck_by_hand`.
take_back_once() { # COMMAND...: once only, as later edits and writes of started programs are no part of the change
    if [ -e "$PART/put-back" ]; then return; fi
    rm -f "$PART/stuck"
    "$@"
    remove_made
    if [ -e "$PART/stuck" ]; then return 1; fi
    : > "$PART/put-back"
}
take_back() { put_back "$FOLDER/backup" "$1" || printf '%s\n' "$1" >> "$PART/stuck"; } # PATH
stuck_by_hand() {
    while IFS= read -r path; do
        if [ -e "$FOLDER/backup$path" ]; then
            printf "mkdir -p '%s' && cp -a '%s' '%s'; " "${path%/*}" "$FOLDER/backup$path" "$path"
        else
            printf "rm -f '%s'; " "$path"
        fi
    done < "$PART/stuck"
}
# systemd reads the link of a unit at the next boot. `systemctl enable` would reload all units now, on a node with pods,
# which removes the GPUs of containers where /dev/char lacks their links
# (github.com/NVIDIA/nvidia-container-toolkit/issues/48).
keep_link() { # LINK
    readlink "$1" > "$PART/${1##*/}.link" || : > "$PART/${1##*/}.link"
}
link_unit() { # LINK TARGET; without a target there is no link
    if [ -n "$2" ]; then mkdir -p "${1%/*}" && ln -sfn "$2" "$1"; else rm -f "$1"; fi
}
link_unit_back() { link_unit "$1" "$(cat "$PART/${1##*/}.link")"; } # LINK
content() { # PATH: the checksum of its content
    sum=$(sha256sum < "$1") || sum=absent
    printf '%s\n' "${sum%% *}"
} 2> /dev/null
