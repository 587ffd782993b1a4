#!/usr/bin/python3
"""Print what NVIDIA's device plugin offers with migStrategy mixed: lines "RESOURCE UUID PCI-ADDRESS"."""

import sys
from collections.abc import Iterator
from typing import Any

sys.path.insert(0, "/usr/local/lib/pynvml")  # where a test puts it, with the library

import pynvml as nvml


def main() -> None:
    """Ask NVML; a GPU in MIG mode is not offered as a whole."""
    nvml.nvmlInit()
    for index in range(nvml.nvmlDeviceGetCount()):
        gpu = nvml.nvmlDeviceGetHandleByIndex(index)
        address = str(nvml.nvmlDeviceGetPciInfo(gpu).busId).lower().removeprefix("0000")
        offered = mig_devices(gpu) if in_mig_mode(gpu) else [("nvidia.com/gpu", nvml.nvmlDeviceGetUUID(gpu))]
        for resource, uuid in offered:
            print(resource, uuid, address)
    nvml.nvmlShutdown()


def in_mig_mode(gpu: Any) -> bool:
    """Say whether a GPU is in MIG mode now."""
    try:
        return bool(nvml.nvmlDeviceGetMigMode(gpu)[0] == nvml.NVML_DEVICE_MIG_ENABLE)
    except nvml.NVMLError_NotSupported:
        return False


def mig_devices(gpu: Any) -> Iterator[tuple[str, str]]:
    """Yield resource and UUID of each MIG device; their indices may have holes."""
    names = dict(profile_names(gpu))
    for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)
        except nvml.NVMLError_NotFound:
            continue
        instance = nvml.nvmlDeviceGetGpuInstanceById(gpu, nvml.nvmlDeviceGetGpuInstanceId(device))
        name = names[nvml.nvmlGpuInstanceGetInfo(instance).profileId]
        yield f"nvidia.com/mig-{name}", nvml.nvmlDeviceGetUUID(device)


def profile_names(gpu: Any) -> Iterator[tuple[int, str]]:
    """Yield id and name of each profile as resources have it: 1g.10gb.me for "MIG 1g.10gb+me"."""
    for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            profile = nvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, number)
        except nvml.NVMLError_NotSupported:
            continue
        yield profile.id, str(profile.name).removeprefix("MIG ").replace("+", ".")


main()
