"""Pools of huge pages, as they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.hugepages.paths import pool_pages
from numaforge.roles.hugepages.plan import pools_of
from numaforge.verification.promise import Promise, Table, value_is

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def hugepages(plan: NodePlan) -> Table:
    """Each pool of huge pages, by NUMA node and size; by size alone where the kernel shows no NUMA nodes."""
    return {
        size if node_id is None else f"numa-node-{node_id}-{size}": (pool_pages(node_id, size), str(pages))
        for node_id, pools in pools_of(plan).items()
        for size, pages in sorted(pools.items())
    }


POOLS = (
    "/sys/devices/system/node/node*/hugepages/*/nr_hugepages",
    "/sys/kernel/mm/hugepages/*/nr_hugepages",
)
PROMISES = (Promise("hugepages", hugepages, value_is, patterns=POOLS),)
