"""The order in which cores are reserved: NUMA nodes in turn, housekeeping CPUs first, one L3 at a time."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from numaforge.kubelet.admission.machine import whole_cores
from numaforge.lib.ordering import grouped
from numaforge.machine.topology.model import Core, CpuSet, NodeTopology


class CoreOrder(NamedTuple):
    """NUMA nodes take turns, the preferred ones first, in their order, until they have no core left.

    Cores with isolated CPUs (isolcpus, nohz_full) come last of all: the kernel keeps its own work off them.
    """

    preferred: tuple[int, ...]
    isolated: CpuSet

    def take(self, nodes: Mapping[int, Sequence[Core]], count: int) -> CpuSet:
        """Return the CPUs of `count` cores; a larger count includes the CPUs of a smaller one."""
        cores = [core for _, core in zip(range(count), self._all(nodes), strict=False)]
        return frozenset[int]().union(*(core.cpus for core in cores))

    def _all(self, nodes: Mapping[int, Sequence[Core]]) -> Iterator[Core]:
        first = [node for node in self.preferred if node in nodes]
        less_preferred = [node for node in sorted(nodes) if node not in self.preferred]
        for isolated in (False, True):
            for group in (first, less_preferred):
                yield from _turns(
                    [core for core in nodes[node] if bool(core.cpus & self.isolated) == isolated]
                    for node in group
                )


def _turns(nodes: Collection[Sequence[Core]] | Iterator[Sequence[Core]]) -> Iterator[Core]:
    """Yield one core of each NUMA node in turn, as long as one has some."""
    nodes = [*nodes]
    for turn in range(max(map(len, nodes), default=0)):
        yield from (cores[turn] for cores in nodes if turn < len(cores))


def isolated_cpus(topology: NodeTopology) -> CpuSet:
    """Return the CPUs that the kernel's command line takes from its own work: isolcpus and nohz_full."""
    return topology.isolated | (topology.nohz_full or frozenset())


def cores_by_numa_node(topology: NodeTopology) -> dict[int, list[Core]]:
    """Return the cores that the kubelet finds, by NUMA node, one L3 group after the other."""
    groups = {
        cpu: first
        for cache in topology.l3_caches
        for first in [min(cache.cpus, default=0)]
        for cpu in cache.cpus
    }
    # A kernel without NUMA support exports no nodes: all of its CPUs are together.
    by_node = grouped(
        (core.numa_node if core.numa_node is not None else 0, core) for core in whole_cores(topology)
    )
    return {node: _by_l3_group(cores, groups) for node, cores in sorted(by_node.items())}


def _by_l3_group(cores: Sequence[Core], groups: Mapping[int, int]) -> list[Core]:
    first: dict[int | None, int] = {}
    for core in cores:
        lowest = min(core.cpus)
        group = groups.get(lowest)
        first[group] = min(lowest, first.get(group, lowest)) if group is not None else -1
    return sorted(cores, key=lambda core: (first[groups.get(min(core.cpus))], min(core.cpus)))
