# shellcheck shell=sh
# The open transaction: $ROOT/current is a link to it. While the link exists, the boot unit runs before the units that
# the parts have stopped, and the rescue unit handles a boot that does not get that far. The process working on a
# transaction holds a lock on its file `alive`. Each wait for a lock has a limit, and its message names who has the lock.

BOOT_UNIT=/etc/systemd/system/numaforge-recover.service
RESCUE_UNIT=/etc/systemd/system/numaforge-rescue.service

LOCK_SECONDS=120 # to begin a transaction, or to decide on one, takes less
LEFT_SECONDS=60  # killed processes of a transaction have ended before, and the boot unit waits longer

pause() { sleep 0.5 2> /dev/null || sleep 1; }
lock() { # FD FILE SECONDS: the lock of a file that is open; sets `why`, and prints it
    flock -w "$3" "$1" && return
    why="$(owner "$2") has kept the lock of $2 longer than $3 s: run again once that has ended"
    echo "$why" >&2
    return 1
}
owner() ( # FILE: prints which process has its lock, or shares it with one that has ended
    set +f
    file=$(readlink -f "$1")
    found=$(grep -ls '^lock:.*FLOCK' /proc/[0-9]*/fdinfo/* | while IFS= read -r info; do
        process=${info%/fdinfo/*}
        if [ "$(readlink "$process/fd/${info##*/}")" != "$file" ]; then continue; fi
        IFS= read -r name < "$process/comm"
        printf 'process %s (%s)\n' "${process#/proc/}" "$name" && break
    done)
    printf '%s\n' "${found:-another process}"
) 2> /dev/null
lock_all() { exec 9> "$ROOT/lock" && lock 9 "$ROOT/lock" "$(time_to_end current)"; } # who has it may wait for what is open
time_to_end() {                                                                     # ID: the seconds that systemd gives it at most
    seconds=$LOCK_SECONDS
    while read -r setting value; do
        case $setting in
        CHANGE_SECONDS | COMMIT_SECONDS) seconds=$((seconds + value)) ;;
        UNDO_SECONDS) seconds=$((seconds + 2 * value)) ;;
        esac
    done < "$ROOT/$1/settings"
    echo "$seconds"
} 2> /dev/null
hold() { exec 8< "$FOLDER/alive" && lock 8 "$FOLDER/alive" "$LEFT_SECONDS"; } # until this process and its children have ended
held() { [ -e "$ROOT/$1/alive" ] && ! flock -n -s 6 6< "$ROOT/$1/alive"; }
runs() { # ID: 1: no, 2: unknown. A unit is loaded until systemd has run its recover half too
    if held "$1"; then return 0; fi
    has_systemd || return 1
    case $(systemd_says -p LoadState --value "numaforge-$1.service") in
    loaded) return 0 ;;
    '') return 2 ;;
    esac
    # After a boot the boot unit continues it first, and a login may come before that has ended.
    [ "$(readlink "$ROOT/current")" = "$1" ] || return 1
    case $(systemd_says -p ActiveState --value "${BOOT_UNIT##*/}") in
    activating) return 0 ;;
    '') return 2 ;;
    *) return 1 ;;
    esac
}
may_run() { # ID
    runs "$1"
    [ "$?" -ne 1 ]
}
going_down() { # reboot, poweroff, halt and kexec all start this target
    has_systemd || return 1
    for _ in 1 2 3; do
        case $(systemd_says -p ActiveState -p Job shutdown.target) in
        *ActiveState=active* | *Job=[1-9]*) return 0 ;;
        *ActiveState=*) return 1 ;;
        esac
        pause
    done
    echo "systemd does not answer: nothing is started before it does, or before the next boot" >&2
}
has_begun() { [ -e "$FOLDER/state" ] || [ "$(readlink "$ROOT/current")" = "$ID" ]; }
awaits_confirmation() { # ID
    IFS= read -r state < "$ROOT/$1/state" && [ "$state" = confirming ] &&
        [ ! -e "$ROOT/$1/confirmed" ] && [ ! -e "$ROOT/$1/why" ] && held "$1"
} 2> /dev/null
is_parked() { # ID
    IFS= read -r state < "$ROOT/$1/state" && [ "$state" != "${state#parked }" ] && held "$1"
} 2> /dev/null
waits() { awaits_confirmation "$1" || is_parked "$1"; } # ID
await_end() {                                           # ID: wait until nothing works on it, or it waits
    unanswered=0
    limit=$(time_to_end "$1")
    deadline=$(($(uptime_seconds) + limit))
    until waits "$1"; do
        runs "$1"
        case $? in
        0) unanswered=0 ;;
        1) return 0 ;;
        *) unanswered=$((unanswered + 1)) ;;
        esac
        if [ "$unanswered" -ge 6 ]; then
            echo "systemd does not answer: it is unknown whether the transaction $1 still runs" >&2
            return 1
        fi
        if [ "$(uptime_seconds)" -ge "$deadline" ]; then
            echo "the transaction $1 has not ended within $limit s ($(cat "$ROOT/$1/state")):" \
                "$(owner "$ROOT/$1/alive") still works on it" >&2
            return 1
        fi
        pause
    done
}
settle() { # wait for a transaction that is ending, undo one that was broken off
    other=$(readlink "$ROOT/current") || return 0
    await_end "$other" || return 1
    if waits "$other"; then return; fi
    if [ ! -e "$ROOT/$other/run.sh" ]; then
        rm -f "$ROOT/current"
    elif [ -L "$ROOT/current" ]; then
        # Its result has the outcome; without one it waits for a boot, or for its confirmation.
        sh "$ROOT/$other/run.sh" carry_on 9>&- || :
        await_end "$other"
    fi
}
settle_current() { # prints which transaction waits, if one does, for its confirmation or for pods to leave
    [ -d "$ROOT" ] || return 0
    if other=$(readlink "$ROOT/current"); then await_end "$other" || return 1; fi
    lock_all && settle || return 1
    other=$(readlink "$ROOT/current") || return 0
    if awaits_confirmation "$other"; then
        echo "confirming $other"
    elif is_parked "$other"; then
        echo "parked $other: $(cat "$ROOT/$other/parked")"
    fi
}
release() {
    if [ "$(readlink "$ROOT/current")" = "$ID" ]; then
        stand_aside
        rm -f "$ROOT/current"
    fi
}
take() {
    record boot "$(boot_id)" && stand_in_front && ln -s "$ID" "$ROOT/current" && sync "$ROOT"
}
stand_in_front() { # after a reboot nothing may start with half-written files
    has_systemd || return 0
    boot_unit > "$BOOT_UNIT" && rescue_unit > "$RESCUE_UNIT" && each_link stand_in &&
        sync "$BOOT_UNIT" "$RESCUE_UNIT" "${BOOT_UNIT%/*}"
}
stand_aside() {
    each_link no_longer
    rm -f "$BOOT_UNIT" "$RESCUE_UNIT"
}
each_link() { # COMMAND: run it with each unit and the folder of what starts it
    "$1" "$BOOT_UNIT" "${BOOT_UNIT%/*}/multi-user.target.wants" &&
        "$1" "$RESCUE_UNIT" "${RESCUE_UNIT%/*}/emergency.target.wants" &&
        "$1" "$RESCUE_UNIT" "${RESCUE_UNIT%/*}/rescue.target.wants"
}
stand_in() { mkdir -p "$2" && ln -sf "$1" "$2/${1##*/}" && sync "$2"; } # UNIT FOLDER
no_longer() {                                                          # UNIT FOLDER
    rm -f "$2/${1##*/}"
    case $2 in */multi-user.*) ;; *) rmdir "$2" 2> /dev/null || : ;; esac
}
unit_of_boot() { # DESCRIPTION VERB ORDER [OUTPUT]
    cat << END
# Written by numaforge; it is removed when the change of the node has ended.
[Unit]
Description=$1
$3
RequiresMountsFor=$ROOT
ConditionPathIsSymbolicLink=$ROOT/current

[Service]
Type=oneshot
ExecStart=/bin/sh $ROOT/current/run.sh $2
TimeoutStartSec=$BOOT_SECONDS
${4:+StandardOutput=$4${newline}StandardError=$4}
END
}
boot_unit() { unit_of_boot 'Go on with a change of this node after a reboot, or undo it' boot "${UNITS:+Before=$UNITS}"; }
# In emergency mode few units have started, and they wait for nothing; this one waits only for what it reads.
rescue_unit() {
    unit_of_boot 'Undo a change of this node whose boot has ended in emergency or rescue mode' rescue \
        "DefaultDependencies=no${newline}After=local-fs.target${newline}Conflicts=shutdown.target${newline}Before=shutdown.target" \
        journal+console
}
hand_over() { # VERB: have systemd run it, independently of the connection that asked for it
    if ! has_systemd; then
        sh "$FOLDER/run.sh" "$1" > /dev/null 2> "$FOLDER/said" < /dev/null 8>&- 9>&- &
        deadline=$(($(uptime_seconds) + $(time_to_end "$ID")))
        while kill -0 "$!" 2> /dev/null && ! waits "$ID" && [ "$(uptime_seconds)" -lt "$deadline" ]; do pause; done
        if [ -e "$FOLDER/result.json" ] || waits "$ID"; then return; fi # a failed one has its result
        cat "$FOLDER/said" >&2
        if held "$ID"; then echo "process $! still works on the transaction $ID ($(noted state))" >&2; fi
        return 1
    fi
    systemd-run "--unit=numaforge-$ID.service" --collect --property=NotifyAccess=all "--description=numaforge changes this node" \
        "--property=RuntimeMaxSec=$((CHANGE_SECONDS + UNDO_SECONDS))" \
        "--property=TimeoutStopSec=$((UNDO_SECONDS + COMMIT_SECONDS))" "--property=ExecStopPost=/bin/sh $FOLDER/run.sh recover" \
        /bin/sh "$FOLDER/run.sh" "$1" 8>&- 9>&-
}
begin() { # apply, or revert REQUEST
    umask 022
    lock_all || return 1
    other=$(readlink "$ROOT/current")
    if [ -n "$other" ] && [ ! -e "$ROOT/$other/result.json" ] && may_run "$other"; then
        if [ "$other $1" = "$ID apply" ]; then return; fi
        if [ "$other $1" = "$ID revert" ] && [ -e "$FOLDER/revert" ]; then return; fi
        state=$(cat "$ROOT/$other/state")
        case $state in "parked "*) state="$state: $(cat "$ROOT/$other/parked")" ;; esac
        echo "the transaction $other is changing this node ($state): wait until it has ended" >&2
        return 1
    fi
    settle && await_end "$ID" || return 1
    if [ -L "$ROOT/current" ]; then
        echo "the transaction $other was broken off and cannot be ended: see $ROOT/$other" >&2
        return 1
    fi
    case $1,$(outcome "$FOLDER") in
    apply,)
        if [ -e "$FOLDER/state" ] || [ "$(seen)" = began ]; then # a second begin would keep half-written files
            echo "the transaction $ID has begun before, and its lock or its records are gone: see $FOLDER" >&2
            return 1
        fi
        if [ -n "$DRAINED" ]; then keepers_that_stay >> "$FOLDER/allowed"; fi
        if outdated; then
            finish void "nothing was changed: $why"
            return
        fi
        ;;
    revert,applied)
        if [ "$(last)" != "$ID applied" ]; then
            echo "nothing is undone: another transaction has ended since ($(last))" >&2
            return 1
        fi
        if outdated_request "$2"; then
            echo "nothing is undone: $why"
            return
        fi
        take_request "$2" || return 1
        ;;
    revert,)
        echo "the transaction $ID has not been applied: there is nothing to undo" >&2
        return 1
        ;;
    *) return ;;
    esac
    if ! take || ! see began "$ID"; then
        release
        return 1
    fi
    trim_seen
    if ! hand_over "$1"; then
        if may_run "$ID"; then return 1; fi # systemd may have begun nevertheless
        see announced "$ID"
        rm -f "$FOLDER/revert"
        release
        return 1
    fi
}
