"""IMEX, with which trays of a rack share GPU memory: what runs its daemon, and with which nodes."""

from numaforge.roles.role import role

__all__ = ["imex"]

imex = role(__name__)
