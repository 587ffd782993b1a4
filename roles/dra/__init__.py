"""Dynamic resource allocation: what a node allocates by claims, and with which driver."""

from numaforge.roles.role import role

__all__ = ["dra"]

dra = role(__name__, goes_with=("kubelet",))
