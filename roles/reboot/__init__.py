"""The boot that parts need, and the way back from it."""

from numaforge.roles.role import role

__all__ = ["reboot"]

reboot = role(__name__, "Reboot", goes_with=("topology",))
