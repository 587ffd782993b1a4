"""The node's own watch: whether it still is as its plan says, again and again, without numaforge."""

from numaforge.roles.role import role

__all__ = ["watch"]

watch = role(__name__, "Watch", goes_with=("topology",))
