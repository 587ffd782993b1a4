# shellcheck shell=sh
# The MIG mode of GPUs that cannot be reset: worker.py sets it, the boot makes it true. The instances that stand in the
# way go for that; the undoing brings them back in the boot in which their mode is back. `mig`, without which this part
# does not stand, has mig_worker and what is built on it.

mig_mode_keep() { mig_worker_keep; }
mig_mode_apply() { mig_worker apply; }
mig_mode_pending() { [ -n "$(mig_worker "pending-$1")" ]; } # NEW|OLD
mig_mode_prove() { mig_prove "$1"; }                        # NEW|OLD
mig_mode_undo() {
    mig_worker undo && return
    why="not every GPU has the MIG mode that it had: $why"
    return 2
}
mig_mode_by_hand() { mig_worker by-hand; }
