"""The userland: limits, packages that stay at their version, no swap at boot."""

from numaforge.roles.role import role

__all__ = ["host"]

host = role(__name__)
