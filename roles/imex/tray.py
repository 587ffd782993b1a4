"""A tray of a rack once its plan is carried out, to be compared with the others of its rack."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numaforge.machine.snapshot.redaction import checksum
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.trays import BY_HOST, NOT_BY_HOST, Tray, tray_of

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def planned_tray(machine: NodeTopology, plan: NodePlan) -> Tray | None:
    """Return a machine as a tray once its plan is carried out; None where it is in no rack."""
    tray = tray_of(machine)
    if tray is None:
        return None
    memory, imex = plan.gpu_memory, plan.imex
    if memory.mode and not memory.waits:
        tray = replace(tray, memory_mode=memory.mode)
    if imex.mode is None:
        return tray
    if imex.mode == "driver-managed":
        return replace(tray, imex=NOT_BY_HOST, nodes=None, nodes_count=None)
    return replace(tray, imex=BY_HOST, nodes=checksum(imex.nodes), nodes_count=len(imex.nodes))
