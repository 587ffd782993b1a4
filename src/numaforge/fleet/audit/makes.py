"""Makes of machines: siblings share what never changes by mistake."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from numaforge.lib.quantity import counted
from numaforge.machine.topology.gpu_models import MODELS
from numaforge.machine.topology.model import NodeTopology

_MAKERS = {"GenuineIntel": "Intel ", "AuthenticAMD": "AMD "}
LEAST_SIBLINGS = 3  # how many siblings must agree before a machine counts as different


@dataclass(frozen=True)
class Make:
    """The identity of siblings; `lost` marks a machine with NVIDIA's driver and no GPU.

    `product` is "" where unknown. `cpus` tell machines apart where that and devices do not suffice, else 0.
    """

    product: str
    devices: tuple[str, ...]
    processors: str
    cpus: int = 0
    lost: bool = False

    def __str__(self) -> str:
        cpus = f"{self.cpus} CPUs in {self.processors}" if self.cpus else self.processors
        return ", ".join(filter(None, (self.product, " and ".join(self.devices) or "no GPU", cpus)))


def make_of(machine: NodeTopology) -> Make:
    """Return the make of a machine; ignores the number of devices, as some may be lost."""
    maker, packages = _MAKERS.get(machine.cpu_vendor or "", ""), len(machine.packages)
    processors = counted(packages, f"{maker}{machine.architecture or 'unknown'} package")
    ids = {f"{gpu.vendor}:{gpu.device}" for gpu in machine.gpus}
    devices = {MODELS.get(model_id, model_id) for model_id in ids}
    devices |= {
        accelerator.name or f"{accelerator.vendor}:{accelerator.device}"
        for accelerator in machine.accelerators
    }
    install = machine.nvidia_install
    driver = machine.nvidia is not None or (install is not None and bool(install.loaded or install.on_disk))
    return Make(
        product=machine.product or "",
        devices=tuple(sorted(devices)),
        processors=processors,
        cpus=0 if machine.product and devices else len(machine.online | machine.offline),
        lost=driver and not devices,
    )


def with_lost(makes: Sequence[Make]) -> list[Make]:
    """Return makes where a machine that has lost all its GPUs, but not their driver, keeps its former one."""
    counts = Counter(make for make in makes if make.devices)
    repaired = {
        lost: of_it[0]
        for lost in {make for make in makes if make.lost}
        if len(of_it := [make for make in counts if _alike(make, lost)]) == 1
        and counts[of_it[0]] >= LEAST_SIBLINGS
        and makes.count(lost) < LEAST_SIBLINGS
    }
    return [repaired.get(make, make) for make in makes]


def _alike(make: Make, lost: Make) -> bool:
    same = (make.processors, make.product) == (lost.processors, lost.product)
    return same and make.cpus in (0, lost.cpus)
