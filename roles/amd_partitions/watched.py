"""The modes of AMD's GPUs, as a node compares them by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.amd_partitions.promises import amd_partitions
from numaforge.watched import Compared

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numaforge.planning.plan import NodePlan


def compared(plan: NodePlan) -> Iterator[Compared]:
    """Yield the modes of each GPU that the plan partitions."""
    for address, gpu in amd_partitions(plan).items():
        for mode, value in (("compute", gpu.compute), ("memory", gpu.memory)):
            if value:
                path = f"/sys/bus/pci/devices/{address}/current_{mode}_partition"
                yield Compared("amd_partitions", path, value)
