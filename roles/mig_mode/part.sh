# shellcheck shell=sh
# The MIG mode of GPUs that cannot be reset: worker.py sets it, the boot makes it true. The instances that stand in the
# way go for that; the undoing brings them back in the boot in which their mode is back. `mig`, without which this part
# does not stand, has the proof.

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
