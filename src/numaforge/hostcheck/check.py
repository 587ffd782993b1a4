"""Judge the userland of a host by every rule."""

from __future__ import annotations

from numaforge.findings import Judgement, MachineRule, judge
from numaforge.hostcheck import containerd, packages, system
from numaforge.topology.model import NodeTopology

RULES: tuple[MachineRule[NodeTopology], ...] = (*system.RULES, *packages.RULES, *containerd.RULES)
"""Every rule about the userland, by id."""


def check_host(machine: NodeTopology) -> tuple[Judgement, ...]:
    """Return what each rule comes to on a machine, in the order of the rules."""
    return tuple(judge(rule, machine) for rule in RULES)
