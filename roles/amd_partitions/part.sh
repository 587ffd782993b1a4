# shellcheck shell=sh
# AMD partitions: the GPUs of planned.json get its modes, by worker.py. What holds a GPU is stopped and started again
# within `apply` and within `undo`: wherever those are broken off, `undo` comes after. AMD_BOOT_LINK (our unit's link
# below multi-user.target.wants) and AMD_BOOT_LINK_TARGET (empty: the link has to go) are settings. Without planned.json
# only the link changes. Processes of pods are ended in a transaction alone that says DRAINED.

AMD_OUTDATED=3 # the worker's exit status where a GPU is held by what did not hold it at the look

amd_worker() { # VERB; sets `why` to what it says
    if [ ! -e "$PART/planned.json" ]; then return; fi
    NUMAFORGE_DRAINED=$DRAINED python3 -BEs "$PART/worker.py" "$1" "$PART" 2> "$PART/said" && return
    status=$?
    why=$(tail -n 3 "$PART/said" | paste -s -d ' ' -)
    return "$status"
}
amd_partitions_keep() {
    keep_link "$AMD_BOOT_LINK" || return 1
    amd_worker keep && return
    if [ "$status" -eq "$AMD_OUTDATED" ]; then : > "$FOLDER/outdated"; fi
    printf '%s\n' "$why" >&2
    return 1
}
amd_partitions_apply() {
    why="$AMD_BOOT_LINK could not be written"
    link_unit "$AMD_BOOT_LINK" "$AMD_BOOT_LINK_TARGET" && amd_worker apply
}
amd_partitions_prove() { if [ "$1" = new ]; then amd_worker prove; else amd_worker settled; fi; } # NEW|OLD
amd_partitions_undo() {
    why="$AMD_BOOT_LINK could not be put back"
    link_unit_back "$AMD_BOOT_LINK" && amd_worker undo && return
    why="not every AMD GPU has the modes that it had: $why"
    return 2
}
amd_partitions_notes() {
    if [ -e "$PART/notes" ]; then printf '; %s' "$(cat "$PART/notes")"; fi
}
amd_partitions_by_hand() { amd_worker by-hand; }
