"""The modes of AMD's GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.roles.expectation import Expected

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def expected(plan: NodePlan) -> Iterator[Expected]:
    """Yield the modes of each GPU that numaforge partitions."""
    if plan.amd_partitions.managed_by != "numaforge":
        return
    for gpu in plan.amd_partitions.gpus:
        for mode, value in (("compute", gpu.compute), ("memory", gpu.memory)):
            if value:
                yield Expected(
                    f"amd_partitions:{gpu.pci_address}-{mode}", mode_path(gpu.pci_address, mode), value
                )


def mode_path(address: str, mode: str) -> str:
    """Return the path of a GPU's mode, "compute" or "memory"."""
    return f"/sys/bus/pci/devices/{address}/current_{mode}_partition"
