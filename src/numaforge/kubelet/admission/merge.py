"""Merge the hints of all managers into one, under each topology manager policy.

pkg/kubelet/cm/topologymanager/policy.go and policy_*.go of kubelet 1.36. The kubelet walks every permutation
of hints, one per resource, and keeps the better of two candidates each time. Its comparison is a total order,
so the outcome depends only on which candidates exist: this module computes that set and takes its best, which
gives the same answer without the walk (16 million permutations on eight NUMA nodes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from numaforge.kubelet.admission.cpusets import bits
from numaforge.kubelet.admission.hints import IMPOSSIBLE, NO_PREFERENCE, Hint, HintsByResource

BEST_EFFORT = "best-effort"
RESTRICTED = "restricted"
SINGLE_NUMA_NODE = "single-numa-node"


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
            return Hint(min(merged, key=self._closeness_to(_widest_need(lists))), False)
        return Hint(self.nodes, False)

    def _narrowness(self, mask: int) -> tuple[int, float, int]:
        """Order masks as CompareNUMAAffinityMasks does: size, distance (an option), lower ids."""
        closest = self.prefer_closest and self.name != SINGLE_NUMA_NODE
        return mask.bit_count(), self._average_distance(mask) if closest else 0.0, mask

    def _closeness_to(self, need: int) -> Callable[[int], tuple[int, int, float, int]]:
        """Order non-preferred masks as HintMerger.compare does.

        Best is the size that the neediest resource wants, then the largest below it, then the smallest above
        it.
        """

        def order(mask: int) -> tuple[int, int, float, int]:
            size, distance, value = self._narrowness(mask)
            if size <= need:
                return 0, need - size, distance, value
            return 1, size, distance, value

        return order

    def _average_distance(self, mask: int) -> float:
        nodes = list(bits(mask))
        return sum(float(self.distances[a][b]) for a in nodes for b in nodes) / float(len(nodes) ** 2)


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


def _intersections(merged: Iterable[int], masks: Iterable[int]) -> set[int]:
    return {left & right for left in merged for right in masks} - {0}


def _widest_need(lists: list[list[Hint]]) -> int:
    """Return the largest of the lists' smallest mask sizes (maxOfMinAffinityCounts)."""
    sizes = ([hint.numa.bit_count() for hint in hints if hint.numa is not None] for hints in lists)
    return max((min(known) for known in sizes if known), default=0)
