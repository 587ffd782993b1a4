"""The largest pods that the empty node admits."""

from numaforge.roles.role import role

__all__ = ["largest_pods"]

largest_pods = role(__name__, "Largest pods")
