"""The boot that other parts need, and its undo."""

from numaforge.roles.role import role

__all__ = ["reboot"]

reboot = role(__name__, goes_with=("topology",))
