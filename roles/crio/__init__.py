"""What pods may request from CRI-O for their own CPUs."""

from numaforge.roles.role import role

__all__ = ["crio"]

crio = role(__name__, "host")
