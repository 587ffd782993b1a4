"""The MIG mode that only a boot changes: that of an Ampere GPU passed through to this machine.

This part sets the mode below the reboot; `mig`, above it, finds the mode set and creates the instances.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numaforge.machine.topology.model import Gpu
from numaforge.node.part import NodeState, Part
from numaforge.node.worker_part import units_of
from numaforge.roles.mig import part as mig
from numaforge.roles.mig.instance import MigGpu
from numaforge.roles.mig.models import mode_needs_boot

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "mig_mode"


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part for GPUs whose mode changes with a boot; none where reboots are not allowed."""
    by_address = {gpu.pci_address: gpu for gpu in goal.machine.gpus}
    changed = [
        (planned_gpu, current)
        for planned_gpu in mig.ours(goal)
        if (current := by_address.get(planned_gpu.pci_address))
        and current.mig_mode not in (None, planned_gpu.mode)
        and mode_needs_boot(current)
    ]
    if not changed:
        return None
    return part(
        [planned_gpu for planned_gpu, _ in changed],
        [current for _, current in changed],
        holders=units_of(state, mig.NAME),
        may_stop=goal.plan.mig.may_stop,
    )


def pending(goal: Goal, state: NodeState) -> str | None:
    """Return, in words, which GPUs wait for a reboot that is not allowed; None where none does."""
    waiting = goal.plan.mig.pending
    if not waiting:
        return None
    wishes = ", ".join(f"{gpu.pci_address} {gpu.mode}" for gpu in waiting)
    return f"pending: the MIG mode ({wishes}); maintenance.reboot is {goal.plan.kernel.reboot}"


def part(
    targets: Sequence[MigGpu],
    current: Sequence[Gpu],
    *,
    holders: Sequence[str] = (),
    may_stop: Sequence[str] = (),
) -> Part:
    """Return the part that sets the mode of the `targets`; the arguments are those of the part `mig`."""
    seconds = mig.seconds(len(targets))
    return Part(
        NAME,
        moves=tuple(
            f"{gpu.pci_address}: MIG mode {is_now.mig_mode} -> {gpu.mode}, with the reboot"
            for gpu, is_now in zip(targets, current, strict=True)
        ),
        data=mig.data(targets, current, holders, may_stop),
        drains=True,
        reboots=True,
        apply_seconds=seconds,
        undo_seconds=seconds,
        boot_seconds=seconds,
    )
