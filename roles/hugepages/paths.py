"""Where the kernel keeps pools of huge pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.quantity import parse_bytes

if TYPE_CHECKING:
    from numaforge.roles.node import NodePlan
    from numaforge.topology.model import NodeTopology


def hugepage_pool(numa_node: int | None, size: str) -> str:
    """Return the folder of a NUMA node's pool of pages of a size such as "2Mi", or of the machine's."""
    above = "/sys/kernel/mm" if numa_node is None else f"/sys/devices/system/node/node{numa_node}"
    return f"{above}/hugepages/hugepages-{parse_bytes(size) // 1024}kB"


def pool_pages(numa_node: int | None, size: str) -> str:
    """Return the path of one pool's number of pages."""
    return f"{hugepage_pool(numa_node, size)}/nr_hugepages"


def hugepage_counts(plan: NodePlan) -> dict[str, int]:
    """Return the wanted number of pages of every pool that the plan names, by its `nr_hugepages` path."""
    return {
        **{pool_pages(None, size): pages for size, pages in plan.hugepages.items()},
        **{
            pool_pages(node.id, size): pages
            for node in plan.numa_nodes
            for size, pages in node.hugepages.items()
        },
    }


def hugepage_totals(machine: NodeTopology) -> dict[str, int]:
    """Return the number of pages that every pool has, by its `nr_hugepages` path.

    The machine's own pools are those of a kernel without NUMA nodes; elsewhere they are sums.
    """
    if not machine.numa_nodes:
        return {pool_pages(None, size): pool.total for size, pool in machine.hugepages.items()}
    return {
        pool_pages(node.id, size): pool.total
        for node in machine.numa_nodes
        for size, pool in node.hugepages.items()
    }
