"""What a kubelet reports of CPUs and memory once the plan is carried out, its devices apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from numaforge.codec import ByName
from numaforge.kubelet.admission.machine import cpu_capacity
from numaforge.quantity import format_bytes, format_millis, parse_bytes, parse_quantity
from numaforge.reasons import Reasoned
from numaforge.roles.hugepages.plan import pool_places, pools_after
from numaforge.roles.machine.numa_notices import gpu_memory_bytes
from numaforge.roles.role import Turn, Working

if TYPE_CHECKING:
    from numaforge.roles.node import Decisions, NodeProfile
    from numaforge.topology.model import MachineShape


@dataclass(frozen=True)
class PredictedAllocatable:
    """The node's predicted Allocatable: CPUs in millicores, memory in bytes, extended resources in units."""

    cpu_millis: int
    memory_bytes: int
    hugepages_bytes: ByName[int] = field(default_factory=dict)  # "2Mi" -> bytes
    devices: ByName[int] = field(default_factory=dict)  # "nvidia.com/gpu" -> 8, where it can be predicted
    gpu_memory_bytes: int = 0  # of memory_bytes: memory of GPUs that are NUMA nodes of their own (Grace)

    @property
    def quantities(self) -> dict[str, str]:
        """The same as the API has it: Kubernetes quantities by resource name."""
        return {
            "cpu": format_millis(self.cpu_millis),
            "memory": format_bytes(self.memory_bytes),
            **{f"hugepages-{size}": format_bytes(n) for size, n in sorted(self.hugepages_bytes.items())},
            **{name: str(count) for name, count in sorted(self.devices.items())},
        }


TURN = Turn.KIND
NEEDS: tuple[str, ...] = ("installed", "cpus", "memory", "hugepages", "kubelet")


@dataclass(frozen=True, kw_only=True)
class Decided:
    """Allocatable without devices; the role `allocatable` adds these, and writes it to the document."""

    predicted: Annotated[PredictedAllocatable | None, Working] = None


def decide(machine: MachineShape, profile: NodeProfile, decided: Decisions) -> Reasoned[Decided]:
    """Return the node's Allocatable, where a kubelet is planned and the memory is known."""
    if not machine.memory_bytes or decided.kubelet is None or profile.kubelet.state == "absent":
        return Reasoned(Decided())
    return Reasoned(Decided(predicted=_predicted(machine, decided)))


def _predicted(machine: MachineShape, decided: Decisions) -> PredictedAllocatable:
    """Predict what the kubelet reports: capacity less the reservations, and huge pages out of memory.

    pkg/kubelet/nodestatus/setters.go: every huge page's memory is taken from Allocatable memory, used or not.
    """
    pools = dict.fromkeys(machine.hugepages, 0)
    for place, node in pool_places(machine).items():
        for size, count in pools_after(node, decided.pools[place]).items():
            pools[size] = pools.get(size, 0) + count * parse_bytes(size)
    reserved_millis = len(decided.cpus.reserved) * 1000 or sum(
        int(parse_quantity(setting.value) * 1000)
        for name in ("kubeReserved", "systemReserved")
        if (setting := decided.existing.get(name, "cpu"))
    )
    memory = decided.memory.capacity_bytes - decided.reservations.total_bytes - sum(pools.values())
    return PredictedAllocatable(
        cpu_millis=cpu_capacity(machine) * 1000 - reserved_millis,
        memory_bytes=max(0, memory),
        hugepages_bytes=dict(sorted(pools.items())),
        gpu_memory_bytes=min(max(0, memory), gpu_memory_bytes(machine)),
    )
