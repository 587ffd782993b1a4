"""The pools of huge pages that a plan fills or empties, and where the kernel keeps pools."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.lib.quantity import parse_bytes
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.expectation import Expected
from numaforge.roles.hugepages.plan import WantedPages, pool_places, pools_after

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def expected(plan: NodePlan) -> Iterator[Expected]:
    """Yield each pool that the plan names."""
    for pool in plan.hugepages.pools:
        where = pool.size if pool.numa_node is None else f"{pool.size} on NUMA node {pool.numa_node}"
        yield Expected(f"hugepages:{where}", pool_pages(pool.numa_node, pool.size), str(pool.pages))


def pool_pages(numa_node: int | None, size: str) -> str:
    """Return the path with the number of pages of one pool, of a NUMA node or (None) of the machine."""
    above = "/sys/kernel/mm" if numa_node is None else f"/sys/devices/system/node/node{numa_node}"
    return f"{above}/hugepages/hugepages-{parse_bytes(size) // 1024}kB/nr_hugepages"


def by_path(pools: WantedPages) -> dict[str, int]:
    """Return the number of pages of each pool by its `nr_hugepages` path."""
    return {
        pool_pages(node_id, size): count for node_id, pages in pools.items() for size, count in pages.items()
    }


def hugepage_totals(machine: NodeTopology) -> dict[str, int]:
    """Return the number of pages that every pool has, by its `nr_hugepages` path.

    The machine-wide pools count only on a kernel without NUMA nodes; elsewhere they are sums.
    """
    return by_path({node_id: pools_after(node, {}) for node_id, node in pool_places(machine).items()})
