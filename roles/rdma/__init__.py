"""What RDMA needs of the host: limits on pinned memory, settings of NICs, what the kubelet waits for."""

from __future__ import annotations

from numaforge.hosts import role
from numaforge.roles.maintenance import take_part

__all__ = ["rdma"]


@role("RDMA")
def rdma() -> None:
    """Write the units for the next boot, and apply now what differs."""
    take_part()
