"""Kinds of machines: those that are siblings, by what no one changes by mistake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from numaforge.topology.gpu_models import MODELS
from numaforge.topology.model import NodeTopology

_MAKERS = {"GenuineIntel": "Intel ", "AuthenticAMD": "AMD "}
LEAST_SIBLINGS = 3
"""How many siblings have to agree before a machine differs from them."""


@dataclass(frozen=True, order=True)
class Kind:
    """What siblings have in common: processors by maker, architecture and packages, and models of devices.

    `product` is what the maker calls the machine, "" where that is not known. `cpus` tells machines without such devices apart, and is 0 for others. `lost` marks a machine with
    NVIDIA's driver and no GPU.
    """

    processors: str
    product: str = ""
    devices: tuple[str, ...] = ()
    cpus: int = 0
    lost: bool = False

    def __str__(self) -> str:
        devices = " and ".join(self.devices) or f"{self.cpus} CPUs, no GPU"
        return ", ".join(filter(None, (self.product, self.processors, devices)))


def kind_of(machine: NodeTopology) -> Kind:
    """Return the kind of a machine: not how many devices it has, of which some may be lost."""
    maker = _MAKERS.get(machine.cpu_vendor or "", "")
    packages = len(machine.packages)
    processors = f"{packages} x {maker}{machine.architecture or 'unknown'}"
    product = machine.product or ""
    ids = {f"{gpu.vendor}:{gpu.device}" for gpu in machine.gpus}
    devices = {MODELS.get(each, each) for each in ids}
    devices |= {each.name or f"{each.vendor}:{each.device}" for each in machine.accelerators}
    if devices:
        return Kind(processors, product, tuple(sorted(devices)))
    install = machine.nvidia_install
    driver = machine.nvidia is not None or (install is not None and bool(install.loaded or install.on_disk))
    return Kind(processors, product, cpus=len(machine.online | machine.offline), lost=driver)


def with_lost(kinds: Sequence[Kind]) -> list[Kind]:
    """Return kinds so that a machine which has lost all of its GPUs is of the kind that it was.

    That is told by NVIDIA's driver on a machine without GPUs, where one kind alone has its processors.
    """
    counts = Counter(kind for kind in kinds if kind.devices)
    whole = {
        lost: of_it[0]
        for lost in {kind for kind in kinds if kind.lost}
        if len(of_it := [kind for kind in counts if _alike(kind, lost)]) == 1
        and counts[of_it[0]] >= LEAST_SIBLINGS
        and kinds.count(lost) < LEAST_SIBLINGS
    }
    return [whole.get(kind, kind) for kind in kinds]


def _alike(kind: Kind, lost: Kind) -> bool:
    return (kind.processors, kind.product) == (lost.processors, lost.product)
