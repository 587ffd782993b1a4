# shellcheck shell=sh
# MIG: worker.py cuts the GPUs as planned.json says; it brings its own pynvml. MIG_LINK (our unit's link below
# multi-user.target.wants) and MIG_LINK_TARGET (empty: remove the link) are settings. Without planned.json only the
# link changes.

mig_keep() { keep_link "$MIG_LINK" && worker_keep; }
mig_apply() {
    why="$MIG_LINK could not be written"
    link_unit "$MIG_LINK" "$MIG_LINK_TARGET" && worker apply
}
mig_prove() { worker_prove "$1"; } # NEW|OLD
mig_undo() {
    why="$MIG_LINK could not be put back"
    link_unit_back "$MIG_LINK" && worker undo && return
    why="not every GPU is cut as it was: $why"
    return 2
}
mig_notes() { worker_notes; }
mig_by_hand() { worker by-hand; }
