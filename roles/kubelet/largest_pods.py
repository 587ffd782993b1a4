"""Which pods the planned node admits: the largest for each number of GPUs, and whether one may have all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet.admission.inventory import whole_gpus
from numaforge.kubelet.admission.largest_pod import EmptyNode, PodShape
from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.merge import RESTRICTED, SINGLE_NUMA_NODE
from numaforge.kubelet.admission.node import Node
from numaforge.lib.codec import ByName
from numaforge.lib.errors import KubeletConfigError
from numaforge.lib.quantity import format_bytes
from numaforge.lib.reasons import Notice, Reasoned
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.hugepages.plan import WantedPages, with_pools
from numaforge.roles.kubelet.delivery import KubeletPlan, merge

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.kubelet.existing import ExistingSettings


@dataclass(frozen=True)
class LargestPod:
    """The largest Guaranteed pod of one container that the empty node admits with this number of devices.

    Largest means most CPUs, then memory, then huge pages, in bytes by size. `resource` is "" for a node
    without devices; `cpus` is 0 where the node admits no such pod.
    """

    resource: str  # "nvidia.com/gpu"
    devices: int
    cpus: int
    memory_bytes: int
    hugepages_bytes: ByName[int] = field(default_factory=dict)  # "1Gi" -> bytes


_LEAST_MEMORY = 2**30  # bytes for a pod with all GPUs; it also gets one core


def plan_largest_pods(
    machine: NodeTopology,
    profile: NodeProfile,
    existing: ExistingSettings,
    kubelet: KubeletPlan | None,
    pools: WantedPages,
    devices: Inventory,
) -> Reasoned[tuple[LargestPod, ...]]:
    """Return the largest pod of one container for each number of GPUs; without GPUs, the largest of all.

    For MIG devices and replicas, only the largest pod with one device: no program joins several MIG devices,
    and several replicas give no more than one. Empty where the memory or the NUMA nodes are unknown, or where
    the kubelet is handed back. A notice reports where no pod with one core may have all GPUs.
    """
    if profile.kubelet.state == "absent" or kubelet is None:
        return Reasoned(())
    if not machine.memory_bytes or not machine.numa_nodes:
        return Reasoned(())
    config = merge(existing.effective, kubelet.settings)
    gpus_by_resource = whole_gpus(devices)
    try:
        node = Node(with_pools(machine, pools), config, devices, version=kubelet.version)
    except KubeletConfigError:
        # `check` reports what keeps a kubelet from starting.
        return Reasoned(())
    rows: list[LargestPod] = []
    notices: list[Notice] = []
    for resource in devices or ("",):
        empty = EmptyNode(node, resource)
        most = empty.devices if resource in gpus_by_resource else 1
        counts = range(1, most + 1) if resource else range(1)
        rows += [
            _row(resource, count, empty.largest(count)) for count in counts if not empty.too_many_sets(count)
        ]
        if resource in gpus_by_resource and not empty.too_many_sets(empty.devices) and not admits_all(empty):
            notices.append(_refused(empty, resource, config))
    return Reasoned(tuple(rows), notices=tuple(notices))


def admits_all_devices(topology: MachineInfo, config: Mapping[str, Any], devices: Inventory) -> bool:
    """Return whether a pod with one core and 1Gi may have all devices under a kubelet's configuration."""
    node = Node(topology, config, devices)
    return all(admits_all(EmptyNode(node, resource)) for resource in devices)


def admits_all(empty: EmptyNode) -> bool:
    """Return whether a pod with one core and 1Gi may have all devices."""
    return empty.admits(PodShape(empty.devices, empty.step, _LEAST_MEMORY))


def _row(resource: str, count: int, shape: PodShape | None) -> LargestPod:
    if shape is None:
        return LargestPod(resource, count, 0, 0)
    pages = {size: count for size, count in shape.hugepages_bytes.items() if count}
    return LargestPod(resource, count, shape.cpus, shape.memory_bytes, pages)


def _refused(empty: EmptyNode, resource: str, config: Mapping[str, Any]) -> Notice:
    policy, scope = config.get("topologyManagerPolicy"), config.get("topologyManagerScope", "container")
    every, most = empty.devices, max((n for n in range(empty.devices) if empty.largest(n)), default=0)
    instead = (
        "where such pods run, set kubelet.topology_manager_policy: best-effort, as the profiles training "
        "and best-effort-mixed do"
    )
    if policy == SINGLE_NUMA_NODE:
        cause = f"single-numa-node refuses every {scope} with all {every} {resource}, the most is {most}"
    elif policy == RESTRICTED and (largest := empty.largest(every)):
        cause = (
            f"restricted refuses a {scope} with all {every} {resource} unless all else that it asks for "
            f"needs as many NUMA nodes: with one core and 1Gi it is refused, with {largest.cpus} CPUs and "
            f"{format_bytes(largest.memory_bytes)} admitted"
        )
    elif policy == RESTRICTED:
        cause = f"restricted refuses every {scope} with all {every} {resource}"
    else:
        cause = f"one core and 1Gi are not left for a pod with all {every} {resource}"
        instead = "reserve less"
    return Notice("whole-node-pod-refused", f"{cause}; {instead}")
