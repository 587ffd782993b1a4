"""Judge a machine's GPUDirect by every rule."""

from __future__ import annotations

from numaforge.findings import Judgement, judge
from numaforge.gpudirect.rules import RULES
from numaforge.topology.model import NodeTopology


def check_gpudirect(machine: NodeTopology) -> tuple[Judgement, ...]:
    """Return what each rule comes to on a machine, in the order of the rules."""
    return tuple(judge(rule, machine) for rule in RULES)
