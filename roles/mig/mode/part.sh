# shellcheck shell=sh
# The MIG mode of GPUs that cannot be reset: worker.py sets it, and it takes effect at the boot. Instances in the way
# are destroyed for it; the undo recreates them in the boot that restores their mode. The proof is that of `mig`,
# without which this part does not exist.

mig_mode_keep() { worker_keep; }
mig_mode_apply() { worker apply; }
mig_mode_pending() { [ -n "$(worker "pending-$1")" ]; } # NEW|OLD
mig_mode_prove() { mig_prove "$1"; }                    # NEW|OLD
mig_mode_undo() {
    worker undo && return
    why="not every GPU has the MIG mode that it had: $why"
    return 2
}
mig_mode_by_hand() { worker by-hand; }
