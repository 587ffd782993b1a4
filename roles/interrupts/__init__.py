"""Which CPUs answer the devices: interrupts and received packets."""

from numaforge.roles.role import role

__all__ = ["interrupts"]

interrupts = role(__name__)
