"""The MIG mode that only a boot changes: that of an Ampere GPU passed through to this machine.

This part sets the mode below the reboot; `mig`, above it, finds the mode set and creates the instances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.maintenance.part import Found, Goal, Look, Part
from numaforge.roles.mig import part as mig
from numaforge.roles.mig.models import mode_needs_boot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numaforge.roles.mig.instance import MigGpu
    from numaforge.topology.model import Gpu

NAME = "mig_mode"


def look(goal: Goal) -> Look:
    """Return an empty question: the part `mig` asks for what the worker needs."""
    return Look()


def need(goal: Goal, found: Found, below: Sequence[Part]) -> Part | None:
    """Return the part for GPUs whose mode changes with a boot; a plan has none where reboots are not allowed.

    Raises HostError for a GPU that is not the planned one.
    """
    there = {gpu.pci_address: gpu for gpu in goal.machine.gpus}
    changed = [
        (each, now)
        for each in mig.ours(goal)
        if (now := there.get(each.pci_address))
        and now.mig_mode not in (None, each.mode)
        and mode_needs_boot(now)
    ]
    if not changed:
        return None
    return part(
        [each for each, _ in changed],
        [now for _, now in changed],
        holders=mig.held_by(found),
        may_stop=goal.plan.mig.may_stop,
    )


def pending(goal: Goal, found: Found) -> str | None:
    """Return, in words, which GPUs wait for a reboot that is not allowed; None where none does."""
    waiting = goal.plan.mig.pending
    if not waiting:
        return None
    wishes = ", ".join(f"{gpu.pci_address} {gpu.mode}" for gpu in waiting)
    return f"pending: the MIG mode ({wishes}); maintenance.reboot is {goal.plan.kernel.reboot}"


def part(
    wanted: Sequence[MigGpu], now: Sequence[Gpu], *, holders: Sequence[str] = (), may_stop: Sequence[str] = ()
) -> Part:
    """Return the part that sets the mode of the `wanted` GPUs; `now` has them as they were seen.

    `holders` and `may_stop` are those of numaforge.roles.mig.part.part.
    """
    seconds = mig.seconds(len(wanted))
    return Part(
        NAME,
        moves=tuple(
            f"{gpu.pci_address}: MIG mode {is_now.mig_mode} -> {gpu.mode}, with the reboot"
            for gpu, is_now in zip(wanted, now, strict=True)
        ),
        data=mig.data(wanted, now, holders, may_stop),
        drains=True,
        reboots=True,
        apply_seconds=seconds,
        undo_seconds=seconds,
        boot_seconds=seconds,
    )
