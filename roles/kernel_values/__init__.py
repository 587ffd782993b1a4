"""Governors, energy preferences, sysctls, transparent huge pages and other values of the running kernel."""

from numaforge.roles.role import role

__all__ = ["kernel_values"]

kernel_values = role(__name__, "tuning")
