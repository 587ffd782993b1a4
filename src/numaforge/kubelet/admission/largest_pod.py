"""The largest pod that an empty node admits, for each number of devices: computed, without trying pods.

The rules are those of `admission.Node`, for a pod of one Guaranteed container; tests keep the two in step.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from math import comb

from numaforge.kubelet.admission.masks import bits, mask_of
from numaforge.kubelet.admission.merge import RESTRICTED, SINGLE_NUMA_NODE
from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.pod import MEMORY
from numaforge.kubelet_minors.values.pages import pages_of, size_of

# Under restricted the sets of NUMA nodes are searched; with more sets than this, there is no answer.
_MOST_SETS = 10_000

_NEVER = -1


@dataclass(frozen=True)
class PodShape:
    """A pod of one Guaranteed container: devices, whole CPUs, memory and huge pages (by size) in bytes."""

    devices: int
    cpus: int
    memory_bytes: int
    hugepages_bytes: Mapping[str, int] = field(default_factory=dict)  # "1Gi" -> bytes

    @property
    def sizes(self) -> dict[str, int]:
        """Memory and huge pages by resource name."""
        pages = {pages_of(size): count for size, count in self.hugepages_bytes.items()}
        return {MEMORY: self.memory_bytes, **{resource: count for resource, count in pages.items() if count}}


class EmptyNode:
    """A node without pods, as its managers would treat a first pod that requests `resource`."""

    def __init__(self, node: Node, resource: str | None = None) -> None:
        self._policy = node.settings.topology_policy
        self._cpu_manager = node.cpu_manager
        self._memory = node.memory_manager.nodes if node.memory_manager else None
        self._plugin = node.device_manager.plugins.get(resource or "")
        self._allocatable = node.allocatable
        self._topology = node.machine.cpus
        self._every = node.machine.node_mask
        self._pages = sorted(
            {size_of(page) for node_info in node.machine.nodes for page in node_info.hugepages}
        )
        self._least_nodes: dict[int, int] = {}
        self.step = max(1, node.machine.cpus.cpus_per_core)
        self.devices = self._plugin.healthy.bit_count() if self._plugin else 0

    def admits(self, shape: PodShape) -> bool:
        bounds = self._bounds(shape.devices)
        if bounds is None or not _within(shape, bounds):
            return False
        if not self._aligns(shape.devices):
            return True
        return any(self._has_room(members, shape) for members in self._sets(shape.devices))

    def largest(self, devices: int) -> PodShape | None:
        """Return the pod with the most CPUs, then the most memory, then the most huge pages.

        None where no pod with this many devices is admitted.
        """
        bounds = self._bounds(devices)
        if bounds is None or not self._aligns(devices):
            return bounds if bounds and bounds.cpus and bounds.memory_bytes else None
        best: PodShape | None = None
        for members in self._sets(devices):
            shape = self._filled(members, bounds)
            if (best is None or _order(shape) > _order(best)) and self._has_room(members, shape):
                best = shape
        return best

    def too_many_sets(self, devices: int) -> bool:
        """Whether there are too many sets of NUMA nodes to search."""
        if not self._aligns(devices) or self._policy != RESTRICTED:
            return False
        universe = self._universe(devices).bit_count()
        return sum(comb(universe, size) for size in self._set_sizes(devices)) > _MOST_SETS

    def _aligns(self, devices: int) -> bool:
        """Whether the policy can refuse pods, and a manager has an opinion."""
        opinions = self._cpu_manager or self._memory or self._near(devices)
        return self._policy in (RESTRICTED, SINGLE_NUMA_NODE) and bool(opinions)

    def _near(self, devices: int) -> bool:
        return devices > 0 and self._plugin is not None and self._plugin.has_topology

    def _bounds(self, devices: int) -> PodShape | None:
        """Return what the whole node has, on any NUMA node; None where it lacks the devices."""
        if devices > self.devices:
            return None
        cpus = self._allocatable.cpu_milli // 1000
        if self._cpu_manager:
            cpus = min(cpus, self._cpu_manager.available.bit_count())
            if self._cpu_manager.options.full_pcpus_only:
                free_cores = self._cpu_manager.default & ~self._cpu_manager.reserved_cores
                cpus = min(cpus, free_cores.bit_count())
        return PodShape(
            devices,
            cpus // self.step * self.step,
            self._most_memory(MEMORY, self._every),
            {size: self._most_memory(pages_of(size), self._every) for size in self._pages},
        )

    def _filled(self, members: int, bounds: PodShape) -> PodShape:
        """Return the largest shape on a set of NUMA nodes."""
        cpus = bounds.cpus
        if self._cpu_manager:
            near = self._cpu_manager.available & self._topology.cpus_in_numa_nodes(bits(members))
            cpus = min(cpus, near.bit_count() // self.step * self.step)
        return PodShape(
            bounds.devices,
            cpus,
            self._most_memory(MEMORY, members),
            {size: self._most_memory(pages_of(size), members) for size in self._pages},
        )

    def _most_memory(self, resource: str, members: int) -> int:
        most = self._allocatable.amount(resource)
        if self._memory is None:
            return most
        return min(most, sum(self._memory[number].allocatable(resource) for number in bits(members)))

    def _sets(self, devices: int) -> Iterator[int]:
        """Yield the sets of NUMA nodes on which a pod could be aligned, the largest first."""
        universe = list(bits(self._universe(devices)))
        if self.too_many_sets(devices):
            return
        for size in self._set_sizes(devices):
            yield from (mask_of(members) for members in combinations(universe, size))

    def _set_sizes(self, devices: int) -> list[int]:
        if self._policy == SINGLE_NUMA_NODE:
            return [1]
        if self._near(devices):
            return [size] if (size := self._least_nodes_for_devices(devices)) != _NEVER else []
        return list(range(self._universe(devices).bit_count(), 0, -1))

    def _universe(self, devices: int) -> int:
        """Return the NUMA nodes that every manager with an opinion considers."""
        universe = self._every
        if self._cpu_manager:
            universe &= self._topology.numa_mask
        if self._plugin and self._near(devices):
            universe &= self._plugin.nodes
        return universe

    def _has_room(self, members: int, shape: PodShape) -> bool:
        """Whether these NUMA nodes are a preferred hint of every manager for this shape."""
        size = members.bit_count()
        if not shape.cpus or not shape.memory_bytes:
            return False
        if self._plugin and self._near(shape.devices):
            near = self._plugin.in_nodes(members) & self._plugin.healthy
            if near.bit_count() < shape.devices or self._least_nodes_for_devices(shape.devices) != size:
                return False
        if self._cpu_manager and not self._cpus_prefer(members, shape.cpus):
            return False
        return self._memory is None or self._memory_prefers(members, shape.sizes)

    def _cpus_prefer(self, members: int, cpus: int) -> bool:
        manager = self._cpu_manager
        free = manager.available & self._topology.cpus_in_numa_nodes(bits(members)) if manager else 0
        if manager is None or free.bit_count() < cpus:
            return False
        totals = sorted(
            (node_cpus.bit_count() for node_cpus in self._topology.numa_nodes.values()), reverse=True
        )
        least = next((size for size in range(1, len(totals) + 1) if sum(totals[:size]) >= cpus), _NEVER)
        return manager.prefers(members, least)

    def _memory_prefers(self, members: int, sizes: Mapping[str, int]) -> bool:
        if not self._holds(members, sizes):
            return False
        fewer = members.bit_count() - 1
        for resource, size in sizes.items():
            amounts = (table.allocatable(resource) for table in (self._memory or {}).values())
            if sum(sorted(amounts, reverse=True)[:fewer]) < size:
                return True
        every = bits(self._every)
        return not any(self._holds(mask_of(fewer_nodes), sizes) for fewer_nodes in combinations(every, fewer))

    def _holds(self, members: int, sizes: Mapping[str, int]) -> bool:
        tables = [(self._memory or {})[number] for number in bits(members)]
        return all(sum(table.allocatable(r) for table in tables) >= size for r, size in sizes.items())

    def _least_nodes_for_devices(self, devices: int) -> int:
        if devices not in self._least_nodes:
            sizes = range(1, self._plugin.nodes.bit_count() + 1) if self._plugin else range(0)
            enough = (size for size in sizes if self._most_devices(size) >= devices)
            self._least_nodes[devices] = next(enough, _NEVER)
        return self._least_nodes[devices]

    def _most_devices(self, nodes: int) -> int:
        """Return the most devices near any `nodes` NUMA nodes."""
        plugin = self._plugin
        if plugin is None:
            return 0
        if all(len(device.numa_nodes or ()) < 2 for device in plugin.devices):
            counts = sorted((plugin.in_nodes(1 << n).bit_count() for n in bits(plugin.nodes)), reverse=True)
            return sum(counts[:nodes])
        sets = combinations(bits(plugin.nodes), nodes)
        return max(plugin.in_nodes(mask_of(members)).bit_count() for members in sets)


def _within(shape: PodShape, bounds: PodShape) -> bool:
    sizes = {**bounds.sizes}
    return shape.cpus <= bounds.cpus and all(size <= sizes.get(r, 0) for r, size in shape.sizes.items())


def _order(shape: PodShape) -> tuple[int, int, list[int]]:
    return shape.cpus, shape.memory_bytes, list(shape.hugepages_bytes.values())
