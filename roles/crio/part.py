"""Restart CRI-O where its configuration, a file, changes; containers keep running."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numaforge.machine.topology.runtime import CRIO
from numaforge.node.bundle import FileChange
from numaforge.node.part import NodeState, Part
from numaforge.roles.crio.files import CRIO_PATH
from numaforge.roles.crio.plan import HANDLER

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "crio"
_RESTART_SECONDS = 120  # systemd gives a unit 90 s to stop


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the restart where CRI-O's drop-in changes.

    A reload would do for the handler, but not for irqbalance's file or for the balancing of other pods'
    CPUs, which CRI-O looks up once (internal/runtimehandlerhooks).
    """
    changes = [change for part in below for change in part.changed if change.path == CRIO_PATH]
    if not changes:
        return None
    return part(there=any(change.new for change in changes), drains=any(map(_takes_away, changes)))


def _takes_away(change: FileChange) -> bool:
    """Whether the handler changes by which running pods return what they were given."""
    return change.old is not None and _settings(change.old.text) != _settings(
        change.new.text if change.new else ""
    )


def _settings(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def part(*, there: bool, drains: bool) -> Part:
    """Return the part that restarts CRI-O where it runs, and proves that the handler is `there`."""
    return Part(
        NAME,
        sentences=(f"{CRIO} restarts: what pods may ask of it changes",),
        settings={"CRIO_UNIT": CRIO, "CRIO_HANDLER": HANDLER if there else ""},
        drains=drains,
        only_pods=True,
        apply_seconds=_RESTART_SECONDS,
        undo_seconds=_RESTART_SECONDS,
    )
