"""Pools of huge pages, as they are now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.hugepages import paths as hugepages_paths
from numaforge.verification.promise import Promise, Table

if TYPE_CHECKING:
    from numaforge.roles.node import NodePlan
    from numaforge.verification.live import VerifiedNode


def hugepages(plan: NodePlan) -> Table:
    """Each pool of huge pages, by NUMA node and size; by size alone, where the kernel shows no NUMA nodes."""
    pools = [(f"numa-node-{node.id}-", node.id, node.hugepages) for node in plan.numa_nodes]
    return {
        f"{name}{size}": (hugepages_paths.pool_pages(place, size), str(pages))
        for name, place, held in (("", None, plan.hugepages), *pools)
        for size, pages in sorted(held.items())
    }


def _hugepages(node: VerifiedNode, name: str, expected: tuple[str, str]) -> None:
    path, pages = expected
    assert node.value(path) == pages, path


POOLS = (
    "/sys/devices/system/node/node*/hugepages/*/nr_hugepages",
    "/sys/kernel/mm/hugepages/*/nr_hugepages",
)
PROMISES = (Promise("hugepages", hugepages, _hugepages, patterns=POOLS),)
