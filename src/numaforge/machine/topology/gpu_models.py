"""The models of GPUs by their PCI ids, for hosts without a driver that reports the name."""

from collections.abc import Mapping

from numaforge.machine.topology.model import Gpu
from numaforge.machine.topology.vendors import NVIDIA

# pci.ids (github.com/pciutils/pciids), in the words of the drivers where these are known.
MODELS: Mapping[str, str] = {
    # NVIDIA Volta to Ampere
    "10de:1db1": "NVIDIA V100-SXM2-16GB",
    "10de:1db4": "NVIDIA V100-PCIE-16GB",
    "10de:1db5": "NVIDIA V100-SXM2-32GB",
    "10de:1db6": "NVIDIA V100-PCIE-32GB",
    "10de:1eb8": "NVIDIA T4",
    "10de:20b0": "NVIDIA A100-SXM4-40GB",
    "10de:20b1": "NVIDIA A100 PCIe 40GB",
    "10de:20b2": "NVIDIA A100-SXM4-80GB",
    "10de:20b5": "NVIDIA A100 80GB PCIe",
    "10de:20b6": "NVIDIA PG506-232",
    "10de:20b7": "NVIDIA A30",
    "10de:20bd": "NVIDIA A800-SXM4-40GB",
    "10de:20f1": "NVIDIA A100-PCIE-40GB",
    "10de:20f3": "NVIDIA A800-SXM4-80GB",
    "10de:20f5": "NVIDIA A800 80GB PCIe",
    "10de:20f6": "NVIDIA A800 40GB PCIe",
    "10de:2230": "NVIDIA RTX A6000",
    "10de:2235": "NVIDIA A40",
    "10de:2236": "NVIDIA A10",
    # Ada
    "10de:26b1": "NVIDIA RTX 6000 Ada Generation",
    "10de:26b5": "NVIDIA L40",
    "10de:26b9": "NVIDIA L40S",
    "10de:27b8": "NVIDIA L4",
    # Hopper
    "10de:2321": "NVIDIA H100 NVL",
    "10de:2322": "NVIDIA H800 PCIe",
    "10de:2324": "NVIDIA H800",
    "10de:2329": "NVIDIA H20",
    "10de:232c": "NVIDIA H20-3e",
    "10de:2330": "NVIDIA H100 80GB HBM3",
    "10de:2331": "NVIDIA H100 PCIe",
    "10de:2335": "NVIDIA H200",
    "10de:2337": "NVIDIA H100 SXM5 64GB",
    "10de:2339": "NVIDIA H100 SXM5 94GB",
    "10de:233a": "NVIDIA H800 NVL",
    "10de:233b": "NVIDIA H200 NVL",
    "10de:233d": "NVIDIA H100 96GB",
    "10de:2342": "NVIDIA GH200 480GB",
    "10de:2348": "NVIDIA GH200 144G HBM3e",
    # Blackwell
    "10de:2901": "NVIDIA B200",
    "10de:2941": "NVIDIA GB200",
    "10de:2bb1": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    "10de:2bb4": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    "10de:2bb5": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "10de:3182": "NVIDIA B300 SXM6 AC",
    "10de:2e12": "NVIDIA GB10",
    "10de:31c2": "NVIDIA GB300",
    # Rubin: its driver says "NVIDIA Graphics Device" (kubevirt/kubevirt#19070).
    "10de:3041": "NVIDIA Vera Rubin",
    "10de:307f": "NVIDIA Vera Rubin",
    # AMD Instinct
    "1002:738c": "AMD Instinct MI100",
    "1002:7408": "AMD Instinct MI250X",
    "1002:740c": "AMD Instinct MI250X/MI250",
    "1002:740f": "AMD Instinct MI210",
    "1002:74a0": "AMD Instinct MI300A",
    "1002:74a1": "AMD Instinct MI300X",
    "1002:74a2": "AMD Instinct MI308X",
    "1002:74a5": "AMD Instinct MI325X",
    "1002:75a0": "AMD Instinct MI350X",
    "1002:75a3": "AMD Instinct MI355X",
}

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


COMPUTE_DIES: Mapping[str, int] = {
    "74a0": 6,  # MI300A
    "74a1": 8,  # MI300X
    "74a2": 4,  # MI308X
    "74a5": 8,  # MI325X
    "74a8": 4,  # MI308X HF
    "74a9": 8,  # MI300X HF
    "75a0": 8,  # MI350X
    "75a3": 8,  # MI355X
}
"""The compute dies (XCDs) of AMD's GPUs that can be partitioned, by PCI device id."""
