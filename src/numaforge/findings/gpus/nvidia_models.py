"""Rules about NVIDIA GPUs of several models in one machine."""

from collections.abc import Iterator, Mapping

from numaforge.findings import scope
from numaforge.findings.engine import Applicability, Seen, applies
from numaforge.findings.rules import machine_rule
from numaforge.lib.ordering import grouped
from numaforge.machine.topology.gpu_models import model_of
from numaforge.machine.topology.model import Gpu, NodeTopology


@applies("where NVIDIA's driver has several GPUs", within=scope.with_driver)
def _several(machine: NodeTopology) -> Applicability:
    count = len(scope.driven(machine))
    return Applicability(count > 1, f"{count} GPUs" if count > 1 else "one GPU")


def _odd_ones(machine: NodeTopology) -> Iterator[Seen]:
    """Yield the GPUs of rarer models; in a tie, the models."""
    models = grouped((gpu.device, gpu) for gpu in scope.driven(machine))
    if len(models) == 1:
        return
    most, next_most = sorted(map(len, models.values()), reverse=True)[:2]
    if most == next_most:
        yield Seen(_listed(models))
        return
    for device, gpus in models.items():
        if len(gpus) < most:
            other_gpus = {model: gpus_of_model for model, gpus_of_model in models.items() if model != device}
            evidence = f"{_name(gpus)} beside {_listed(other_gpus)}"
            yield from (Seen(evidence, gpu.pci_address) for gpu in gpus)


def _listed(models: Mapping[str, list[Gpu]]) -> str:
    return ", ".join(f"{len(gpus)} x {_name(gpus)}" for gpus in models.values())


def _name(gpus: list[Gpu]) -> str:
    """Return the model of GPUs with one PCI id; the driver has no name for lost ones."""
    return model_of(max(gpus, key=lambda gpu: gpu.name is not None))


RULES = (machine_rule("NG602", _several, _odd_ones),)
