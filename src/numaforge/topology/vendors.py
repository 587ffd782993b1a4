"""The makers of devices by their PCI vendor ids, and which GPUs are NVIDIA's driver's."""

from __future__ import annotations

from collections.abc import Sequence

from numaforge.topology.model import GpuShape

NVIDIA, AMD, INTEL, HABANA = "10de", "1002", "8086", "1da3"

NOT_LISTED = "the driver does not list it"
"""Why a GPU that the kernel shows has no answer: NVML does not count it."""


def only_amd(gpus: Sequence[GpuShape]) -> bool:
    """Say whether all GPUs of a machine are AMD's: collectives are RCCL's there, and else NCCL's."""
    return bool(gpus) and all(gpu.vendor == AMD for gpu in gpus)


def listed_by_nvml(gpu: GpuShape) -> bool:
    """Say whether NVML lists a GPU: one of NVIDIA's that no other driver has, such as vfio-pci."""
    return gpu.vendor == NVIDIA and gpu.driver in (None, "nvidia")
