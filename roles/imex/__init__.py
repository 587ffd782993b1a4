"""IMEX, by which trays of a rack share GPUs' memory: who runs its daemon, and with which nodes."""

from numaforge.roles.role import role

__all__ = ["imex"]

imex = role(__name__)
