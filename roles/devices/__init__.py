"""The devices that pods may ask for, by resource."""

from numaforge.roles.role import role

__all__ = ["devices"]

devices = role(__name__, "Devices")
