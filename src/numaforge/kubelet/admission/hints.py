"""Topology hints: which NUMA nodes could serve a request, and which of them serve it in the fewest nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from numaforge.kubelet.admission.masks import ids_of


class Hint(NamedTuple):
    """One answer: a bitmask of NUMA nodes, None for "any", and whether no answer is narrower.

    pkg/kubelet/cm/topologymanager/topology_manager.go, TopologyHint.
    """

    numa: int | None
    preferred: bool

    @property
    def numa_nodes(self) -> frozenset[int] | None:
        """Return the NUMA nodes as a set of ids, None meaning any."""
        return None if self.numa is None else ids_of(self.numa)


NO_PREFERENCE = Hint(None, True)
IMPOSSIBLE = Hint(None, False)

# By resource: None says "no preference", the empty list "impossible". An empty mapping is no opinion at all.
HintsByResource = Mapping[str, list[Hint] | None]


def sums_by_mask(masks: tuple[int, ...], amount_of_node: Mapping[int, int]) -> list[int]:
    """Return the sum of its nodes' amounts for each of `masks`, which come by size (`masks_by_size`)."""
    totals = {0: 0}
    sums: list[int] = []
    for mask in masks:
        lowest = mask & -mask
        total = totals[mask ^ lowest] + amount_of_node[lowest.bit_length() - 1]
        totals[mask] = total
        sums.append(total)
    return sums
