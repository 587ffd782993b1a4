"""Pools of huge pages, as the node's watch compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.hugepages.paths import pool_pages
from numaforge.roles.hugepages.plan import pools_of
from numaforge.roles.metric import Family, Measured, Stated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numaforge.planning.plan import NodePlan


def families(plan: NodePlan) -> tuple[Family, ...]:
    """Return the planned and the actual pages; numa is "" where the kernel shows no NUMA nodes."""
    pools = [*_pools(plan)]
    planned = tuple(Stated(_labels(node_id, size), pages) for node_id, size, pages in pools)
    actual = tuple(Measured(_labels(node_id, size), pool_pages(node_id, size)) for node_id, size, _ in pools)
    return (
        Family("numaforge_plan_hugepages", "gauge", "Huge pages that the plan gives a NUMA node.", planned),
        Family("numaforge_hugepages_actual", "gauge", "Huge pages that the NUMA node has.", actual),
    )


def _pools(plan: NodePlan) -> Iterator[tuple[int | None, str, int]]:
    for node_id, pools in pools_of(plan).items():
        for size, pages in sorted(pools.items()):
            yield node_id, size, pages


def _labels(node_id: int | None, size: str) -> Mapping[str, str]:
    return {"numa": "" if node_id is None else str(node_id), "size": size}
