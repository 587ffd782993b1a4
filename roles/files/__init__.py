"""The files of all roles, written and removed together."""

from numaforge.roles.role import role

__all__ = ["files"]

files = role(__name__, goes_with=("topology",))
