# shellcheck shell=sh
# What reaches a transaction from outside: its files, the request to undo it, its withdrawal, the question how
# far it is. ROOT and ID are variables; FOLDER is the transaction's.

deliver() { # lines of NAME and base64 on stdin: the transaction's files, run.sh last
    umask 077
    mkdir -p "$FOLDER" || return 1
    if [ -e "$FOLDER/state" ]; then return; fi # it has begun
    while IFS=' ' read -r name text; do
        mkdir -p "$(dirname "$FOLDER/$name")" && printf '%s\n' "$text" | base64 -d > "$FOLDER/$name.new" &&
            mv -f "$FOLDER/$name.new" "$FOLDER/$name" || return 1
    done
    sync -f "$FOLDER"
}
start_transaction() { deliver && sh "$FOLDER/run.sh" begin apply < /dev/null; }
revert_transaction() { # the reason as base64 on stdin
    umask 077
    if [ ! -e "$FOLDER/run.sh" ]; then
        echo "this node knows no transaction $ID" >&2
        return 1
    fi
    base64 -d > "$FOLDER/revert.new" && sh "$FOLDER/run.sh" begin revert < /dev/null
}
void_transaction() { # nothing happens to one that has begun
    umask 077
    mkdir -p "$FOLDER" || return 1
    exec 9> "$ROOT/lock" && flock 9 || return 1
    if has_begun || [ -n "$(outcome "$FOLDER")" ]; then return; fi
    finish void "nothing was changed: the transaction was withdrawn before it began"
}
# The unit before the result: it ends after it has written that. An older version wrote any bytes into it.
tell_status() { # KUBELET-UNIT
    if has_systemd; then
        if boots "$ID"; then echo LoadState=loaded; else systemctl show -p LoadState "numaforge-$ID.service"; fi
        systemctl show -p MainPID -p NRestarts -p ActiveEnterTimestampMonotonic "$1"
    else
        printf '%s=0\n' MainPID NRestarts ActiveEnterTimestampMonotonic
        echo LoadState=not-found
    fi
    echo "Boot=$(boot_id)"
    echo "Booted=$(sed -n 's/^btime //p' /proc/stat)"
    echo "Phase=$(noted state)"
    echo Result
    noted result.json | valid_utf8
    echo .
}
