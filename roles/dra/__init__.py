"""Dynamic resource allocation: what a node hands out by claims, and who gives it."""

from numaforge.roles.role import role

__all__ = ["dra"]

dra = role(__name__, goes_with=("kubelet",))
