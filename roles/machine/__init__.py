"""The machine itself: what an admin should know of it before a plan is carried out."""

from numaforge.roles.role import role

__all__ = ["machine"]

machine = role(__name__, "Machine", goes_with=("topology",))
