"""Whether NVIDIA's GPUs are still cut as planned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.findings.drift import Concern, DriftRule
from numaforge.findings.engine import Seen
from numaforge.findings.finding import Severity
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.mig.devices import as_instance

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def _cut(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
    by_address = {gpu.pci_address: gpu for gpu in machine.gpus}
    for planned_gpu in plan.mig.gpus:
        gpu = by_address.get(planned_gpu.pci_address)
        if gpu is None:
            yield Seen("the GPU is not there", planned_gpu.pci_address)
        elif gpu.mig_mode is None:
            yield Seen(unknown=f"{planned_gpu.pci_address}: its MIG mode was not read")
        elif gpu.mig_mode != (planned_gpu.mode or "disabled"):
            yield Seen(
                f"MIG is {gpu.mig_mode}, planned {planned_gpu.mode or 'disabled'}", planned_gpu.pci_address
            )
        elif plan.mig.managed_by == "numaforge" and gpu.gpu_instances is not None:
            instances = frozenset(as_instance(instance) for instance in gpu.gpu_instances)
            if gpu.mig_mode == "enabled" and instances != frozenset(planned_gpu.instances):
                planned = ", ".join(map(str, planned_gpu.instances)) or "none"
                yield Seen(
                    f"{len(instances)} instances that are not those planned: {planned}",
                    planned_gpu.pci_address,
                )


_CONCERN = Concern(
    "with a plan of numaforge's that cuts GPUs",
    lambda plan: plan.mig.managed_by != "gpu-operator" and bool(plan.mig.gpus),
    "its plan cuts no GPU",
)
DRIFT = (DriftRule("NP110", Severity.ERROR, "GPUs are not cut as planned", _cut, _CONCERN),)
