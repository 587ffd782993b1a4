"""Reserved memory, split over the NUMA nodes."""

from numaforge.roles.role import role

__all__ = ["memory"]

memory = role(__name__, "Memory")
