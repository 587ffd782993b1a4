"""Judge the GPUs of a machine by every rule."""

from __future__ import annotations

from numaforge.findings import Judgement, MachineRule, judge
from numaforge.gpus import driver, fabric, health
from numaforge.topology.model import NodeTopology

RULES: tuple[MachineRule[NodeTopology], ...] = (*driver.RULES, *fabric.RULES, *health.RULES)
"""Every rule about GPUs, by id."""


def check_gpus(machine: NodeTopology) -> tuple[Judgement, ...]:
    """Return what each rule comes to on a machine, in the order of the rules."""
    return tuple(judge(rule, machine) for rule in RULES)
