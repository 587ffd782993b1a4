"""The pools of huge pages that a plan fills or empties."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.expectation import Expected
from numaforge.roles.hugepages.paths import pool_pages
from numaforge.roles.hugepages.plan import pools_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numaforge.planning.plan import NodePlan


def expected(plan: NodePlan) -> Iterator[Expected]:
    """Yield each pool that the plan names."""
    for place, pools in pools_of(plan).items():
        for size, pages in sorted(pools.items()):
            where = size if place is None else f"{size} on NUMA node {place}"
            yield Expected(f"hugepages:{where}", pool_pages(place, size), str(pages))
