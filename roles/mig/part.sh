# shellcheck shell=sh
# MIG: the GPUs of planned.json are cut as it says, by worker.py, which brings its own pynvml. What holds a GPU is
# stopped and started again within `apply` and within `undo`: wherever those are broken off, `undo` comes after.
# MIG_BOOT_LINK (our unit's link below multi-user.target.wants) and MIG_BOOT_LINK_TARGET (empty: the link has to
# go) are settings. Without planned.json only the link changes. Processes of pods are ended in a transaction alone
# that says DRAINED.

MIG_OUTDATED=3 # the worker's exit status where a GPU is held by what did not hold it at the look

mig_worker() { # VERB; sets `why` to what it says
    if [ ! -e "$PART/planned.json" ]; then return; fi
    NUMAFORGE_DRAINED=$DRAINED python3 -BEs "$PART/worker.py" "$1" "$PART" 2> "$PART/said" && return
    status=$?
    why=$(tail -n 3 "$PART/said" | paste -s -d ' ' -)
    return "$status"
}
mig_worker_keep() {
    mig_worker keep && return
    if [ "$status" -eq "$MIG_OUTDATED" ]; then : > "$FOLDER/outdated"; fi
    printf '%s\n' "$why" >&2
    return 1
}
mig_keep() { keep_link "$MIG_BOOT_LINK" && mig_worker_keep; }
mig_apply() {
    why="$MIG_BOOT_LINK could not be written"
    link_unit "$MIG_BOOT_LINK" "$MIG_BOOT_LINK_TARGET" && mig_worker apply
}
mig_prove() { if [ "$1" = new ]; then mig_worker prove; else mig_worker settled; fi; } # NEW|OLD
mig_undo() {
    why="$MIG_BOOT_LINK could not be put back"
    link_unit_back "$MIG_BOOT_LINK" && mig_worker undo && return
    why="not every GPU is cut as it was: $why"
    return 2
}
mig_notes() {
    if [ -e "$PART/notes" ]; then printf '; %s' "$(cat "$PART/notes")"; fi
}
mig_by_hand() { mig_worker by-hand; }
