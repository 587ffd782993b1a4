"""Device makers by PCI vendor id, and which GPUs belong to NVIDIA's driver."""

from collections.abc import Sequence

from numaforge.machine.topology.model import Gpu

NVIDIA, AMD, INTEL, HABANA = "10de", "1002", "8086", "1da3"

NOT_LISTED = "the driver does not list it"
"""Why a GPU that the kernel shows has no answer."""


def only_amd(gpus: Sequence[Gpu]) -> bool:
    """Say whether all GPUs of a machine are AMD's: collectives use RCCL there, else NCCL."""
    return bool(gpus) and all(gpu.vendor == AMD for gpu in gpus)


def listed_by_nvml(gpu: Gpu) -> bool:
    """Say whether NVML lists a GPU: one of NVIDIA's, not bound to another driver such as vfio-pci."""
    return gpu.vendor == NVIDIA and gpu.driver in (None, "nvidia")
