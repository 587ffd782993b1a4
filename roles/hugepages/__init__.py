"""Hugepage pools per NUMA node: now, and at every boot before memory is fragmented."""
