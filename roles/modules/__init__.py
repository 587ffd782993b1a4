"""Kernel modules: loaded now and at boot, with their options, or kept out."""

from numaforge.roles.role import role

__all__ = ["modules"]

modules = role(__name__)
