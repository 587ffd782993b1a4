"""Where the kernel keeps pools of huge pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.lib.quantity import parse_bytes
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.hugepages.plan import WantedPages, pool_places, pools_after

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def hugepage_pool(numa_node: int | None, size: str) -> str:
    """Return the folder of the pool of a size such as "2Mi", of a NUMA node or (None) of the machine."""
    above = "/sys/kernel/mm" if numa_node is None else f"/sys/devices/system/node/node{numa_node}"
    return f"{above}/hugepages/hugepages-{parse_bytes(size) // 1024}kB"


def pool_pages(numa_node: int | None, size: str) -> str:
    """Return the path of one pool's number of pages."""
    return f"{hugepage_pool(numa_node, size)}/nr_hugepages"


def by_path(pools: WantedPages) -> dict[str, int]:
    """Return the number of pages of each pool by its `nr_hugepages` path."""
    return {
        pool_pages(node_id, size): count for node_id, pages in pools.items() for size, count in pages.items()
    }


def hugepage_counts(plan: NodePlan) -> dict[str, int]:
    """Return the wanted number of pages of every pool that the plan names, by its `nr_hugepages` path."""
    return by_path(plan.hugepages.pages)


def hugepage_totals(machine: NodeTopology) -> dict[str, int]:
    """Return the number of pages that every pool has, by its `nr_hugepages` path.

    The machine-wide pools count only on a kernel without NUMA nodes; elsewhere they are sums.
    """
    return by_path({node_id: pools_after(node, {}) for node_id, node in pool_places(machine).items()})
