"""The kind of machine for which a profile was written."""

from numaforge.roles.role import role

__all__ = ["made_for"]

made_for = role(__name__, "Made for")
