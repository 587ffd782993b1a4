"""Whether the machine is still the one that was planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.findings.drift import DriftRule
from numaforge.findings.engine import Seen
from numaforge.findings.finding import Severity
from numaforge.lib.cpulist import format_cpulist
from numaforge.machine.topology.model import NodeTopology

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def _another_machine(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
    if machine.hostname is not None and plan.hostname != machine.hostname:
        yield Seen(f"{machine.hostname}, planned as {plan.hostname}", "hostname")
    if plan.cpus.online != machine.online:
        actual, planned = format_cpulist(machine.online), format_cpulist(plan.cpus.online)
        yield Seen(f"{actual} online, planned {planned}", "CPUs")
    cpus_of = {node.id: node.cpus for node in machine.numa_nodes}
    for node in plan.memory.numa_nodes:
        if node.id not in cpus_of:
            yield Seen("is not there", f"NUMA node {node.id}")
        elif plan.cpus.online == machine.online and cpus_of[node.id] != node.cpus:
            actual, planned = format_cpulist(cpus_of[node.id]), format_cpulist(node.cpus)
            yield Seen(f"CPUs {actual}, planned {planned}", f"NUMA node {node.id}")
    gpus = {gpu.pci_address for gpu in machine.gpus}
    for gpu in plan.amd_partitions.gpus:
        if gpu.pci_address not in gpus:
            yield Seen("is not there", gpu.pci_address)


DRIFT = (DriftRule("NP102", Severity.ERROR, "the host is not the one planned", _another_machine),)
