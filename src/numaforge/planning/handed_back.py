"""CPUs and memory where the kubelet is told nothing of ours: what its admin reserves, and nothing more."""

from __future__ import annotations

from numaforge.cpulist import parse_cpulist
from numaforge.kubelet.admission.machine import cpus_seen
from numaforge.planning.existing import ExistingSettings
from numaforge.planning.model import CpuPlan, MemoryPlan, Reasoned
from numaforge.roles.memory.plan import Reservations
from numaforge.topology.model import NodeTopology


def cpus_left_alone(topology: NodeTopology, existing: ExistingSettings) -> Reasoned[CpuPlan]:
    """Return the CPUs with those reserved that the kubelet is told of elsewhere."""
    held = existing.get("reservedSystemCPUs")
    reserved = parse_cpulist(str(held.value)) & topology.online if held else frozenset[int]()
    return Reasoned(CpuPlan(topology.online, reserved, cpus_seen(topology) - reserved))


def memory_left_alone(topology: NodeTopology) -> Reasoned[Reservations]:
    """Return no reservation of ours."""
    return Reasoned(Reservations(MemoryPlan(topology.memory_bytes or 0, 0, 0, 0), {}))
