"""The modes of AMD's GPUs, as the driver has them now, and the partitions that the kernel has of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge import shell
from numaforge.verification.promise import Promise, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numaforge.roles.amd_partitions.instance import AmdGpu
    from numaforge.roles.node import NodePlan
    from numaforge.verification.live import VerifiedNode


def amd_partitions(plan: NodePlan) -> Table:
    """The modes of each GPU, by PCI address; none where AMD's manager sets them."""
    if plan.amd_partitions.managed_by != "numaforge":
        return {}
    return {gpu.pci_address: gpu for gpu in plan.amd_partitions.gpus}


def _asks(plan: NodePlan) -> Iterator[str]:
    if amd_partitions(plan):
        yield shell.call("tell_amd_partitions", [])


def _amd_partitions(node: VerifiedNode, name: str, expected: AmdGpu) -> None:
    assert name in node.live.of("amd_partitions"), "amdgpu on the host does not have this GPU"
    compute, memory, count = node.live.of("amd_partitions")[name].split()
    assert expected.compute in ("", compute)
    assert expected.memory in ("", memory)
    assert expected.partitions in (None, int(count)) or count == "0", "the kernel's KFD has other partitions"


PROMISES = (Promise("amd_partitions", amd_partitions, _amd_partitions, asks=_asks),)
