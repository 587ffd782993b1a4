"""The GPUs, as NVML reports them now."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from numaforge.roles.mig.files import MIG_WORKER_PATH
from numaforge.roles.mig.instance import MigGpu
from numaforge.roles.promise import Promise, Table, asks_where, require, require_equal

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode


def mig(plan: NodePlan) -> Table:
    """How each GPU is cut, by PCI address, and whether numaforge cuts it: the DRA driver cuts by itself."""
    if plan.mig.managed_by == "gpu-operator":
        return {}
    return {gpu.pci_address: (gpu, plan.mig.managed_by == "numaforge") for gpu in plan.mig.gpus}


def _mig(node: VerifiedNode, name: str, expected: tuple[MigGpu, bool]) -> None:
    planned_gpu, cut_by_us = expected
    require(name in node.live.of("mig"), "NVML on the host does not answer for this GPU")
    gpu = MigGpu.read(json.loads(node.live.of("mig")[name]))
    require_equal(f"MIG {gpu.mode}", f"MIG {planned_gpu.mode}")
    require(
        not cut_by_us or gpu.geometry == planned_gpu.geometry,
        f"instances {_instances(gpu)}, planned {_instances(planned_gpu)}",
    )


def _instances(gpu: MigGpu) -> str:
    return ", ".join(map(str, gpu.geometry)) or "none"


PROMISES = (Promise("mig", mig, _mig, asks=asks_where(mig, "tell_mig", MIG_WORKER_PATH)),)
