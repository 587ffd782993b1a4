"""Pools of huge pages, as the node's watch compares them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from numaforge.roles.hugepages.paths import pool_pages
from numaforge.roles.hugepages.plan import PlannedPool
from numaforge.roles.metric import Family, Measured, Stated

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def families(plan: NodePlan) -> tuple[Family, ...]:
    """Return the planned and the actual pages; numa is "" where the kernel shows no NUMA nodes."""
    pools = plan.hugepages.pools
    planned = tuple(Stated(_labels(pool), pool.pages) for pool in pools)
    actual = tuple(Measured(_labels(pool), pool_pages(pool.numa_node, pool.size)) for pool in pools)
    return (
        Family("numaforge_plan_hugepages", "gauge", "Huge pages that the plan gives a NUMA node.", planned),
        Family("numaforge_hugepages_actual", "gauge", "Huge pages that the NUMA node has.", actual),
    )


def _labels(pool: PlannedPool) -> Mapping[str, str]:
    return {"numa": "" if pool.numa_node is None else str(pool.numa_node), "size": pool.size}
