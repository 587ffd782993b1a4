"""Hugepage pools per NUMA node: now, and at every boot before memory is fragmented."""

from numaforge.roles.role import role

__all__ = ["hugepages"]

hugepages = role(__name__, goes_with=("kubelet",))
