# shellcheck shell=sh
# Removes what remains on a host once all settings are taken back: the plan, and the state of earlier runs. It may be
# interrupted anywhere: the folder of the plan goes last, and while any of it is left, another run resumes. What an admin
# wrote into a file while a change was undone, which that transaction has kept in its folder `edited`, moves to EDITS.

RECORDS=/etc/numaforge
LOCK_SECONDS=120
kept() { # print whether anything remains: yes or no
    for each in "$RECORDS" "$STATE" "$RUN" "$MODPROBE"; do
        if [ -e "$each" ]; then
            echo yes
            return
        fi
    done
    echo no
}
edits() { # print where each is, or will be
    for folder in "$EDITS"/* "$ROOT"/*/edited; do
        if [ ! -d "$folder" ]; then continue; fi
        moved_to "$folder"
        find "$folder" -type f | while IFS= read -r file; do printf '%s\n' "$place${file#"$folder"}"; done
    done | LC_ALL=C sort
}
moved_to() { # FOLDER: sets `place`
    place=${1%/edited}
    place=$EDITS/${place##*/}
}
keep_edits() {
    for folder in "$ROOT"/*/edited; do
        if [ ! -d "$folder" ]; then continue; fi
        moved_to "$folder"
        { [ -d "$EDITS" ] || mkdir -m 0700 "$EDITS"; } && mv "$folder" "$place" || return 1
    done
}
forget() { # CONFIG-DIR-FLAG, empty where the kubelet is started without one
    if [ -d "$ROOT" ]; then # keep a transaction from starting
        exec 9> "$ROOT/lock" || return 1
        if ! flock -w "$LOCK_SECONDS" 9; then
            echo "a change of this node has been starting or ending for $LOCK_SECONDS s: run again later" >&2
            return 1
        fi
        # The outcome is written before the link goes: what has ended may still be tidying up.
        if [ -e "$ROOT/current/result.json" ]; then flock -w "$LOCK_SECONDS" -s 8 8< "$ROOT/current/alive"; fi
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
    left=$(find "$RECORDS" "$MODPROBE" "$PROGRAMS" ! -type d ! -path "$PLAN" ! -path "$RECORDS/boot.yaml" ! -path "$RECORDS/profile*" \
        ! -path "$RECORDS/image/*" 2> /dev/null | LC_ALL=C sort | tr '\n' ' ')
    if [ -n "$left" ]; then
        echo "${left% }: not taken back yet, because it waits for a reboot or could not be: see above, then run again" >&2
        return 1
    fi
    if [ -z "$1" ] && [ -d "$CONFIG_DIR" ] && resolve "$CONFIG_DIR/."; then rmdir "$CONFIG_DIR" 2> /dev/null || :; fi # others' files stay
    keep_edits && rm -rf "$RUN" "$STATE" && rm -f "$PLAN" || return 1
    if [ -d "$RECORDS" ] && [ ! -d "$RECORDS/image" ]; then rmdir "$RECORDS" || return 1; fi
}
