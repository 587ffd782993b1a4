"""MIG: how the GPUs are cut, now and after every boot."""

from __future__ import annotations

from numaforge.hosts import role
from numaforge.roles.maintenance import take_part

__all__ = ["mig"]


@role("MIG")
def mig() -> None:
    """Cut the GPUs as planned, while the kubelet of the plan is stopped, and have a unit do so at boot.

    It changes GPUs and needs root: it stops the units that hold a GPU which changes, and starts them again.
    """
    take_part()
