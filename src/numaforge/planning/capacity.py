"""A kubelet's CPUs and memory after the plan is applied, without its devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numaforge.kubelet.admission.machine import cpu_capacity
from numaforge.kubelet_minors.values.pages import pages_of
from numaforge.lib.codec import ByName
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.quantity import format_bytes, format_millis, parse_bytes, parse_quantity
from numaforge.lib.reasons import Notice, Reasoned
from numaforge.machine.topology.memory_mode import FIRST_DRIVER_BY_DEFAULT, memory_of_gpus
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.hugepages.plan import WantedPages, pool_places, pools_after
from numaforge.roles.memory.numa_notices import gpu_memory_bytes

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.cpus.plan import CpuPlan
    from numaforge.roles.kubelet.delivery import KubeletPlan
    from numaforge.roles.kubelet.existing import ExistingSettings
    from numaforge.roles.memory.plan import MemoryPlan
    from numaforge.roles.modules.gpu_memory import GpuMemoryPlan


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
            **{pages_of(size): format_bytes(n) for size, n in sorted(self.hugepages_bytes.items())},
            **{name: str(count) for name, count in sorted(self.devices.items())},
        }


def plan_capacity(
    machine: NodeTopology,
    profile: NodeProfile,
    existing: ExistingSettings,
    cpus: CpuPlan,
    memory: MemoryPlan,
    pools: WantedPages,
    kubelet: KubeletPlan | None,
    gpu_memory: GpuMemoryPlan,
    earlier: NodePlan | None,
) -> Reasoned[PredictedAllocatable | None]:
    """Return the node's Allocatable, where a kubelet is planned and the memory is known after the boot."""
    if not machine.memory_bytes or kubelet is None or profile.kubelet.state == "absent":
        return Reasoned(None)
    notices = (*_pools_of_gpus(machine, pools), *_gpu_memory_changed(machine, gpu_memory, earlier))
    if gpu_memory.grows:
        return Reasoned(None, notices=notices)
    return Reasoned(_predicted(machine, existing, cpus, memory, pools), notices=notices)


def _pools_of_gpus(machine: NodeTopology, pages_by_node: WantedPages) -> Iterator[Notice]:
    """Name the pools that vanish once the driver manages their memory."""
    gpu_nodes = memory_of_gpus(machine)
    pools: Counter[str] = Counter()
    nodes = []
    for node_id, node in pool_places(machine).items():
        pages = {
            size: count for size, count in pools_after(node, pages_by_node.get(node_id, {})).items() if count
        }
        if node.id in gpu_nodes and pages:
            nodes.append(node.id)
            pools.update(pages)
    if pools:
        sums = " and ".join(f"{count} x {size}" for size, count in pools.items())
        yield Notice(
            "pools-in-gpu-memory",
            f"{sums} on NUMA nodes {format_cpulist(nodes)} are taken of GPUs' memory. Where the driver "
            f"manages that (CDMM, the default from branch {FIRST_DRIVER_BY_DEFAULT} on) "
            "these NUMA nodes are empty: the pools are gone, and a plan that names these nodes is refused",
        )


def _gpu_memory_changed(
    machine: NodeTopology, gpu_memory: GpuMemoryPlan, previous: NodePlan | None
) -> Iterator[Notice]:
    earlier = previous.allocatable if previous else None
    if earlier is None or gpu_memory.mode is not None:  # then the role gpu_memory says it
        return
    was, present = earlier.gpu_memory_bytes, gpu_memory_bytes(machine)
    if bool(was) != bool(present):
        change = (
            f"the earlier plan counted {format_bytes(was)} of GPUs' memory, which the driver manages now"
            if was
            else f"{format_bytes(present)} of GPUs' memory are NUMA nodes now, which the driver managed "
            "before"
        )
        yield Notice(
            "gpu-memory-changed",
            f"{change}: the node's capacity moves by it, and a kubelet with memoryManagerPolicy Static does "
            "not start over the state that it kept. NVreg_CoherentGPUMemoryMode pins the mode",
        )


def _predicted(
    machine: NodeTopology,
    existing: ExistingSettings,
    cpus: CpuPlan,
    memory: MemoryPlan,
    pages_by_node: WantedPages,
) -> PredictedAllocatable:
    """Predict what the kubelet reports: capacity less the reservations, and huge pages out of memory.

    pkg/kubelet/nodestatus/setters.go: every huge page's memory is taken from Allocatable memory, used or not.
    """
    pools = dict.fromkeys(machine.hugepages, 0)
    for node_id, node in pool_places(machine).items():
        for size, count in pools_after(node, pages_by_node.get(node_id, {})).items():
            pools[size] = pools.get(size, 0) + count * parse_bytes(size)
    reserved_millis = len(cpus.reserved) * 1000 or sum(
        int(parse_quantity(setting.value) * 1000)
        for name in ("kubeReserved", "systemReserved")
        if (setting := existing.get(name, "cpu"))
    )
    rest = memory.capacity_bytes - memory.reserved_bytes - sum(pools.values())
    return PredictedAllocatable(
        cpu_millis=cpu_capacity(machine) * 1000 - reserved_millis,
        memory_bytes=max(0, rest),
        hugepages_bytes=dict(sorted(pools.items())),
        gpu_memory_bytes=min(max(0, rest), gpu_memory_bytes(machine)),
    )
