"""Hugepage pools per NUMA node: now, and at every boot before memory is fragmented."""

from __future__ import annotations

from numaforge.hosts import role
from numaforge.roles.maintenance import take_part

__all__ = ["hugepages"]


@role("Hugepages")
def hugepages() -> None:
    """Write the pools for the next boot, and fill them: while the kubelet of the plan is stopped."""
    take_part()
