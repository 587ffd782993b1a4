"""Which CPUs the system's own daemons use."""

from numaforge.roles.role import role

__all__ = ["slices"]

slices = role(__name__, "system")
