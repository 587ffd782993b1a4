# shellcheck shell=sh
# Removes what remains on a host once all settings are taken back: the plan, and the state of earlier runs. It may be
# interrupted anywhere: the folder of the plan goes last, and while any of it is left, another run resumes.

RECORDS=/etc/numaforge
PROGRAMS=/usr/local/lib/numaforge
kept() { # print whether anything remains: yes or no
    for each in "$RECORDS" "$PROGRAMS" "$STATE" "$RUN" "$MODPROBE"; do
        if [ -e "$each" ]; then
            echo yes
            return
        fi
    done
    echo no
}
forget() { # CONFIG-DIR-FLAG, empty where the kubelet is started without one
    if [ -d "$ROOT" ]; then # keep a transaction from starting
        exec 9> "$ROOT/lock" && flock 9 || return 1
    fi
    if [ -L "$ROOT/current" ]; then
        echo "a change of this node has not ended: run again, which ends it first" >&2
        return 1
    fi
    if [ -e "$GUARD" ]; then
        echo "this node plans itself before its kubelet starts, and would do so again: first" \
            "systemctl disable numaforge-boot.service, rm $GUARD and systemctl daemon-reload" >&2
        return 1
    fi
    left=$(find "$RECORDS" "$MODPROBE" ! -type d ! -path "$PLAN" ! -path "$RECORDS/boot.yaml" ! -path "$RECORDS/profile*" \
        ! -path "$RECORDS/image/*" 2> /dev/null | LC_ALL=C sort | tr '\n' ' ')
    if [ -n "$left" ]; then
        echo "${left% }: not taken back yet, because it waits for a reboot or could not be: see above, then run again" >&2
        return 1
    fi
    if [ -z "$1" ] && [ -d "$CONFIG_DIR" ]; then rmdir "$CONFIG_DIR" 2> /dev/null || :; fi # others' files stay
    if [ -d "$PROGRAMS" ]; then rmdir "$PROGRAMS" || return 1; fi
    rm -rf "$RUN" "$STATE" && rm -f "$PLAN" || return 1
    if [ -d "$RECORDS" ] && [ ! -d "$RECORDS/image" ]; then rmdir "$RECORDS" || return 1; fi
}
