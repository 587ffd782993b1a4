"""The models of GPUs by PCI ids, for hosts without a driver, and slices: MIG devices, AMD's partitions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from numaforge.machine.topology.model import ComputeInstance, Gpu
from numaforge.machine.topology.vendors import NVIDIA

_TABLES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

MODELS: Mapping[str, str] = _TABLES["models"]
"""Names by vendor and device, of pci.ids (github.com/pciutils/pciids), in the drivers' words where known.

Of Vera Rubin the driver says "NVIDIA Graphics Device" (kubevirt/kubevirt#19070).
"""

COMPUTE_DIES: Mapping[str, int] = _TABLES["compute_dies"]
"""The compute dies (XCDs) of AMD's GPUs that can be partitioned, by PCI device id."""

RACK = frozenset({"2941", "31c2", "3041", "307f"})  # GB200, GB300, Vera Rubin
"""GPUs whose NVSwitches are in trays of their own, with their own fabric manager, by PCI device id."""

GRACE = RACK | {"2342", "2348"}  # GH200 with 96 and 144 GB
"""GPUs on one board with a Grace or Vera CPU, which reaches their memory coherently over NVLink-C2C."""


def is_coherent(gpu: Gpu) -> bool:
    """Say whether a GPU is on one board with a CPU that reaches its memory coherently."""
    return gpu.vendor == NVIDIA and gpu.device in GRACE


def model_of(gpu: Gpu) -> str:
    """Return the driver's name of a GPU, else the model by its PCI ids, else these ids: `10de:2330`."""
    ids = f"{gpu.vendor}:{gpu.device}"
    return gpu.name or MODELS.get(ids, ids)


# The partitions of a mode; CPX has one per compute die.
PARTITIONS = {"SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4}


def partitions_of(gpu: Gpu) -> int | None:
    """Return how many partitions one of AMD's GPUs has; None where that is not known."""
    if gpu.partition is None:
        return None
    return gpu.partition.count or partitions_in(gpu.partition.compute, gpu.device)


def partitions_in(mode: str | None, device: str) -> int | None:
    """Return how many partitions a compute mode makes of a GPU, by its PCI device id; CPX one per die."""
    return COMPUTE_DIES.get(device.lower()) if mode == "CPX" else PARTITIONS.get(mode or "")


def countable_gpus(gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs whose number of devices in their vendor's plugin is known.

    Where the modes of one of AMD's are not known, or the number of its partitions, none of AMD's is counted:
    the plugin names all of them by what it finds of each.
    """
    unknown = {
        gpu.vendor for gpu in gpus if gpu.partition and not (gpu.partition.compute and partitions_of(gpu))
    }
    return [gpu for gpu in gpus if gpu.vendor not in unknown]


def mig_devices(gpu: Gpu) -> Iterator[tuple[str | None, ComputeInstance]]:
    """Yield each MIG device, which is a compute instance, with its profile's name.

    One that is smaller than its GPU instance says so in its name: "1c.3g.40gb". None is what is not known.
    """
    offers = {offer.id: offer for offer in gpu.mig_profiles}
    for instance in gpu.gpu_instances or ():
        offer = offers.get(instance.profile_id)
        for one in instance.compute_instances:
            if offer is None or offer.name is None:
                yield None, one
                continue
            smaller = one.slices is not None and one.slices < offer.slices
            yield f"{one.slices}c.{offer.name}" if smaller else offer.name, one
