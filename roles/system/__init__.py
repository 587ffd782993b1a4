"""The system's own daemons on the reserved CPUs."""

from __future__ import annotations

from numaforge.hosts import role
from numaforge.roles.maintenance import take_part

__all__ = ["system"]


@role("System")
def system() -> None:
    """Confine systemd's slices now, and write what confines them at every boot."""
    take_part()
