"""Which CPUs a request gets: the kubelet's topology-aware best fit, packed or distributed over NUMA nodes.

pkg/kubelet/cm/cpumanager/cpu_assignment.go of kubelet 1.37, and before.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from numaforge.kubelet.admission.machine import CpuTopology
from numaforge.kubelet.admission.masks import bits
from numaforge.kubelet.admission.refusal import KubeletHangError
from numaforge.kubelet_minors.options import (
    ALIGN_BY_SOCKET,
    DISTRIBUTE_ACROSS_CORES,
    DISTRIBUTE_ACROSS_NUMA,
    FULL_PCPUS_ONLY,
    PREFER_ALIGN_BY_UNCORE_CACHE,
    STRICT_CPU_RESERVATION,
)
from numaforge.kubelet_minors.versions import LATEST_MINOR
from numaforge.lib.errors import NumaforgeError

# From this minor on no NUMA node is asked for more CPUs than it has free, and align-by-socket counts here.
_FIRST_MINOR_OF_CAPPED_SHARES = 37
# From this minor on a part of a cache may serve an odd number of CPUs.
_FIRST_MINOR_OF_UNCORE_ROUNDING = 34
# From this minor on a shortage comes with its numbers.
_FIRST_MINOR_OF_COUNTED_SHORTAGES = 29


class AssignmentError(NumaforgeError):
    """The available CPUs cannot serve the request; the message is the kubelet's."""


class CpuOptions(NamedTuple):
    """The static CPU manager policy's options, in the order of `CPU_OPTION_NAMES`."""

    full_pcpus_only: bool = False
    distribute_across_numa: bool = False
    distribute_across_cores: bool = False
    align_by_socket: bool = False
    strict_reservation: bool = False
    prefer_align_by_uncore: bool = False

    @classmethod
    def of(cls, options: Mapping[str, bool]) -> "CpuOptions":
        """Return the options of a mapping by the kubelet's names."""
        return cls(*(options.get(name, False) for name in CPU_OPTION_NAMES))


CPU_OPTION_NAMES = (
    FULL_PCPUS_ONLY,
    DISTRIBUTE_ACROSS_NUMA,
    DISTRIBUTE_ACROSS_CORES,
    ALIGN_BY_SOCKET,
    STRICT_CPU_RESERVATION,
    PREFER_ALIGN_BY_UNCORE_CACHE,
)


def take(topology: CpuTopology, options: CpuOptions, available: int, count: int, minor: int) -> int:
    """Return the CPUs that the policy takes under its options (takeByTopology). Raises AssignmentError."""
    spread = options.distribute_across_cores
    if options.distribute_across_numa:
        group = topology.cpus_per_core if options.full_pcpus_only else 1
        by_socket = options.align_by_socket
        return take_distributed(
            topology, available, count, group=group, spread=spread, by_socket=by_socket, minor=minor
        )
    align = options.prefer_align_by_uncore
    return take_packed(topology, available, count, spread=spread, align_uncore=align, minor=minor)


def take_packed(
    topology: CpuTopology,
    available: int,
    count: int,
    *,
    spread: bool = False,
    align_uncore: bool = False,
    minor: int = LATEST_MINOR,
) -> int:
    """Return `count` of the CPUs in `available`, on as few NUMA nodes, sockets, caches and cores as possible.

    takeByTopologyNUMAPacked. `spread` is distribute-cpus-across-cores, `align_uncore` prefer-align-cpus-by-
    uncorecache. Raises AssignmentError where fewer are available.
    """
    taking = _CpuAccumulator(topology, available, count, minor)
    if taking.satisfied:
        return taking.result
    taking.refuse_shortage()
    kinds = ["numa_node", "socket"] if taking.numa_first else ["socket", "numa_node"]
    steps: list[Callable[[], None]] = [partial(taking.take_full, kind) for kind in kinds]
    if align_uncore:
        steps.append(taking.take_uncores)
    if not spread:
        steps.append(partial(taking.take_full, "core"))
    steps.append(partial(taking.take_one_by_one, "socket" if spread else "core"))
    for step in steps:
        step()
        if taking.satisfied:
            return taking.result
    raise AssignmentError("failed to allocate cpus")


def take_distributed(
    topology: CpuTopology,
    available: int,
    count: int,
    *,
    group: int = 1,
    spread: bool = False,
    by_socket: bool = False,
    minor: int = LATEST_MINOR,
) -> int:
    """Return `count` CPUs spread evenly over as few NUMA nodes as can share them evenly.

    takeByTopologyNUMADistributed (KEP-2902), for distribute-cpus-across-numa. CPUs are taken in groups
    of `group`, the number of threads per core under full-pcpus-only; `by_socket` is align-by-socket.
    Falls back to `take_packed`.
    """
    if count % group:
        return take_packed(topology, available, count, spread=spread, minor=minor)
    taking = _CpuAccumulator(topology, available, count, minor)
    if taking.satisfied:
        return taking.result
    taking.refuse_shortage()
    nodes = taking.ordered("numa_node")
    smallest, largest = _numa_node_range(taking, group)
    for size in range(smallest, largest + 1):
        capped = minor >= _FIRST_MINOR_OF_CAPPED_SHARES
        choice = _most_balanced(taking, nodes, size, group, by_socket=by_socket and capped)
        if choice is not None:
            return _take_choice(taking, choice, group, spread=spread, capped=capped)
    return take_packed(topology, available, count, spread=spread, minor=minor)


class _CpuAccumulator:
    """One request in progress: the CPUs still free, those taken, and how many are still needed."""

    def __init__(self, topology: CpuTopology, available: int, count: int, minor: int) -> None:
        self.minor = minor
        self.topology = topology
        self.available = available
        self.free = available & topology.cpus
        self.requested = count
        self.needed = count
        self.result = 0
        self.numa_first = topology.num_sockets >= topology.num_numa_nodes
        inner, outer = ("socket", "numa_node") if self.numa_first else ("numa_node", "socket")
        self._outer = {inner: outer, "core": inner, "uncore": "numa_node"}

    @property
    def satisfied(self) -> bool:
        return self.needed < 1

    def refuse_shortage(self) -> None:
        if self.needed > self.free.bit_count():
            counts = f": requested={self.requested}, available={self.available.bit_count()}"
            counted = self.minor >= _FIRST_MINOR_OF_COUNTED_SHORTAGES
            raise AssignmentError(f"not enough cpus available to satisfy request{counts if counted else ''}")

    def take(self, cpus: int) -> None:
        self.result |= cpus
        self.free &= ~self.result
        # A unit that is listed twice (a socket that spans NUMA nodes) is counted twice, as in the kubelet.
        self.needed -= cpus.bit_count()

    def ordered(self, kind: str) -> list[int]:
        """Return the units of a kind with free CPUs: those with the fewest first, then by id.

        They are ordered within each unit that they lie in: cores in sockets in NUMA nodes.
        """
        level, outer = self.topology.levels[kind], self._outer.get(kind)
        if outer is None:
            return self._ordered(level, level, -1)
        result: list[int] = []
        for number in self.ordered(outer):
            within = self.topology.levels[outer][number]
            result += self._ordered(self.topology.inside[kind, outer, number], level, within)
        return result

    def _ordered(self, ids: Iterable[int], level: Mapping[int, int], within: int) -> list[int]:
        free = self.free
        inside = free & within
        return [i for _, i in sorted([((free & level[i]).bit_count(), i) for i in ids if inside & level[i]])]

    def take_full(self, kind: str) -> None:
        """Take the free units of a kind that are no larger than what is needed.

        A socket and a core count as free by the rounded-down size of all of them. With uneven threads per
        core a partly free core looks free, and the kubelet allocates its other threads too, reserved ones
        included (kubernetes/kubernetes#124066, #140495).
        """
        level, free = self.topology.levels[kind], self.free
        if kind in ("socket", "core"):
            size = self.topology.cpus_per_core if kind == "core" else self.topology.cpus_per_socket
            full = [i for i in self.ordered(kind) if (level[i] & free).bit_count() == size]
        else:
            full = [i for i in self.ordered(kind) if level[i] & free == level[i]]
        for number in full:
            if self.needed >= level[number].bit_count():
                self.take(level[number])

    def take_uncores(self) -> None:
        for uncore in self.ordered("uncore"):
            if self.needed >= self.topology.cpus_per_uncore:
                self.take_full("uncore")
            if self.satisfied:
                return
            self._take_partial_uncore(uncore)
            if self.satisfied:
                return

    def _take_partial_uncore(self, uncore: int) -> None:
        """Take the lowest free cores of a cache if their CPUs are exactly as many as needed."""
        topology, per_core = self.topology, self.topology.cpus_per_core
        inside = self.free & topology.levels["uncore"][uncore]
        cores = [c for c in topology.inside["core", "uncore", uncore] if topology.cores[c] & inside]
        rounded = self.minor >= _FIRST_MINOR_OF_UNCORE_ROUNDING
        cpus = 0
        for core in sorted(cores)[: -(-self.needed // per_core) if rounded else self.needed // per_core]:
            cpus |= topology.cores[core] & self.free
        if rounded and self.needed % 2 and per_core > 1 and cpus.bit_count() > self.needed:
            cpus &= ~(1 << (cpus.bit_length() - 1))
        if cpus.bit_count() == self.needed:
            self.take(cpus)

    def take_one_by_one(self, kind: str) -> None:
        level = self.topology.levels[kind]
        for cpu in [cpu for number in self.ordered(kind) for cpu in bits(level[number] & self.free)]:
            self.take(1 << cpu)
            if self.satisfied:
                return


class _Choice(NamedTuple):
    """The NUMA nodes that share a request, and those of them that provide the remainder."""

    nodes: tuple[int, ...]
    remainder_nodes: tuple[int, ...]


class _Combination(NamedTuple):
    """A combination of NUMA nodes in an array that later combinations may overwrite.

    The kubelet keeps slices that Go's append() shares between siblings: while the array has room, the last
    elements of a kept combination change when the next one is visited. From four NUMA nodes on this decides
    which CPUs a pod gets, so the arrays are shared in the same places here.
    """

    array: list[int]
    size: int

    @property
    def nodes(self) -> list[int]:
        return self.array[: self.size]

    def append(self, number: int) -> "_Combination":
        if self.size < len(self.array):
            self.array[self.size] = number
            return _Combination(self.array, self.size + 1)
        room = [0] * (max(1, 2 * self.size) - self.size)
        grown = self.nodes + room
        grown[self.size] = number
        return _Combination(grown, self.size + 1)


def _combinations(ids: list[int], size: int) -> Iterator[_Combination]:
    """Yield the combinations of `size` ids in order (iterateCombinations)."""
    if size < 1:
        return
    yield from _combine(ids, size, 0, _Combination([], 0))


def _combine(ids: list[int], size: int, start: int, chosen: _Combination) -> Iterator[_Combination]:
    if size == 0:
        yield chosen
        return
    for index in range(start, len(ids) - size + 1):
        yield from _combine(ids, size - 1, index + 1, chosen.append(ids[index]))


def _numa_node_range(taking: _CpuAccumulator, group: int) -> tuple[int, int]:
    """Return the fewest and the most NUMA nodes worth trying (rangeNUMANodesNeededToSatisfy)."""
    topology = taking.topology
    groups = (len(topology.places) - 1) // group + 1
    groups_per_node = (groups - 1) // len(topology.numa_nodes) + 1
    needed = (taking.needed - 1) // group + 1
    with_free_cpus = sum(1 for cpus in topology.numa_nodes.values() if cpus & taking.free)
    return (needed - 1) // groups_per_node + 1, min(needed, with_free_cpus)


def _most_balanced(
    taking: _CpuAccumulator, nodes: list[int], size: int, group: int, *, by_socket: bool
) -> _Choice | None:
    """Return the combination of `size` NUMA nodes that leaves the free CPUs most evenly spread.

    With `by_socket`, a combination within one socket is preferred.
    """
    count = taking.requested
    free = {node: (taking.topology.numa_nodes[node] & taking.free).bit_count() for node in nodes}
    best_balance = math.inf
    best: _Combination | None = None
    best_remainder: _Combination | None = None
    best_in_socket = False
    for combination in _combinations(nodes, size):
        if best_balance == 0 and (best_in_socket or not by_socket):
            break
        share = count // size // group * group
        members = combination.nodes
        if by_socket:
            share = min(share, *(free[node] // group * group for node in members))
        if sum(free[node] // group for node in members) * group < count or any(
            free[n] < share for n in members
        ):
            continue
        free_after = dict(free)
        for node in members:
            free_after[node] -= share
        remainder = count - share * size
        if remainder == 0:
            balance, subset = _standard_deviation(free_after), None
        else:
            candidates = [node for node in members if free_after[node] >= group]
            balance, subset = _best_remainder(free_after, candidates, remainder, group)
        in_socket = by_socket and len(taking.topology.sockets_in_numa_nodes(members)) <= 1
        if in_socket if in_socket != best_in_socket else balance < best_balance:
            best_balance, best, best_remainder, best_in_socket = balance, combination, subset, in_socket
    if best is None:
        return None
    return _Choice(tuple(best.nodes), tuple(best_remainder.nodes if best_remainder else ()))


def _best_remainder(
    free: dict[int, int], candidates: list[int], remainder: int, group: int
) -> tuple[float, _Combination | None]:
    best_balance, best = math.inf, None
    for size in range(len(candidates), 0, -1):
        for subset in _combinations(candidates, size):
            members = subset.nodes
            if sum(free[node] for node in members) < remainder:
                continue
            free_after = dict(free)
            _hand_out(free_after, members, remainder, group)
            balance = _standard_deviation(free_after)
            if balance < best_balance:
                best_balance, best = balance, subset
    return best_balance, best


def _hand_out(free: dict[int, int], nodes: list[int], remainder: int, group: int) -> None:
    while remainder > 0:
        previous = remainder
        for node in nodes:
            if remainder == 0:
                break
            if free[node] >= group:
                free[node] -= group
                remainder -= group
        if remainder == previous:
            raise KubeletHangError(
                f"the kubelet loops for ever here: {remainder} CPUs are left to share out in groups of "
                f"{group}, and no NUMA node considered has a whole group free",
                remedy="reserve whole cores, so that every NUMA node has an even number of CPUs free",
            )


def _take_choice(taking: _CpuAccumulator, choice: _Choice, group: int, *, spread: bool, capped: bool) -> int:
    nodes, count = taking.topology.numa_nodes, taking.requested
    share = count // len(choice.nodes) // group * group
    if capped:
        free = [(nodes[node] & taking.free).bit_count() for node in choice.nodes]
        share = min(share, *(cpus // group * group for cpus in free))
    for node in choice.nodes:
        taking.take(_take_or_nothing(taking, nodes[node] & taking.free, share, spread))
    remainder = count - share * len(choice.nodes)
    while remainder > 0:
        previous = remainder
        for node in choice.remainder_nodes:
            if remainder == 0:
                break
            if (nodes[node] & taking.free).bit_count() >= group:
                taking.take(_take_or_nothing(taking, nodes[node] & taking.free, group, spread))
                remainder -= group
        if remainder == previous:
            raise KubeletHangError("the kubelet loops for ever handing out the last CPUs of this request")
    if taking.needed:
        direction = "not enough" if taking.needed > 0 else "too many"
        raise AssignmentError(f"accounting error, {direction} CPUs allocated, remaining: {taking.needed}")
    return taking.result


def _take_or_nothing(taking: _CpuAccumulator, available: int, count: int, spread: bool) -> int:
    # The kubelet ignores this error, and finds the shortage in its final count.
    try:
        return take_packed(taking.topology, available, count, spread=spread, minor=taking.minor)
    except AssignmentError:
        return 0


def _standard_deviation(values: Mapping[int, int]) -> float:
    numbers = list(values.values())
    mean = _round_thousandths(sum(numbers) / len(numbers))
    return _round_thousandths(math.sqrt(sum((x - mean) * (x - mean) for x in numbers) / len(numbers)))


def _round_thousandths(value: float) -> float:
    """Round to three decimals, half away from zero, as Go's math.Round does."""
    scaled = value * 1000
    floor = math.floor(scaled)
    return (floor + 1 if scaled - floor >= 0.5 else floor) / 1000
