"""Merge the hints of all managers into one, under each topology manager policy.

pkg/kubelet/cm/topologymanager/policy.go and policy_*.go of kubelet 1.36. The kubelet walks every permutation
of hints, one per resource, and keeps the better of two candidates each time. Its comparison is a total order,
so the outcome depends only on which candidates exist: this module computes that set and takes its best, which
gives the same answer without the walk (16 million permutations on eight NUMA nodes).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from numaforge.kubelet.admission.hints import IMPOSSIBLE, NO_PREFERENCE, Hint, HintsByResource
from numaforge.kubelet.admission.masks import bits

BEST_EFFORT = "best-effort"
RESTRICTED = "restricted"
SINGLE_NUMA_NODE = "single-numa-node"

# Up to so many pairs of masks are intersected one by one.
_PAIRS = 1 << 20


@dataclass(frozen=True)
class MergePolicy:
    """A topology manager policy other than none, on a machine with the NUMA nodes of the bitmask `nodes`.

    `distances` maps NUMA node -> NUMA node -> distance, and is read for prefer-closest-numa-nodes only.
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

    def _best(self, lists: list[list[Hint]]) -> Hint:
        preferred = _preferred_masks(lists, self.nodes)
        if preferred:
            return Hint(min(preferred, key=self._narrowness), True)
        merged = _all_masks(lists, self.nodes)
        if merged:
            need = _widest_need(lists)
            best = min(_closeness(mask, need) for mask in merged)
            nearest = (mask for mask in merged if _closeness(mask, need) == best)
            return Hint(min(nearest, key=self._narrowness), False)
        return Hint(self.nodes, False)

    def _narrowness(self, mask: int) -> tuple[int, float, int]:
        """Order masks as CompareNUMAAffinityMasks does: size, distance (an option), lower ids."""
        closest = self.prefer_closest and self.name != SINGLE_NUMA_NODE
        return mask.bit_count(), self._average_distance(mask) if closest else 0.0, mask

    def _average_distance(self, mask: int) -> float:
        nodes = list(bits(mask))
        return sum(float(self.distances[a][b]) for a in nodes for b in nodes) / float(len(nodes) ** 2)


def _closeness(mask: int, need: int) -> tuple[bool, int]:
    """Order the sizes of non-preferred masks as HintMerger.compare does.

    Best is the size that the neediest resource wants, then the largest below it, then the smallest above it.
    """
    size = mask.bit_count()
    return size > need, abs(need - size)


def _lists(providers: Sequence[HintsByResource]) -> list[list[Hint]]:
    """Return one list per resource, with "no opinion" and "impossible" spelt out (filterProvidersHints)."""
    lists: list[list[Hint]] = []
    for hints in providers:
        if not hints:
            lists.append([NO_PREFERENCE])
        for answers in hints.values():
            if answers is None:
                lists.append([NO_PREFERENCE])
            else:
                lists.append(answers or [IMPOSSIBLE])
    return lists


def _single_node_hints(hints: list[Hint]) -> list[Hint]:
    return [hint for hint in hints if hint.preferred and (hint.numa is None or hint.numa.bit_count() == 1)]


def _preferred_masks(lists: list[list[Hint]], nodes: int) -> set[int]:
    """Return what permutations of preferred hints with one and the same mask amount to (mergePermutation)."""
    anything = True
    common: set[int] | None = None
    optional: set[int] = set()
    for hints in lists:
        masks = {hint.numa for hint in hints if hint.preferred and hint.numa is not None}
        indifferent = any(hint.preferred and hint.numa is None for hint in hints)
        if not indifferent:
            anything = False
            common = masks if common is None else common & masks
        else:
            optional |= masks
    candidates = (optional if common is None else common) | ({nodes} if anything else set())
    return {mask & nodes for mask in candidates} - {0}


def _all_masks(lists: list[list[Hint]], nodes: int) -> set[int]:
    """Return every non-empty intersection of one hint per list."""
    merged = {nodes}
    for hints in sorted(lists, key=len):
        masks = {nodes if hint.numa is None else hint.numa for hint in hints}
        merged = _intersections(merged, masks)
    return merged


def _intersections(left: Set[int], right: Set[int]) -> set[int]:
    if len(left) * len(right) > _PAIRS:
        return counted_intersections(left, right)
    return {one & other for one in left for other in right} - {0}


def counted_intersections(left: Set[int], right: Set[int]) -> set[int]:
    """Return every non-empty intersection of one mask of each side, without looking at each pair.

    How many pairs both contain a set is a product; sieving the products leaves, for each set, the pairs that
    meet in exactly that set. n * 2^n steps for n NUMA nodes.
    """
    shared = list(bits(_union(left) & _union(right)))
    products = [
        one * other for one, other in zip(_supersets(left, shared), _supersets(right, shared), strict=True)
    ]
    for step in (1 << place for place in range(len(shared))):
        for index in range(len(products)):
            if not index & step:
                products[index] -= products[index | step]
    return {_expanded(index, shared) for index, pairs in enumerate(products) if pairs} - {0}


def _supersets(masks: Set[int], shared: Sequence[int]) -> list[int]:
    """Return, for each set of the `shared` bits, how many masks contain it; sets are numbered by position."""
    counts = [0] * (1 << len(shared))
    for mask in masks:
        counts[sum(1 << place for place, bit in enumerate(shared) if mask >> bit & 1)] += 1
    for step in (1 << place for place in range(len(shared))):
        for index in range(len(counts)):
            if not index & step:
                counts[index] += counts[index | step]
    return counts


def _expanded(index: int, shared: Sequence[int]) -> int:
    return sum(1 << bit for place, bit in enumerate(shared) if index >> place & 1)


def _union(masks: Iterable[int]) -> int:
    return reduce(or_, masks, 0)


def _widest_need(lists: list[list[Hint]]) -> int:
    """Return the largest of the lists' smallest mask sizes (maxOfMinAffinityCounts)."""
    sizes = ([hint.numa.bit_count() for hint in hints if hint.numa is not None] for hints in lists)
    return max((min(known) for known in sizes if known), default=0)
