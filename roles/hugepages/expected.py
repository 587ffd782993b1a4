"""The pools of huge pages that a plan fills or empties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.roles.expectation import Expected
from numaforge.roles.hugepages.paths import pool_pages

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def expected(plan: NodePlan) -> Iterator[Expected]:
    """Yield each pool that the plan names."""
    for pool in plan.hugepages.pools:
        where = pool.size if pool.numa_node is None else f"{pool.size} on NUMA node {pool.numa_node}"
        yield Expected(f"hugepages:{where}", pool_pages(pool.numa_node, pool.size), str(pool.pages))
