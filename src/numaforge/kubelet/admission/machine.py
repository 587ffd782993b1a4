"""The machine as the kubelet sees it through cAdvisor: NUMA nodes, and the place of every CPU."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from numaforge.kubelet.admission.masks import mask_of
from numaforge.kubelet_minors.values.pages import pages_of
from numaforge.lib.errors import TopologyError
from numaforge.machine.topology.model import Core, CpuSet, NodeTopology, Package

_L2 = 2  # cache level


class CpuPlace(NamedTuple):
    """Where a CPU is; `core` is the lowest thread of its core, `uncore` its last-level cache or socket."""

    core: int
    socket: int
    numa_node: int
    uncore: int


@dataclass(frozen=True)
class MachineNode:
    """One NUMA node: memory in bytes, and hugepages in bytes by resource name (`hugepages-2Mi`)."""

    id: int
    memory_bytes: int
    hugepages: Mapping[str, int] = field(default_factory=dict)
    distances: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class CpuTopology:
    """The CPU manager's view: where each CPU is, and how many units of each kind there are.

    The counts are separate fields because the kubelet divides them (CPUs per core is `num_cpus //
    num_cores`, an integer) and never reads the real sizes. pkg/kubelet/cm/cpumanager/topology/topology.go.
    """

    places: Mapping[int, CpuPlace]
    num_cpus: int
    num_cores: int
    num_sockets: int
    num_numa_nodes: int
    num_uncores: int

    @classmethod
    def of(cls, places: Mapping[int, CpuPlace]) -> "CpuTopology":
        """Count the units as Discover does."""
        return cls(
            places=places,
            num_cpus=len(places),
            num_cores=len({(cpu_place.numa_node, cpu_place.core) for cpu_place in places.values()}),
            num_sockets=len({cpu_place.socket for cpu_place in places.values()}),
            num_numa_nodes=len({cpu_place.numa_node for cpu_place in places.values()}),
            num_uncores=len({cpu_place.uncore for cpu_place in places.values()}),
        )

    @property
    def cpus_per_core(self) -> int:
        """Return the rounded-down number of threads of a core."""
        return self.num_cpus // self.num_cores if self.num_cores else 0

    @property
    def cpus_per_socket(self) -> int:
        return self.num_cpus // self.num_sockets if self.num_sockets else 0

    @property
    def cpus_per_uncore(self) -> int:
        return self.num_cpus // self.num_uncores if self.num_uncores else 0

    @cached_property
    def cpus(self) -> int:
        return mask_of(self.places)

    @cached_property
    def levels(self) -> dict[str, dict[int, int]]:
        """Return the CPUs of each unit of each kind, by the fields of `CpuPlace`."""
        levels: dict[str, dict[int, int]] = {kind: {} for kind in CpuPlace._fields}
        for cpu, cpu_place in self.places.items():
            for members, number in zip(levels.values(), cpu_place, strict=True):
                members[number] = members.get(number, 0) | 1 << cpu
        return {kind: dict(sorted(members.items())) for kind, members in levels.items()}

    @property
    def numa_nodes(self) -> dict[int, int]:
        return self.levels["numa_node"]

    @property
    def sockets(self) -> dict[int, int]:
        return self.levels["socket"]

    @property
    def cores(self) -> dict[int, int]:
        return self.levels["core"]

    @cached_property
    def numa_mask(self) -> int:
        """Return the bitmask of the NUMA nodes that have CPUs."""
        return mask_of(self.numa_nodes)

    def cpus_in_numa_nodes(self, numa_nodes: Iterable[int]) -> int:
        mask = 0
        for node in numa_nodes:
            mask |= self.numa_nodes.get(node, 0)
        return mask

    def sockets_in_numa_nodes(self, numa_nodes: Iterable[int]) -> frozenset[int]:
        cpus = self.cpus_in_numa_nodes(numa_nodes)
        return frozenset(socket for socket, members in self.sockets.items() if members & cpus)

    @cached_property
    def inside(self) -> dict[tuple[str, str, int], tuple[int, ...]]:
        """Return, for (inner level, outer level, outer id), the inner ids with a CPU there."""
        pairs = [("socket", "numa_node"), ("numa_node", "socket"), ("core", "socket"), ("core", "numa_node")]
        pairs += [("uncore", "numa_node"), ("core", "uncore")]
        return {
            (inner, outer, number): tuple(i for i, members in self.levels[inner].items() if members & cpus)
            for inner, outer in pairs
            for number, cpus in self.levels[outer].items()
        }


@dataclass(frozen=True, eq=False)
class MachineInfo:
    """The machine as the four managers know it; `memory_bytes` is the capacity that predicates use."""

    nodes: tuple[MachineNode, ...]
    cpus: CpuTopology
    memory_bytes: int

    @property
    def node_mask(self) -> int:
        """Return the bitmask of all NUMA nodes, those without CPUs included."""
        return mask_of(node.id for node in self.nodes)

    @property
    def tells_distances(self) -> bool:
        """Whether the distances between all NUMA nodes are known (topologymanager, NewNUMAInfo)."""
        ids = {node.id for node in self.nodes}
        return all(ids <= node.distances.keys() for node in self.nodes)

    @classmethod
    def from_topology(cls, topology: NodeTopology) -> "MachineInfo":
        """Return the MachineInfo of a NodeTopology, as cAdvisor reads the machine.

        cadvisor utils/sysinfo/sysinfo.go: cores are grouped below their NUMA node; an L3 cache counts as an
        uncore cache only where it does not cover its whole NUMA node; without NUMA nodes each socket stands
        for one. Raises TopologyError for a topology without CPUs.
        """
        if not cores_seen(topology):
            raise TopologyError("the topology names no cores, so no pod can be placed on it")
        nodes = tuple(
            MachineNode(
                id=node.id,
                memory_bytes=node.memory_bytes or 0,
                hugepages={
                    pages_of(size): pool.total * _page_bytes(size) for size, pool in node.hugepages.items()
                },
                distances=node.distances,
            )
            for node in topology.numa_nodes
        ) or tuple(
            MachineNode(id=package, memory_bytes=0)
            for package in sorted({core.package for core in cores_seen(topology)})
        )
        memory = topology.memory_bytes
        return cls(
            nodes=nodes,
            cpus=replace(CpuTopology.of(_places(topology)), num_sockets=len(packages_counted(topology))),
            memory_bytes=sum(node.memory_bytes for node in nodes) if memory is None else memory,
        )


def cores_seen(topology: NodeTopology) -> tuple[Core, ...]:
    """Return the cores that the kubelet finds: below their NUMA nodes, where the kernel shows any.

    The kubelet identifies them by the kernel's ids, which may disagree with the sibling masks. cadvisor
    utils/sysinfo/sysinfo.go, GetNodesInfo: the kubelet never counts a CPU without a NUMA node.
    """
    if topology.kubelet_cores is not None:
        return topology.kubelet_cores
    if not topology.numa_nodes:
        return topology.cores
    return tuple(core for core in topology.cores if core.numa_node is not None)


def cpus_seen(topology: NodeTopology) -> CpuSet:
    """Return the CPUs of the cores that the kubelet finds."""
    return frozenset[int]().union(*(core.cpus for core in cores_seen(topology)))


def packages_counted(topology: NodeTopology) -> tuple[Package, ...]:
    """Return the packages that the kubelet counts as sockets, including those without a NUMA node.

    pkg/kubelet/cm/cpumanager/topology/topology.go, Discover: NumSockets is machineInfo.NumSockets, which
    cAdvisor counts by the packages' ids; cores and CPUs are those below NUMA nodes.
    """
    return topology.packages if topology.kubelet_packages is None else topology.kubelet_packages


def whole_cores(topology: NodeTopology) -> tuple[Core, ...]:
    """Return the smallest sets of CPUs that are whole cores by the sibling masks and to the kubelet.

    Reserving such sets splits no core. Each has the package of its lowest CPU.
    """
    kubelet_cores = cores_seen(topology)
    if topology.kubelet_cores is None:
        return kubelet_cores
    of = {cpu: core.cpus for core in topology.cores for cpu in core.cpus}
    for core in kubelet_cores:
        joined = frozenset[int]().union(*(of[cpu] for cpu in core.cpus))
        of.update(dict.fromkeys(joined, joined))
    kubelet_cpus = cpus_seen(topology)
    return tuple(
        replace(core, cpus=of[min(core.cpus)] & kubelet_cpus)
        for core in topology.cores
        if min(core.cpus) == min(of[min(core.cpus)]) and of[min(core.cpus)] & kubelet_cpus
    )


def cpu_capacity(topology: NodeTopology) -> int:
    """Return how many CPUs the kubelet reports as the node's capacity.

    cadvisor utils/sysinfo/sysinfo.go: without NUMA nodes getCPUTopology counts the CPU directories, including
    those of offline CPUs.
    """
    if not topology.numa_nodes:
        return len(topology.online | topology.offline)
    return sum(len(core.cpus) for core in cores_seen(topology))


def _page_bytes(size: str) -> int:
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    number, unit = size[:-2], size[-2:]
    if unit not in units or not number.isdigit():
        raise TopologyError(f"{size!r} is not a hugepage size", remedy='write it as "2Mi" or "1Gi"')
    return int(number) * units[unit]


def _places(topology: NodeTopology) -> dict[int, CpuPlace]:
    cores_of_node: dict[int, int] = {}
    kubelet_cores = cores_seen(topology)
    for core in kubelet_cores:
        node = _numa_node_of(core)
        cores_of_node[node] = cores_of_node.get(node, 0) + 1
    shared = (cache for cache in topology.l3_caches if cache.level > _L2)
    caches = sorted(shared, key=lambda cache: min(cache.cpus, default=0))
    cache_of = {cpu: (number, len(cache.cpus)) for number, cache in enumerate(caches) for cpu in cache.cpus}
    places: dict[int, CpuPlace] = {}
    for core in kubelet_cores:
        node, first = _numa_node_of(core), min(core.cpus)
        uncore, size = cache_of.get(first, (core.package, 0))
        # cAdvisor counts a NUMA node's threads as if every core had as many as this one.
        covers_node = size == cores_of_node[node] * len(core.cpus)
        cpu_place = CpuPlace(
            core=first,
            socket=core.package,
            numa_node=node,
            uncore=core.package if covers_node else uncore,
        )
        places.update(dict.fromkeys(core.cpus, cpu_place))
    return dict(sorted(places.items()))


def _numa_node_of(core: Core) -> int:
    return core.package if core.numa_node is None else core.numa_node
