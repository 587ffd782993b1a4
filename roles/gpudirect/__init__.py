"""PCIe access control, so that NICs reach the memory of GPUs."""

from numaforge.roles.role import role

__all__ = ["gpudirect"]

gpudirect = role(__name__, "tuning")
