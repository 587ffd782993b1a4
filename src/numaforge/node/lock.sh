# shellcheck shell=sh
# Which transaction is at work: $ROOT/current is a link to the one that has begun and not ended. While it is
# there, a unit of the node's own stands before the units that the parts have stopped, and another one waits for a
# boot that does not get so far.

BOOT_UNIT=/etc/systemd/system/numaforge-recover.service
RESCUE_UNIT=/etc/systemd/system/numaforge-rescue.service

pause() { sleep 0.5 2> /dev/null || sleep 1; }
has_systemd() { [ -d /run/systemd/system ]; } # as sd_booted(3) asks
runs() { # ID: a unit is loaded until systemd has run its recover half too
    [ "$(systemctl show -p LoadState --value "numaforge-$1.service" 2> /dev/null)" = loaded ] || boots "$1"
}
boots() { # ID: after a boot another unit goes on with it first, and a login may come before that has ended
    [ "$(readlink "$ROOT/current")" = "$1" ] &&
        [ "$(systemctl show -p ActiveState --value "${BOOT_UNIT##*/}" 2> /dev/null)" = activating ]
}
going_down() { # reboot, poweroff, halt, kexec: each of them is on its way to this target
    case $(systemctl show -p ActiveState -p Job shutdown.target 2> /dev/null) in
    *ActiveState=active* | *Job=[1-9]*) return 0 ;;
    *) return 1 ;;
    esac
}
has_begun() { [ -e "$FOLDER/state" ] || [ "$(readlink "$ROOT/current")" = "$ID" ]; }
settle() { # wait for a transaction that is ending, undo one that was broken off
    other=$(readlink "$ROOT/current") || return 0
    while runs "$other"; do pause; done
    if [ ! -e "$ROOT/$other/run.sh" ]; then
        rm -f "$ROOT/current"
    elif [ -L "$ROOT/current" ]; then
        sh "$ROOT/$other/run.sh" recover 9>&- || : # what became of it is in its result; none: it waits for a boot
        while runs "$other"; do pause; done
    fi
}
settle_current() {
    [ -d "$ROOT" ] || return 0
    while other=$(readlink "$ROOT/current") && runs "$other"; do pause; done
    exec 9> "$ROOT/lock" && flock 9 && settle
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
stand_in_front() { # after a reboot nothing may start with what is half written
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
boot_unit() {
    cat << END
# Written by numaforge; it is removed when the change of the node has ended.
[Unit]
Description=Go on with a change of this node after a reboot, or undo it
${UNITS:+Before=$UNITS}
RequiresMountsFor=$ROOT
ConditionPathIsSymbolicLink=$ROOT/current

[Service]
Type=oneshot
ExecStart=/bin/sh $ROOT/current/run.sh boot
TimeoutStartSec=$BOOT_SECONDS
END
}
# In emergency mode little has been started, and that waits for nothing: neither does this, but for what it reads.
rescue_unit() {
    cat << END
# Written by numaforge; it is removed when the change of the node has ended.
[Unit]
Description=Undo a change of this node whose boot has ended in emergency or rescue mode
DefaultDependencies=no
After=local-fs.target
Conflicts=shutdown.target
Before=shutdown.target
RequiresMountsFor=$ROOT
ConditionPathIsSymbolicLink=$ROOT/current

[Service]
Type=oneshot
ExecStart=/bin/sh $ROOT/current/run.sh rescue
TimeoutStartSec=$BOOT_SECONDS
StandardOutput=journal+console
StandardError=journal+console
END
}
hand_over() { # VERB: have systemd do it, whatever becomes of the connection over which it was asked for
    if ! has_systemd; then
        sh "$FOLDER/run.sh" "$1" 9>&- # a change that failed has its result
        [ -e "$FOLDER/result.json" ]
        return
    fi
    systemd-run "--unit=numaforge-$ID.service" --collect "--description=numaforge changes this node" \
        "--property=RuntimeMaxSec=$((CHANGE_SECONDS + UNDO_SECONDS))" \
        "--property=TimeoutStopSec=$UNDO_SECONDS" "--property=ExecStopPost=/bin/sh $FOLDER/run.sh recover" \
        /bin/sh "$FOLDER/run.sh" "$1" 9>&-
}
begin() { # apply or revert
    umask 022
    exec 9> "$ROOT/lock" && flock 9 || return 1
    other=$(readlink "$ROOT/current")
    if [ -n "$other" ] && runs "$other" && [ ! -e "$ROOT/$other/result.json" ]; then
        if [ "$other $1" = "$ID apply" ]; then return; fi
        if [ "$other $1" = "$ID revert" ] && [ -e "$FOLDER/revert" ]; then return; fi
        echo "the transaction $other is changing this node ($(cat "$ROOT/$other/state")):" \
            "wait until it has ended" >&2
        return 1
    fi
    settle
    while runs "$ID"; do pause; done
    if [ -L "$ROOT/current" ]; then
        echo "the transaction $other was broken off and cannot be ended: see $ROOT/$other" >&2
        return 1
    fi
    case $1,$(outcome "$FOLDER") in
    apply,)
        if [ -e "$FOLDER/state" ]; then # to begin again would take what is half written for the old
            echo "the transaction $ID was interrupted, and its lock is gone: see $FOLDER" >&2
            return 1
        fi
        if outdated; then
            finish void "nothing was changed: $why"
            return
        fi
        ;;
    revert,applied) mv -f "$FOLDER/revert.new" "$FOLDER/revert" && sync "$FOLDER/revert" || return 1 ;;
    revert,)
        echo "the transaction $ID has not been applied: there is nothing to undo" >&2
        return 1
        ;;
    *) return ;;
    esac
    if ! { take && hand_over "$1"; }; then
        release
        return 1
    fi
}
