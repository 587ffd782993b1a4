"""Kernel modules: loaded now and at boot, their options, and those that are kept out."""

from __future__ import annotations

from numaforge.hosts import role
from numaforge.roles.maintenance import take_part

__all__ = ["modules"]


@role("Modules")
def modules() -> None:
    """Write what a boot loads, load what is missing now, and boot for options where that is allowed."""
    take_part()
