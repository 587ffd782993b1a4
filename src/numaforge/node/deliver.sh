# shellcheck shell=sh
# What reaches a transaction from outside: its files, the request to undo it, its withdrawal, and status queries. ROOT
# and ID are variables; FOLDER is the transaction's.

NEWS_TURNS=8
TIDY_SECONDS=4

# The files are one text in base64 on stdin, run.sh last. An empty text and a transaction that was delivered before
# write nothing; one shell at a time delivers.
deliver() ( # CHECKSUM SED-SCRIPT NAMES: the script writes each file's lines to it
    umask 077
    mkdir -p "$FOLDER" && cd "$FOLDER" && lock_all || exit 1
    if [ -e run.sh ]; then exit; fi
    folders=
    for name in $3; do
        case $name in */*) folders="$folders ${name%/*}" ;; esac
    done
    # shellcheck disable=SC2086 # names of ours
    [ -z "$folders" ] || mkdir -p $folders || exit 1
    for name in $3; do : > "$name"; done
    base64 -d | LC_ALL=C sed -n "$2" || exit 1
    # shellcheck disable=SC2086
    if [ "$(cat $3 | sha256sum)" != "$1  -" ]; then
        echo "the transaction's files could not be written below $FOLDER: is there room?" >&2
        exit 1
    fi
    sync -f . && mv -f run.sh.new run.sh && sync . # run.sh never exists without the rest, even after a power cut
)
start_transaction() { deliver "$@" && sh "$FOLDER/run.sh" begin apply < /dev/null; }
revert_transaction() { # the request as base64 on stdin: see fence.sh
    umask 077
    if [ ! -e "$FOLDER/run.sh" ]; then
        echo "this node knows no transaction $ID" >&2
        return 1
    fi
    base64 -d > "$FOLDER/request.$$" || return 1
    sh "$FOLDER/run.sh" begin revert "$FOLDER/request.$$" < /dev/null
    answer=$?
    rm -f "$FOLDER/request.$$"
    return "$answer"
}
renew_lease() { # the UIDs of the pods that may be there on stdin, a line each: see pods.sh
    umask 077
    if [ ! -e "$FOLDER/run.sh" ]; then return; fi
    { cat && keepers_that_stay; } > "$FOLDER/allowed.$$" && sync "$FOLDER/allowed.$$" && mv -f "$FOLDER/allowed.$$" "$FOLDER/allowed" && sync "$FOLDER"
}
# Only a waiting transaction is confirmed, within its time and in the boot in which it began to wait. Otherwise the
# state is printed and nothing changes.
confirm_transaction() ( # the attempt's token on stdin
    umask 077
    IFS= read -r token || exit 1
    if [ ! -e "$FOLDER/token" ]; then
        echo "not confirmed: this node knows no transaction $ID"
        exit
    fi
    exec 7> "$FOLDER/decision" && lock 7 "$FOLDER/decision" "$LOCK_SECONDS" || exit 1
    if why_not_confirmed "$token"; then
        echo "not confirmed: $why"
    else
        record confirmed yes && echo confirmed
    fi
)
why_not_confirmed() { # TOKEN: sets `why`
    why="the transaction $ID ended as $(outcome "$FOLDER")"
    if [ -e "$FOLDER/result.json" ]; then return; fi
    why="another attempt is meant"
    if [ "$1" != "$(noted token)" ]; then return; fi
    why="the transaction $ID goes back already: $(noted why)"
    if [ -e "$FOLDER/why" ]; then return; fi
    if [ -e "$FOLDER/confirmed" ]; then return 1; fi
    why="the transaction $ID does not wait for it ($(noted state))"
    if [ "$(noted state)" != confirming ] || ! read -r deadline waits < "$FOLDER/waits"; then return; fi
    why="the node was rebooted"
    if [ "$waits" != "$(boot_id)" ]; then return; fi
    why="it comes too late"
    [ "$(uptime_seconds)" -ge "$deadline" ]
}
# Requests sent to the transaction before and still in transit lose their effect; what it does by itself continues.
void_transaction() {
    umask 077
    mkdir -p "$FOLDER" || return 1
    lock_all || return 1
    if [ -e "$FOLDER/token" ]; then
        record token "$(noted token)." || return 1 # differs from the token in earlier requests
    fi
    if has_begun || [ -n "$(outcome "$FOLDER")" ] || may_run "$ID"; then return; fi
    if [ "$(seen)" = announced ]; then
        finish void "nothing was changed: the transaction was withdrawn before it began"
    else
        finish unknown "the node's records of the transaction are gone, so it is unknown whether it has begun"
    fi
}
# The unit before the result: it ends after it has written that; and the result once what wrote it has tidied up, so that
# whoever looks next finds nothing of the change. An older version wrote arbitrary bytes into it. This
# runs repeatedly while a node works: each program that it starts takes CPU time from that work, and systemd, busy then,
# is not asked while the transaction's lock says enough.
tell_status() { # [KNOWN-PHASE]
    if [ -n "${1-}" ]; then await_news "$1"; fi
    if may_run "$ID"; then echo LoadState=loaded; else echo LoadState=not-found; fi
    printf Boot=
    boot_of_worker || boot_id
    printf Uptime=
    uptime_seconds
    tell_first_line_of Token token
    tell_first_line_of Phase state
    case $text in "parked "*) tell_first_line_of Parked parked ;; esac
    begin_part result
    if [ ! -e "$FOLDER/result.json" ]; then return; fi
    if [ "$(readlink "$ROOT/current")" = "$ID" ] && held "$ID" && ! flock -w "$TIDY_SECONDS" -s 6 6< "$FOLDER/alive"; then return; fi
    valid_utf8 < "$FOLDER/result.json"
}
boot_of_worker() { # systemd is busy while a change works; and the worker, which noted it, outlives no boot
    held "$ID" && boot=$(noted boot) || return 1
    case $boot in
    "$(kernel_boot_id)":*) printf '%s\n' "$boot" ;;
    *) return 1 ;;
    esac
}
await_news() { # PHASE: wait until it changes or the work ends; a few seconds at most, for the worker may have died
    turns=0
    while [ "$turns" -lt "$NEWS_TURNS" ] && IFS= read -r state < "$FOLDER/state" && [ "$state" = "$1" ] &&
        [ ! -e "$FOLDER/result.json" ]; do
        pause
        turns=$((turns + 1))
    done
} 2> /dev/null
tell_process() { # KUBELET-UNIT
    if has_systemd; then
        # shutdown.target is read after the kubelet: a shutdown has queued its job before it stops the kubelet.
        systemd_says -p MainPID -p NRestarts -p ActiveState -p Job -p ExecMainStartTimestampMonotonic \
            -p ActiveEnterTimestampMonotonic "$1" shutdown.target | tell_both
    else
        printf '%s=0\n' MainPID NRestarts ExecMainStartTimestampMonotonic ActiveEnterTimestampMonotonic
        printf '%s\n' ActiveState= ShutdownActiveState=inactive
    fi
    printf Boot= # the cluster's word for it
    kernel_boot_id
    sed -n 's/^btime /Booted=/p' /proc/stat
}
tell_both() { # the properties of the kubelet's unit, an empty line, those of shutdown.target
    of=
    while IFS= read -r property; do
        if [ -n "$property" ]; then printf '%s%s\n' "$of" "$property"; else of=Shutdown; fi
    done
}
tell_first_line_of() { # NAME FILE-OF-THE-TRANSACTION
    text=
    IFS= read -r text < "$FOLDER/$2"
    printf '%s=%s\n' "$1" "$text"
} 2> /dev/null
