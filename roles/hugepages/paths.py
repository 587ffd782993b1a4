"""Where the kernel keeps pools of huge pages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from numaforge.quantity import parse_bytes
from numaforge.roles.hugepages.plan import WantedPages, pool_places, pools_after, pools_of
from numaforge.topology.model import HugepagePoolShape, MachineShape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numaforge.roles.node import NodePlan

Machine = TypeVar("Machine", bound=MachineShape)  # shapes stay shapes, whole machines whole
Pool = TypeVar("Pool", bound=HugepagePoolShape)


def hugepage_pool(numa_node: int | None, size: str) -> str:
    """Return the folder of a NUMA node's pool of pages of a size such as "2Mi", or of the machine's."""
    above = "/sys/kernel/mm" if numa_node is None else f"/sys/devices/system/node/node{numa_node}"
    return f"{above}/hugepages/hugepages-{parse_bytes(size) // 1024}kB"


def pool_pages(numa_node: int | None, size: str) -> str:
    """Return the path of one pool's number of pages."""
    return f"{hugepage_pool(numa_node, size)}/nr_hugepages"


def by_path(pools: WantedPages) -> dict[str, int]:
    """Return the number of pages of each pool by its `nr_hugepages` path."""
    return {pool_pages(place, size): count for place, held in pools.items() for size, count in held.items()}


def hugepage_counts(plan: NodePlan) -> dict[str, int]:
    """Return the wanted number of pages of every pool that the plan names, by its `nr_hugepages` path."""
    return by_path(pools_of(plan))


def hugepage_totals(machine: MachineShape) -> dict[str, int]:
    """Return the number of pages that every pool has, by its `nr_hugepages` path.

    The machine's own pools are those of a kernel without NUMA nodes; elsewhere they are sums.
    """
    return by_path({place: pools_after(node, {}) for place, node in pool_places(machine).items()})


def with_pools(machine: Machine, pages: Mapping[str, int]) -> Machine:
    """Return the machine with other `pages` in its pools, by `nr_hugepages` path."""

    def pools(place: int | None, there: Mapping[str, Pool]) -> dict[str, Pool]:
        return {size: pool.of(pages.get(pool_pages(place, size), pool.total)) for size, pool in there.items()}

    nodes = tuple(replace(node, hugepages=pools(node.id, node.hugepages)) for node in machine.numa_nodes)
    return replace(machine, numa_nodes=nodes, hugepages=pools(None, machine.hugepages))
