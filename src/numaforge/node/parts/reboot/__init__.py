"""The reboot that makes true what only a boot can: present where a part below it needs one."""

from __future__ import annotations

from collections.abc import Sequence

from numaforge.node.part import Found, Goal, Look, Part

NAME = "reboot"
_DOWN_SECONDS = 300  # systemd gives each unit 90 s to stop


def look(goal: Goal) -> Look:  # noqa: ARG001 (the contract's)
    """Return nothing: the parts that need a boot know."""
    return Look()


def need(goal: Goal, found: Found, below: Sequence[Part]) -> Part | None:  # noqa: ARG001 (the contract's)
    """Return the reboot where a part below needs it."""
    return part() if any(each.reboots for each in below) else None


def part() -> Part:
    """Return the part that reboots the node, once in each direction."""
    return Part(
        NAME,
        sentences=("the node reboots",),
        settings={"REBOOT_SECONDS": str(_DOWN_SECONDS)},
        drains=True,
        apply_seconds=_DOWN_SECONDS,
        undo_seconds=_DOWN_SECONDS,
    )
