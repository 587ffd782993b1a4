# shellcheck shell=sh
# AMD partitions: worker.py gives the GPUs of planned.json their modes. Settings: AMD_PARTITIONS_LINK (our unit's
# link below multi-user.target.wants) and AMD_PARTITIONS_LINK_TARGET (empty: remove the link). Without planned.json
# only the link changes.

amd_partitions_keep() { keep_link "$AMD_PARTITIONS_LINK" && worker_keep; }
amd_partitions_apply() {
    why="$AMD_PARTITIONS_LINK could not be written"
    link_unit "$AMD_PARTITIONS_LINK" "$AMD_PARTITIONS_LINK_TARGET" && worker apply
}
amd_partitions_prove() { worker_prove "$1"; } # NEW|OLD
amd_partitions_undo() {
    why="$AMD_PARTITIONS_LINK could not be put back"
    link_unit_back "$AMD_PARTITIONS_LINK" && worker undo && return
    why="not every AMD GPU has the modes that it had: $why"
    return 2
}
amd_partitions_notes() { worker_notes; }
amd_partitions_by_hand() { worker by-hand; }
