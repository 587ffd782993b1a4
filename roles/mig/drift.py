"""Whether NVIDIA's GPUs are still cut as planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.findings.drift import Concern, DriftRule
from numaforge.findings.engine import Seen
from numaforge.findings.finding import Severity
from numaforge.roles.mig.devices import as_instance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numaforge.planning.plan import NodePlan
    from numaforge.topology.model import NodeTopology


def _cut(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
    there = {gpu.pci_address: gpu for gpu in machine.gpus}
    for wanted in plan.mig.gpus:
        gpu = there.get(wanted.pci_address)
        if gpu is None:
            yield Seen("the GPU is not there", wanted.pci_address)
        elif gpu.mig_mode is None:
            yield Seen(unknown=f"{wanted.pci_address}: its MIG mode was not read")
        elif gpu.mig_mode != (wanted.mode or "disabled"):
            yield Seen(f"MIG is {gpu.mig_mode}, planned {wanted.mode or 'disabled'}", wanted.pci_address)
        elif plan.mig.managed_by == "numaforge" and gpu.gpu_instances is not None:
            held = frozenset(as_instance(each) for each in gpu.gpu_instances)
            if gpu.mig_mode == "enabled" and held != frozenset(wanted.instances):
                planned = ", ".join(map(str, wanted.instances)) or "none"
                yield Seen(f"{len(held)} instances that are not those planned: {planned}", wanted.pci_address)


_CONCERN = Concern(
    "with a plan of numaforge's that cuts GPUs",
    lambda plan: plan.mig.managed_by != "gpu-operator" and bool(plan.mig.gpus),
    "its plan cuts no GPU",
)
DRIFT = (DriftRule("NP110", Severity.ERROR, "GPUs are not cut as planned", _cut, _CONCERN),)
