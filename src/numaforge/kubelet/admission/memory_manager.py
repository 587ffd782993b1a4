"""The memory manager: which NUMA nodes a container's memory and hugepages come from.

pkg/kubelet/cm/memorymanager/policy_static.go of kubelet 1.28 to 1.37, policy Static.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numaforge.kubelet.admission.demand import GUARANTEED, NOT_WHOLE_BYTES, Demand, why_pool_is_empty
from numaforge.kubelet.admission.hints import NO_HINTS, Hint, Hints, HintsByResource
from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.masks import (
    bits,
    fewest,
    ids_of,
    mask_of,
    of_size,
    refuse_endless,
    subsets,
    sums,
)
from numaforge.kubelet.admission.pod import MEMORY, Container, Pod
from numaforge.kubelet.admission.refusal import EMPTY_POD_SHARED_POOL, PodRejectedError, unexpected
from numaforge.kubelet.checkpoints import FreshTable, MemoryState, check_memory_state
from numaforge.kubelet_minors.versions import LATEST_MINOR
from numaforge.lib.errors import KubeletConfigError

# The kubelet's uint64 sizes wrap: a node with more reserved than it has appears to have endless memory.
_UINT64 = 2**64
# From this minor on memory across groups of NUMA nodes is refused.
_FIRST_MINOR_OF_KEPT_GROUPS = 32
# From this minor on a container that requests no memory is skipped first.
_FIRST_MINOR_WITHOUT_EMPTY_BLOCKS = 37

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class MemoryBlock:
    """Memory or hugepages (`resource`) of one container: bytes, and the NUMA nodes they come from."""

    resource: str
    numa_nodes: frozenset[int]
    bytes: int

    def __str__(self) -> str:
        return f"{self.resource}@[{' '.join(map(str, sorted(self.numa_nodes)))}]={self.bytes}"


@dataclass
class MemoryTable:
    """One resource on one NUMA node, in bytes (state.MemoryTable)."""

    allocatable: int
    free: int
    reserved: int = 0


@dataclass
class NodeMemory:
    """One NUMA node: its resources, the number of blocks on it, and the group of nodes they span."""

    tables: dict[str, MemoryTable]
    assignments: int
    group: int

    def free(self, resource: str) -> int:
        """Return the free bytes of a resource, 0 for one that the node does not have."""
        return self.tables[resource].free if resource in self.tables else 0

    def allocatable(self, resource: str) -> int:
        """Return the allocatable bytes of a resource, 0 for one that the node does not have."""
        return self.tables[resource].allocatable if resource in self.tables else 0


def _blocks(written: Sequence[Mapping[str, Any]]) -> tuple[MemoryBlock, ...]:
    """Return the blocks of a checkpoint."""
    return tuple(
        MemoryBlock(block["type"], frozenset(block["numaAffinity"]), block["size"]) for block in written
    )


class MemoryManager:
    """The Static policy and its state.

    `fresh` is the state without pods, `nodes` maps NUMA node -> its memory, `assignments` pod -> container ->
    blocks, `pods` pod -> the blocks of a pod that is managed as one unit.
    """

    def __init__(
        self, machine: MachineInfo, reserved: Mapping[int, Sizes], minor: int = LATEST_MINOR
    ) -> None:
        if not sum(sizes.get(MEMORY, 0) for sizes in reserved.values()):
            raise KubeletConfigError(
                "[memorymanager] you should specify the system reserved memory",
                where="reservedMemory",
                remedy="the policy Static needs reservedMemory for each NUMA node that keeps memory back",
            )
        self._minor = minor
        self.fresh = fresh_memory(machine, reserved)
        self.nodes = self._empty_nodes()
        self.assignments: dict[str, dict[str, tuple[MemoryBlock, ...]]] = {}
        self.pods: dict[str, tuple[MemoryBlock, ...]] = {}
        self._reusable: tuple[str, dict[tuple[int, str], int]] = ("", {})
        self._node_mask = machine.node_mask

    def _empty_nodes(self) -> dict[int, NodeMemory]:
        return {
            number: NodeMemory(
                {name: MemoryTable(table.allocatable, table.allocatable) for name, table in tables.items()},
                0,
                1 << number,
            )
            for number, tables in self.fresh.items()
        }

    def restore(self, state: MemoryState, *, running: bool = False) -> None:
        """Restore a checkpoint, or raise KubeletConfigError where the policy would not start with it.

        The checkpoint of a `running` kubelet need not be one that it would start with.
        """
        complaint = check_memory_state(state, self.fresh, self._minor, running=running)
        if complaint:
            raise KubeletConfigError(complaint)
        for number, saved in state.machine.items():
            node = self.nodes[number]
            node.assignments, node.group = saved["numberOfAssignments"], mask_of(saved["cells"])
            for resource, table in saved["memoryMap"].items():
                node.tables[resource].free = table["free"]
                node.tables[resource].reserved = table["reserved"]
        self.assignments = {
            pod: {container: _blocks(blocks) for container, blocks in containers.items()}
            for pod, containers in state.assignments.items()
        }
        self.pods = {pod: _blocks(blocks) for pod, blocks in state.pods.items()}
        if running and self._is_half_written():
            self.nodes = self._empty_nodes()
            for block in self._all_blocks():
                self._reserve(mask_of(block.numa_nodes), block.resource, block.bytes)

    def _all_blocks(self) -> Iterator[MemoryBlock]:
        """Yield the blocks of all pods."""
        for pod, containers in self.assignments.items():
            for blocks in [self.pods[pod]] if pod in self.pods else containers.values():
                yield from blocks

    def _is_half_written(self) -> bool:
        """Whether a running kubelet has written an allocation or release in one of two places only.

        It writes NUMA nodes and containers one after the other (Allocate, RemoveContainer). In between, their
        numbers of assignments or their total bytes differ.
        """
        assignments: Counter[int] = Counter()
        sizes: Counter[str] = Counter()
        for block in self._all_blocks():
            assignments.update(block.numa_nodes)
            sizes[block.resource] += block.bytes
        reserved: Counter[str] = Counter()
        for node in self.nodes.values():
            reserved.update({resource: table.reserved for resource, table in node.tables.items()})
        return sizes != reserved or any(
            node.assignments != assignments[number] for number, node in self.nodes.items()
        )

    def has_given(self, demand: Demand) -> bool:
        """Whether a pod already has all its memory; init containers, which may have ended, do not count."""
        if demand.qos != GUARANTEED or not demand.pinned:
            return True
        if demand.by_pod:
            return not demand.pod_memory or demand.pod.name in self.pods
        by_container = self.assignments.get(demand.pod.name, {})
        lasting = (
            container.name
            for container in demand.pod.containers
            if container.restartable or not container.init
        )
        return all(name in by_container for name in lasting if demand.memory[name])

    def collect(self, active: Collection[str]) -> None:
        """Release the memory of pods that are no longer active (removeStaleState)."""
        for pod in [pod for pod in self.assignments if pod not in active]:
            by_container = self.assignments.pop(pod)
            for blocks in [self.pods.pop(pod)] if pod in self.pods else by_container.values():
                self._release(blocks)

    def finish_init_containers(self, pod: Pod) -> None:
        """Release what is left of the init containers' memory once the app containers start.

        pkg/kubelet/cm/memorymanager/memory_manager.go, AddContainer. The CPU manager and the device
        manager keep theirs until the pod is gone.
        """
        by_container = self.assignments.get(pod.name, {})
        for container in pod.init_containers:
            if not container.restartable and container.name in by_container and pod.name not in self.pods:
                self._release(by_container.pop(container.name))

    def container_hints(self, demand: Demand, container: Container) -> HintsByResource:
        """Return the hints for one container (GetTopologyHints)."""
        sizes = demand.memory[container.name]
        if demand.qos != GUARANTEED or sizes is None or not demand.pinned:
            return {}
        blocks = self.assignments.get(demand.pod.name, {}).get(container.name)
        if blocks is not None:
            return _held_hints(blocks, sizes)
        return self._hints(demand, sizes)

    def pod_hints(self, demand: Demand) -> HintsByResource:
        """Return the hints for a pod as a whole (GetPodTopologyHints)."""
        sizes = demand.pod_memory
        if demand.qos != GUARANTEED or sizes is None or not demand.pinned:
            return {}
        if demand.by_pod and _why_pool_is_empty(demand) is not None:
            return dict.fromkeys(sizes, NO_HINTS)
        if not sizes:
            return {}
        by_container = self.assignments.get(demand.pod.name, {})
        for container in demand.pod.containers:
            if container.name in by_container:
                return _held_hints(by_container[container.name], sizes)
        return self._hints(demand, sizes)

    def allocate(self, demand: Demand, container: Container, hint: Hint) -> None:
        """Pin a container's memory, or raise PodRejectedError (Allocate)."""
        if demand.qos != GUARANTEED or not demand.pinned:
            return
        pod = demand.pod.name
        pinned = self.assignments.get(pod, {}).get(container.name)
        sizes = demand.memory[container.name]
        if self._minor >= _FIRST_MINOR_WITHOUT_EMPTY_BLOCKS:
            if sizes is None:
                raise unexpected(NOT_WHOLE_BYTES, MEMORY)
            if not sizes:
                return
        if pinned is not None:
            self._update_reusable(pod, container, pinned)
            return
        if sizes is None:
            raise unexpected(NOT_WHOLE_BYTES, MEMORY)
        numa = self._placement(demand, sizes, hint)
        nodes = ids_of(numa)
        blocks = tuple(MemoryBlock(resource, nodes, size) for resource, size in sizes.items())
        for block in blocks:
            reusable = self._reusable_by_nodes(pod, block.resource).get(numa, 0)
            self._reserve(numa, block.resource, max(0, block.bytes - reusable))
        self._update_reusable(pod, container, blocks)
        self.assignments.setdefault(pod, {})[container.name] = blocks
        self._shrink_init_blocks(demand, container, blocks)

    def allocate_pod(self, demand: Demand, hint: Hint) -> None:
        """Pin a pod with pod-level resources as one unit, and divide the blocks (AllocatePod)."""
        total = demand.pod_memory
        if demand.qos != GUARANTEED or total is None:
            return
        empty = _why_pool_is_empty(demand)
        if empty is not None:
            raise PodRejectedError(EMPTY_POD_SHARED_POOL, empty, MEMORY)
        numa = self._placement(demand, total, hint)
        nodes = ids_of(numa)
        pod = demand.pod.name
        self.pods[pod] = tuple(MemoryBlock(resource, nodes, size) for resource, size in total.items())
        for resource, size in total.items():
            self._reserve(numa, resource, size)
        self.assignments[pod] = {
            name: tuple(MemoryBlock(resource, nodes, size) for resource, size in share.items() if size > 0)
            for name, share in _shares(demand, total).items()
        }

    def _placement(self, demand: Demand, sizes: Sizes, hint: Hint) -> int:
        """Return the NUMA nodes that serve a request: those of the hint, or a superset with enough free."""

        def refusal(cause: str) -> PodRejectedError:
            return unexpected(f"[memorymanager] {cause}", *self._short_of(sizes))

        numa, preferred = hint
        if numa is None:
            candidates = self._hints(demand, sizes)
            if not candidates:
                raise refusal(
                    "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
                )
            best = (candidates.get(MEMORY) or NO_HINTS).best() or Hint(0, False)
            if not best.preferred and preferred:
                raise refusal("failed to find the default preferred hint")
            numa, preferred = best.numa or 0, best.preferred
        # Reusable memory of the pod's init containers does not count here (isAffinitySatisfyRequest).
        if any(sum(self.nodes[n].free(r) for n in bits(numa)) % _UINT64 < size for r, size in sizes.items()):
            wider = (self._hints(demand, sizes).get(MEMORY) or NO_HINTS).best(above=numa)
            if wider is None:
                raise refusal("failed to find NUMA nodes to extend the current topology hint")
            if not wider.preferred and preferred:
                raise refusal("failed to find the extended preferred hint")
            numa = wider.numa or 0
        if self._violates_groups(numa):
            raise refusal("preferred hint violates NUMA node allocation")
        return numa

    def _hints(self, demand: Demand, sizes: Sizes) -> dict[str, Hints | None]:
        """Return the same hints for each resource, or none where no nodes serve all (calculateHints)."""
        every = self._node_mask
        refuse_endless(every)
        allocatable = {r: {n: node.allocatable(r) for n, node in self.nodes.items()} for r in sizes}
        free = {r: {n: node.free(r) for n, node in self.nodes.items()} for r in sizes}
        reusable = {r: self._reusable_by_nodes(demand.pod.name, r) for r in sizes}
        fits_groups = self._group_rule()

        def possible(mask: int) -> bool:
            return all(sum(allocatable[r][n] for n in bits(mask)) % _UINT64 >= sizes[r] for r in sizes)

        def roomy(mask: int) -> bool:
            return all(
                (sum(free[r][n] for n in bits(mask)) + reusable[r].get(mask, 0)) % _UINT64 >= sizes[r]
                for r in sizes
            )

        def masks() -> list[int]:
            sets = subsets(every)
            able = [True] * len(sets)
            for resource, size in sizes.items():
                totals, free_totals = sums(every, allocatable[resource]), sums(every, free[resource])
                reusable_of = reusable[resource].get
                able = [
                    ok and total % _UINT64 >= size and (rest + reusable_of(mask, 0)) % _UINT64 >= size
                    for ok, mask, total, rest in zip(able, sets, totals, free_totals, strict=True)
                ]
            return [mask for mask, ok in zip(sets, able, strict=True) if ok and mask and fits_groups(mask)]

        smallest = self._narrowest(allocatable, sizes, possible)
        narrow = [m for m in of_size(every, smallest) if fits_groups(m) and possible(m) and roomy(m)]
        hints = Hints(narrow, masks)
        return dict.fromkeys(sizes, hints) if hints else {}

    def _narrowest(
        self,
        amounts: Mapping[str, Mapping[int, int]],
        sizes: Mapping[str, int],
        possible: Callable[[int], bool],
    ) -> int:
        """Return the size of the smallest set that could serve all if it were empty, else of all nodes."""
        every = self._node_mask.bit_count()
        wraps = any(sum(by_node.values()) >= _UINT64 for by_node in amounts.values())
        first = (
            1
            if wraps
            else max((fewest(by_node.values(), sizes[r]) for r, by_node in amounts.items()), default=1)
        )
        able = (size for size in range(first, every) if any(map(possible, of_size(self._node_mask, size))))
        return next(able, every)

    def _group_rule(self) -> Callable[[int], bool]:
        """Return the test for usable sets: a NUMA node serves either single-node requests or one group of
        nodes, never both (KEP-1769).
        """
        single, grouped, groups = self._groups()
        used = 0
        for node, _ in groups:
            used |= node

        def fits(mask: int) -> bool:
            if mask & (mask - 1) == 0:
                return not mask & grouped
            if mask & single:
                return False
            return not mask & used or all(mask == group for node, group in groups if mask & node)

        return fits

    def _groups(self) -> tuple[int, int, list[tuple[int, int]]]:
        """Return the nodes used alone, the nodes in a group, and (node, group) for those of them in use."""
        single = grouped = 0
        groups: list[tuple[int, int]] = []
        for number, node in self.nodes.items():
            is_single = node.group.bit_count() == 1
            if not is_single:
                grouped |= 1 << number
            if node.assignments > 0 and is_single:
                single |= 1 << number
            elif node.assignments > 0:
                groups.append((1 << number, node.group))
        return single, grouped, groups

    def _short_of(self, sizes: Sizes) -> list[str]:
        """Return the resources that all NUMA nodes together are short of, or all of `sizes` where none is."""
        short = [r for r, size in sizes.items() if sum(node.free(r) for node in self.nodes.values()) < size]
        return short or list(sizes) or [MEMORY]

    def _violates_groups(self, numa: int) -> bool:
        """isAffinityViolatingNUMAAllocations."""
        if numa.bit_count() == 1 or self._minor < _FIRST_MINOR_OF_KEPT_GROUPS:
            return False
        return any(self.nodes[n].assignments > 0 and self.nodes[n].group != numa for n in bits(numa))

    def _reserve(self, numa: int, resource: str, size: int) -> None:
        """Take `size` bytes from the nodes in order, each to its last byte (updateMachineState)."""
        for number in bits(numa):
            node = self.nodes[number]
            node.assignments += 1
            node.group = numa
            table = node.tables.get(resource)
            if size == 0 or table is None or table.free <= 0:
                continue
            part = min(table.free, size)
            table.reserved += part
            table.free -= part
            size -= part

    def _release(self, blocks: tuple[MemoryBlock, ...]) -> None:
        """releaseMemory."""
        for block in blocks:
            size = block.bytes
            for number in sorted(block.numa_nodes):
                node = self.nodes[number]
                node.assignments -= 1
                if node.assignments == 0:
                    node.group = 1 << number
                table = node.tables.get(block.resource)
                if size == 0 or table is None or table.reserved == 0:
                    continue
                part = min(table.reserved, size)
                table.free += part
                table.reserved -= part
                size -= part

    # Memory of init containers is reusable: bytes by (NUMA nodes, resource), for one pod at a time.

    def _reusable_by_nodes(self, pod: str, resource: str) -> dict[int, int]:
        owner, sizes = self._reusable
        return {numa: size for (numa, kind), size in sizes.items() if owner == pod and kind == resource}

    def _update_reusable(self, pod: str, container: Container, blocks: tuple[MemoryBlock, ...]) -> None:
        owner, sizes = self._reusable
        sizes = dict(sizes) if owner == pod else {}
        for block in blocks:
            key = mask_of(block.numa_nodes), block.resource
            unused = sizes.get(key, 0)
            if container.init and not container.restartable:
                sizes[key] = max(unused, block.bytes)
            elif unused:
                sizes[key] = max(0, unused - block.bytes)
        self._reusable = (pod, sizes)

    def _shrink_init_blocks(
        self, demand: Demand, container: Container, blocks: tuple[MemoryBlock, ...]
    ) -> None:
        """Subtract what a container reuses from its init containers (updateInitContainersMemoryBlocks)."""
        by_container = self.assignments[demand.pod.name]
        for block in blocks:
            size = block.bytes
            for earlier in demand.pod.init_containers:
                if earlier.name == container.name or size == 0:
                    break
                if earlier.restartable or not by_container.get(earlier.name):
                    continue
                shrunk: list[MemoryBlock] = []
                for old in by_container[earlier.name]:
                    if old.bytes and (old.resource, old.numa_nodes) == (block.resource, block.numa_nodes):
                        reused = min(old.bytes, size)
                        size -= reused
                        old = replace(old, bytes=old.bytes - reused)
                    shrunk.append(old)
                by_container[earlier.name] = tuple(shrunk)


def fresh_memory(machine: MachineInfo, reserved: Mapping[int, Sizes]) -> dict[int, dict[str, FreshTable]]:
    """Return the initial state of Static, by NUMA node and resource (getDefaultMachineState).

    Hugepages and the reservation are subtracted from a node's memory; allocatable wraps below zero, as uint64
    does.
    """

    def table(total: int, reserved_here: int, pages: int) -> FreshTable:
        return FreshTable(total, reserved_here, (total - reserved_here - pages) % _UINT64)

    state = {}
    for node in machine.nodes:
        reserved_here = reserved.get(node.id, {})
        tables = {name: table(size, reserved_here.get(name, 0), 0) for name, size in node.hugepages.items()}
        tables[MEMORY] = table(node.memory_bytes, reserved_here.get(MEMORY, 0), sum(node.hugepages.values()))
        state[node.id] = tables
    return state


def _held_hints(blocks: tuple[MemoryBlock, ...], sizes: Sizes) -> HintsByResource:
    """Return the hints for memory already held; no opinion where the size differs (regenerateHints)."""
    hints: dict[str, list[Hint]] = {resource: [] for resource in sizes}
    if len(blocks) != len(sizes) or any(sizes.get(block.resource) != block.bytes for block in blocks):
        return {}
    for block in blocks:
        hints[block.resource].append(Hint(mask_of(block.numa_nodes), True))
    return {resource: Hints.of(resource_hints) for resource, resource_hints in hints.items()}


def _why_pool_is_empty(demand: Demand) -> str | None:
    return why_pool_is_empty(demand.pod, demand.pod_memory or {}, demand.memory)


def _shares(demand: Demand, total: Sizes) -> dict[str, dict[str, int]]:
    """Return each container's share of a pod's memory: its own, or the shared pool."""
    sidecars: dict[str, int] = {}
    shares: dict[str, dict[str, int]] = {}
    for container in demand.pod.init_containers:
        sizes = dict(demand.memory[container.name] or {})
        if sizes:
            shares[container.name] = sizes
            if container.restartable:
                for resource, size in sizes.items():
                    sidecars[resource] = sidecars.get(resource, 0) + size
        elif not container.restartable:
            shares[container.name] = {r: size - sidecars.get(r, 0) for r, size in total.items()}
    pool = {r: size - sidecars.get(r, 0) for r, size in total.items()}
    for container in demand.pod.app_containers:
        sizes = dict(demand.memory[container.name] or {})
        if sizes:
            shares[container.name] = sizes
            pool = {r: size - sizes.get(r, 0) for r, size in pool.items()}
    return {container.name: shares.get(container.name, pool) for container in demand.pod.containers}
