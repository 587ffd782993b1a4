"""Interrupts, packet steering and workqueues on the reserved CPUs, and irqbalance."""

from __future__ import annotations

from numaforge.hosts import role
from numaforge.roles.maintenance import take_part

__all__ = ["interrupts"]


@role("Interrupts")
def interrupts() -> None:
    """Move what is elsewhere, and write what repeats that at every boot."""
    take_part()
