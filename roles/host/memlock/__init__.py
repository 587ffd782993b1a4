"""Units that may pin as much memory as they want."""

from numaforge.roles.role import role

__all__ = ["memlock"]

memlock = role(__name__, "rdma")
