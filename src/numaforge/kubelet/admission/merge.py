"""Merge the hints of all managers into one, under each topology manager policy.

pkg/kubelet/cm/topologymanager/policy.go and policy_*.go of kubelet 1.36. The kubelet walks every permutation
of hints, one per resource, and keeps the better of two candidates each time. Its comparison is a total order,
so the outcome depends only on which candidates exist: this module computes that set and takes its best, which
gives the same answer without the walk (16 million permutations on eight NUMA nodes).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import reduce
from operator import mul, or_
from struct import pack, unpack

from numaforge.kubelet.admission.hints import IMPOSSIBLE, NO_PREFERENCE, Hint, Hints, HintsByResource
from numaforge.kubelet.admission.masks import bits, subsets

BEST_EFFORT = "best-effort"
RESTRICTED = "restricted"
SINGLE_NUMA_NODE = "single-numa-node"

_INDIFFERENT, _REFUSING = Hints.of([NO_PREFERENCE]), Hints.of([IMPOSSIBLE])

# The most pairs of masks that are intersected one by one.
_PAIRS = 1 << 20


@dataclass(frozen=True)
class MergePolicy:
    """A topology manager policy other than none, on a machine with the NUMA nodes of the bitmask `nodes`.

    `distances` maps NUMA node -> NUMA node -> distance; only prefer-closest-numa-nodes reads it.
    """

    name: str
    nodes: int
    prefer_closest: bool = False
    distances: Mapping[int, Mapping[int, int]] = field(default_factory=dict)

    def merge(self, providers: Sequence[HintsByResource]) -> tuple[Hint, bool]:
        """Return the best hint, and whether the policy admits with it."""
        lists = _lists(providers)
        if self.name == SINGLE_NUMA_NODE:
            best = self._best([_single_node_hints(hints) for hints in lists])
            # All NUMA nodes is the same as no constraint (a machine with one NUMA node).
            return (Hint(None, best.preferred) if best.numa == self.nodes else best), best.preferred
        best = self._best(lists)
        return best, best.preferred or self.name == BEST_EFFORT

    def admits(self, providers: Sequence[HintsByResource]) -> bool:
        """Whether the policy admits with these hints; cheaper than finding the best one."""
        if self.name == BEST_EFFORT:
            return True
        lists = _lists(providers)
        if self.name == SINGLE_NUMA_NODE:
            lists = [_single_node_hints(hints) for hints in lists]
        return bool(_preferred_masks(lists, self.nodes))

    def _best(self, lists: list[Hints]) -> Hint:
        preferred = _preferred_masks(lists, self.nodes)
        if preferred:
            return Hint(min(preferred, key=self._narrowness), True)
        merged = {self.nodes}
        by_list = (hints.masks | ({self.nodes} if hints.anywhere else set()) for hints in lists)
        for masks in sorted(by_list, key=len):
            merged = _intersections(merged, masks)
        if not merged:
            return Hint(self.nodes, False)
        # As in HintMerger.compare: best is the size that the neediest resource needs, then the largest below
        # it, then the smallest above it.
        need = max((hints.narrowest for hints in lists if hints.narrowest is not None), default=0)
        sizes = {mask.bit_count() for mask in merged}
        best = min(sizes, key=lambda size: (size > need, abs(need - size)))
        nearest = (mask for mask in merged if mask.bit_count() == best)
        return Hint(min(nearest, key=self._narrowness), False)

    def _narrowness(self, mask: int) -> tuple[int, float, int]:
        """Return a sort key as in CompareNUMAAffinityMasks: size, distance (an option), lower ids."""
        distance = 0.0
        if self.prefer_closest and self.name != SINGLE_NUMA_NODE:
            nodes = list(bits(mask))
            total = sum(float(self.distances[a][b]) for a in nodes for b in nodes)
            distance = total / float(len(nodes) ** 2)
        return mask.bit_count(), distance, mask


def _lists(providers: Sequence[HintsByResource]) -> list[Hints]:
    """Return the hints by resource, with "no opinion" and "impossible" explicit (filterProvidersHints)."""
    lists: list[Hints] = []
    for hints in providers:
        if not hints:
            lists.append(_INDIFFERENT)
        for answers in hints.values():
            if answers is None:
                lists.append(_INDIFFERENT)
            else:
                lists.append(answers or _REFUSING)
    return lists


def _single_node_hints(hints: Hints) -> Hints:
    single = [mask for mask in hints.preferred if mask.bit_count() == 1]
    return Hints(single, lambda: single, {True} & hints.anywhere)


def _preferred_masks(lists: list[Hints], nodes: int) -> set[int]:
    """Return the merged masks of permutations of preferred hints with equal masks (mergePermutation)."""
    anything = True
    common: Set[int] | None = None
    optional: set[int] = set()
    for hints in lists:
        if True not in hints.anywhere:
            anything = False
            common = hints.preferred if common is None else common & hints.preferred
        else:
            optional |= hints.preferred
    candidates = (optional if common is None else common) | ({nodes} if anything else set())
    return {mask & nodes for mask in candidates} - {0}


def _intersections(first_side: Set[int], second_side: Set[int]) -> set[int]:
    if len(first_side) * len(second_side) > _PAIRS:
        return counted_intersections(first_side, second_side)
    return {first & second for first in first_side for second in second_side} - {0}


def counted_intersections(first_side: Set[int], second_side: Set[int]) -> set[int]:
    """Return every non-empty intersection of one mask of each side, without visiting each pair.

    The number of pairs whose masks both contain a set is a product; sieving the products leaves, for each
    set, the pairs that intersect in exactly that set. n * 2^n steps for n NUMA nodes.
    """
    shared = _union(first_side) & _union(second_side)
    sets = subsets(shared)
    counts = (_unpacked(_supersets(masks, shared), len(sets)) for masks in (first_side, second_side))
    pairs = _packed(map(mul, *counts))
    for step in _steps(shared):
        pairs -= (pairs >> _LANE * step) & _lanes_without(step, len(sets))
    return {mask for mask, count in zip(sets, _unpacked(pairs, len(sets)), strict=True) if count} - {0}


# Counts are packed into one large integer, so that one addition is a step for all of them. Each is at most
# the square of the number of sets of ENDLESS_NUMA_NODES, and none ever becomes negative.
_LANE = 64


def _supersets(masks: Set[int], shared: int) -> int:
    """Return, for each of `subsets(shared)`, how many masks contain it."""
    sets = subsets(shared)
    counts = Counter(mask & shared for mask in masks)
    packed = _packed(counts[mask] for mask in sets)
    for step in _steps(shared):
        packed += (packed >> _LANE * step) & _lanes_without(step, len(sets))
    return packed


def _steps(shared: int) -> Iterator[int]:
    return (1 << bit for bit in range(shared.bit_count()))


def _packed(counts: Iterable[int]) -> int:
    numbers = tuple(counts)
    return int.from_bytes(pack(f"<{len(numbers)}Q", *numbers), "little")


def _unpacked(packed: int, length: int) -> tuple[int, ...]:
    return unpack(f"<{length}Q", packed.to_bytes(_LANE // 8 * length, "little"))


def _lanes_without(step: int, length: int) -> int:
    """Return ones in the lanes of the sets without the id of a step: their index has no bit there."""
    lanes, width = (1 << _LANE * step) - 1, 2 * step
    while width < length:
        lanes |= lanes << _LANE * width
        width *= 2
    return lanes


def _union(masks: Iterable[int]) -> int:
    return reduce(or_, masks, 0)
