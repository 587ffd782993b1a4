"""The node's own watch: it regularly compares itself with its plan, without numaforge."""

from numaforge.roles.role import role

__all__ = ["watch"]

watch = role(__name__, goes_with=("topology",))
