"""The measurements that a node needs before it goes back into service."""

from numaforge.roles.role import role

__all__ = ["measure"]

measure = role(__name__, "Measure")
