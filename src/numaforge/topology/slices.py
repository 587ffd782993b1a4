"""Devices that are cut into slices: MIG's instances and AMD's compute partitions, in one form."""

from __future__ import annotations

from collections.abc import Sequence

from numaforge.topology.model import Gpu, Slicing

# The partitions of a mode. CPX has one per compute die, and sysfs does not say how many those are.
_PARTITIONS = {"SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4}


def slicing_of(gpu: Gpu) -> Slicing | None:
    """Return how a GPU is cut, or could be; None for one that is always whole, or not known to be cut."""
    if gpu.partition is not None:
        return Slicing(
            technique="xcp",
            mode=gpu.partition.compute,
            modes=gpu.partition.available_compute,
            slices=_PARTITIONS.get(gpu.partition.compute or ""),
            memory_mode=gpu.partition.memory,
            memory_modes=gpu.partition.available_memory,
        )
    if not gpu.mig_capable:
        return None
    return Slicing("mig", gpu.mig_mode, ("disabled", "enabled"), _mig_devices(gpu))


def countable_gpus(gpus: Sequence[Gpu]) -> list[Gpu]:
    """Return the GPUs of which is known how many devices their vendor's plugin makes.

    Where one of AMD's is partitioned, or may be, its plugin advertises partitions: none of AMD's is counted.
    """
    partitioned = {gpu.vendor for gpu in gpus if gpu.partition and gpu.partition.compute != "SPX"}
    return [gpu for gpu in gpus if gpu.vendor not in partitioned]


def _mig_devices(gpu: Gpu) -> int | None:
    if gpu.mig_mode == "disabled":
        return 1
    if gpu.mig_mode is None or gpu.gpu_instances is None:
        return None
    return sum(len(instance.compute_instances) for instance in gpu.gpu_instances)
