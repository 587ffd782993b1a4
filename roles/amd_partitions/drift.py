"""Whether AMD's GPUs still have the modes that were planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.findings.drift import Concern, DriftRule
from numaforge.findings.engine import Seen
from numaforge.findings.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan


def _modes(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
    by_address = {gpu.pci_address: gpu for gpu in machine.gpus}
    for planned in plan.amd_partitions.gpus:
        gpu = by_address.get(planned.pci_address)
        cut = gpu.partition if gpu else None
        if gpu is None:
            yield Seen("the GPU is not there", planned.pci_address)
        elif cut is None or cut.compute is None:
            yield Seen(unknown=f"{planned.pci_address}: its modes were not read")
        elif planned.compute != cut.compute or planned.memory not in ("", cut.memory):
            modes = " ".join(filter(None, (cut.compute, cut.memory)))
            yield Seen(f"it is in {modes}, planned {planned.modes}", planned.pci_address)


_CONCERN = Concern(
    "with a plan of numaforge's that partitions AMD GPUs",
    lambda plan: bool(plan.amd_partitions.gpus),
    "its plan partitions no GPU",
)
DRIFT = (DriftRule("NP111", Severity.ERROR, "AMD GPUs do not have the planned modes", _modes, _CONCERN),)
