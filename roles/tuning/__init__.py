"""Governors, energy preferences, sysctls, transparent hugepages, swap and the kernel's command line."""

from __future__ import annotations

from numaforge.hosts import role
from numaforge.roles.maintenance import take_part

__all__ = ["tuning"]


@role("Tuning")
def tuning() -> None:
    """Write the settings for the next boot, and apply those that differ now."""
    take_part()
