"""The machine itself: what an admin should know about it before applying a plan."""

from numaforge.roles.role import role

__all__ = ["machine"]

machine = role(__name__, goes_with=("topology",))
