"""The userland: limits, packages that stay at their version, no swap at boot."""

from __future__ import annotations

from numaforge.hosts import role
from numaforge.roles.maintenance import take_part

__all__ = ["host"]


@role("Host")
def host() -> None:
    """Write the files of the userland, and hold the packages of the plan; no pod is disturbed.

    Limits reach a unit when it starts next, swap units the next boot.
    """
    take_part()
