"""The models of GPUs by their PCI ids, for hosts without a driver that reports the name."""

import json
from collections.abc import Mapping
from pathlib import Path

from numaforge.machine.topology.model import Gpu
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
