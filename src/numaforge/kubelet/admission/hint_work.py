"""How long a kubelet takes to answer a pod: the hints of its managers, and their merge.

Each manager walks every set of its NUMA nodes, 2^n - 1 sets, and the topology manager compares every
combination of one hint per resource, for each container (in the scope pod: for each pod).

Sources: IterateBitMasks in pkg/kubelet/cm/topologymanager/bitmask, GenerateTopologyHints and calculateHints
of the managers, kubernetes/kubernetes#135541 (34 NUMA nodes, no pod is ever admitted), #131738 (8 NUMA nodes,
255^4 combinations, 21 minutes), #138244 (since 1.36 only NUMA nodes with devices are walked for devices).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from numaforge.kubelet_minors.values.pages import pages_of
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.machine.topology.links import nodes_of_gpus
from numaforge.machine.topology.model import NodeTopology

CPU_MANAGER = "the CPU manager"
DEVICE_MANAGER = "the device manager"
MEMORY_MANAGER = "the memory manager"

# 2^20 sets, each compared with every CPU, device and memory block: many seconds for each container, doubling
# with each further NUMA node. With 34 NUMA nodes no pod was ever admitted.
ENDLESS_NUMA_NODES = 20
_SLOW_NUMA_NODES = 16
_SLOW_COMBINATIONS = 1_000_000

# 255^4 combinations took 21 minutes (kubernetes/kubernetes#131738).
_COMBINATIONS_PER_SECOND = 255**4 // (21 * 60)

_STALLS_SECONDS = 60.0
_HOPELESS_SECONDS = 3600.0

# The firmware's name for it; both where the CPU vendor is unknown.
_FIRMWARE = {"AuthenticAMD": "NPS1, and no L3 as NUMA domain", "GenuineIntel": "SNC"}
_ANY_FIRMWARE = "NPS on EPYC, SNC on Xeon"

# From this minor on hints of devices name only NUMA nodes that host one of the resource, where there are any.
FIRST_MINOR_OF_NARROW_HINTS = 36
NEWER_KUBELET = "use kubelet 1.36 or later, which walks only NUMA nodes with devices"


class Policies(NamedTuple):
    """The policies that decide which managers give hints; `hugepages` are the sizes in use, such as "2Mi"."""

    cpu: str
    memory: str
    topology: str
    hugepages: Collection[str] = ()


@dataclass(frozen=True)
class HintWork:
    """The cost of one container that requests CPUs, memory, huge pages of each size, and a GPU.

    `numa_nodes` is the number of NUMA nodes whose sets each manager walks; `hints` is how many hints each
    resource adds to the merge at most, in the kubelet's order. `walks_all_for_devices`: an older kubelet that
    walks all of many NUMA nodes for devices.
    """

    numa_nodes: Mapping[str, int]
    hints: Mapping[str, int]
    walks_all_for_devices: bool = False

    @property
    def combinations(self) -> int:
        """The number of combinations of hints that the topology manager compares."""
        return prod(self.hints.values()) if self.hints else 0

    @property
    def seconds(self) -> float:
        """The duration of the merge, by the only public measurement."""
        return self.combinations / _COMBINATIONS_PER_SECOND

    @property
    def endless(self) -> Mapping[str, int]:
        """The managers that do not finish in useful time, with the number of NUMA nodes they walk."""
        return {name: n for name, n in self.numa_nodes.items() if n >= ENDLESS_NUMA_NODES}

    @property
    def stalls(self) -> bool:
        """Whether a pod waits for minutes, so that no default may choose this."""
        return bool(self.endless) or self.seconds >= _STALLS_SECONDS

    @property
    def hopeless(self) -> bool:
        """Whether no pod gets an answer in useful time."""
        return bool(self.endless) or self.seconds >= _HOPELESS_SECONDS

    @property
    def slow(self) -> bool:
        """Whether an admin should know."""
        walks = any(nodes >= _SLOW_NUMA_NODES for nodes in self.numa_nodes.values())
        return walks or self.combinations >= _SLOW_COMBINATIONS

    def remedies(
        self,
        topology: NodeTopology,
        memory_field: str = "memoryManagerPolicy",
        no_alignment: str = "set topologyManagerPolicy: none",
    ) -> str:
        """Return what an admin can do about it here, with the settings as the caller spells them."""
        no_memory = [f"set {memory_field}: None"] if MEMORY_MANAGER in self.numa_nodes else []
        newer = [NEWER_KUBELET] if self.walks_all_for_devices else []
        no_hints = [no_alignment] if self.hints else []
        if not self.endless:
            return "; or ".join([*fewer_numa_nodes(topology), *newer, *no_memory, *no_hints])
        # The memory manager walks the sets under every topology policy; the others only do so for hints.
        no_memory = no_memory if MEMORY_MANAGER in self.endless else []
        by_hints = {*self.endless} - {MEMORY_MANAGER}
        ways = [
            fewer_numa_nodes(topology),
            newer + no_memory if CPU_MANAGER not in self.endless else [],
            no_hints + no_memory if by_hints else [],
        ]
        return "; or ".join(" and ".join(way) for way in ways if way)

    def ways_to_align(self, topology: NodeTopology) -> str:
        """Return the changes that would let the kubelet align pods here."""
        newer = [NEWER_KUBELET] if self.walks_all_for_devices and CPU_MANAGER not in self.endless else []
        return "; or ".join([*fewer_numa_nodes(topology), *newer])

    def __str__(self) -> str:
        """Return what is slow, in numbers."""
        if self.endless:
            name, nodes = max(self.endless.items(), key=lambda walked: walked[1])
            return f"{name} walks 2^{nodes} = {2**nodes:,} sets of NUMA nodes for each container"
        if self.combinations < _SLOW_COMBINATIONS:
            name, nodes = max(self.numa_nodes.items(), key=lambda walked: walked[1])
            return f"{name} walks {2**nodes - 1:,} sets of NUMA nodes for each container"
        factors = " x ".join(str(count) for count in self.hints.values())
        return (
            f"the topology manager compares {self.combinations:,} combinations of hints ({factors}, for "
            f"{', '.join(self.hints)}) for each container that asks for all of them, about "
            f"{_time(self.seconds)}"
        )


def hint_work(topology: NodeTopology, version: KubeletVersion, policies: Policies) -> HintWork:
    """Return the work on one machine; empty where its NUMA nodes are unknown."""
    every = len(topology.numa_nodes)
    with_cpus = sum(bool(node.cpus) for node in topology.numa_nodes)
    with_memory = sum(bool(node.memory_bytes) for node in topology.numa_nodes)
    numa_nodes: dict[str, int] = {}
    hints: dict[str, int] = {}
    gpus = {gpu.numa_node for gpu in topology.gpus} - {None}
    rdma = [nic for nic in topology.nics if nic.rdma_device]
    other_nodes = {one.numa_node for one in topology.accelerators} | {nic.numa_node for nic in rdma}
    other_nodes -= {None}
    narrow = version.rules_minor >= FIRST_MINOR_OF_NARROW_HINTS
    if policies.topology != "none" and (gpus or other_nodes):
        numa_nodes[DEVICE_MANAGER] = max(len(gpus), len(other_nodes)) if narrow else every
    if policies.topology != "none" and gpus:
        hints["GPUs"] = _sets_with(len(gpus), len(gpus) if narrow else every)
    if policies.topology != "none" and policies.cpu == "static":
        numa_nodes[CPU_MANAGER] = with_cpus
        hints["CPUs"] = _sets_with(with_cpus, with_cpus)
    if policies.memory == "Static":
        # The memory manager also walks them under the policy none, to allocate (getDefaultHint).
        numa_nodes[MEMORY_MANAGER] = every
        if policies.topology != "none":
            sizes = [pages_of(size) for size in sorted(policies.hugepages)]
            hints |= dict.fromkeys(["memory", *sizes], _sets_with(with_memory, every))
    if policies.topology == "single-numa-node":
        # Only preferred hints of one NUMA node reach the merge (filterSingleNumaHints).
        hints = {resource: min(count, every) for resource, count in hints.items()}
    if not every:
        return HintWork({}, {})
    return HintWork(numa_nodes, hints, not narrow and numa_nodes.get(DEVICE_MANAGER, 0) >= _SLOW_NUMA_NODES)


def fewer_numa_nodes(topology: NodeTopology) -> list[str]:
    """Return the ways to show fewer NUMA nodes on this machine; empty where there are none.

    The NUMA nodes of GPUs beside Grace remain in every memory mode: they come from the firmware's SRAT, and
    CDMM only leaves them without memory.
    """
    if len(nodes_of_gpus(topology)) > 1:
        return []
    if topology.architecture == "aarch64":
        return ["show fewer NUMA nodes in the firmware"]
    return [
        f"show fewer NUMA nodes in the firmware ({_FIRMWARE.get(topology.cpu_vendor or '', _ANY_FIRMWARE)})"
    ]


def _sets_with(members: int, every: int) -> int:
    """Return how many sets of `every` NUMA nodes contain at least one of `members`."""
    return int(2**every - 2 ** (every - members))


def _time(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{max(1, seconds):.0f} s"
