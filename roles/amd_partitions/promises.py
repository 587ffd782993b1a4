"""The partitions that the kernel has of AMD's GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.promise import Promise, Table, asks_where, require

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.roles.amd_partitions.instance import AmdGpu
    from numaforge.verification.live import VerifiedNode


def amd_partitions(plan: NodePlan) -> Table:
    """Each GPU with its partitions, by PCI address; none where AMD's manager sets them."""
    if plan.amd_partitions.managed_by != "numaforge":
        return {}
    return {gpu.pci_address: gpu for gpu in plan.amd_partitions.gpus}


def _amd_partitions(node: VerifiedNode, name: str, expected: AmdGpu) -> None:
    require(
        name in node.live.of("amd_partitions"), f"amdgpu does not have this GPU, planned {expected.modes}"
    )
    count = node.live.of("amd_partitions")[name]
    require(
        expected.partitions in (None, int(count)) or count == "0",
        f"{count} partitions in the kernel's KFD, planned {expected.partitions}",
    )


_ASKS = asks_where(amd_partitions, "tell_amd_partitions")
PROMISES = (Promise("amd_partitions", amd_partitions, _amd_partitions, asks=_ASKS),)
