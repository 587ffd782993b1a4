"""Ask NVML about every GPU; sent to hosts, where it runs on the standard library and pynvml alone."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

LARGEST_NVLINK = 36


def answers(nvml: ModuleType) -> dict[str, Any]:
    """Return what NVML says of this machine, as plain JSON data; whatever it does not answer is None."""
    nvml.nvmlInit()
    try:
        return {
            "driver_version": _ask(nvml, nvml.nvmlSystemGetDriverVersion),
            "gpus": [_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())],
        }
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: ModuleType, index: int) -> dict[str, Any]:
    device = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = _ask(nvml, nvml.nvmlDeviceGetMemoryInfo, device)
    return {
        "pci_address": _text(nvml.nvmlDeviceGetPciInfo(device).busId),
        "uuid": _ask(nvml, nvml.nvmlDeviceGetUUID, device),
        "name": _ask(nvml, nvml.nvmlDeviceGetName, device),
        "memory_bytes": memory and memory.total,
        "nvlinks": _active_nvlinks(nvml, device),
        "fabric": _fabric(nvml, device),
        **_mig(nvml, device),
    }


def _mig(nvml: ModuleType, device: Any) -> dict[str, Any]:
    try:
        current, pending = nvml.nvmlDeviceGetMigMode(device)
    except nvml.NVMLError_NotSupported:
        return {"mig_capable": False, "mig_current": None, "mig_pending": None}
    except nvml.NVMLError:
        return {"mig_capable": None, "mig_current": None, "mig_pending": None}
    return {"mig_capable": True, "mig_current": bool(current), "mig_pending": bool(pending)}


def _active_nvlinks(nvml: ModuleType, device: Any) -> int | None:
    active = None
    for link in range(LARGEST_NVLINK):
        state = _ask(nvml, nvml.nvmlDeviceGetNvLinkState, device, link)
        if state is not None:
            active = (active or 0) + state
    return active


def _fabric(nvml: ModuleType, device: Any) -> str | None:
    """Return "<cluster uuid>.<clique id>" once the fabric manager has registered the GPU."""
    info = nvml.c_nvmlGpuFabricInfoV_t()
    if _ask(nvml, nvml.nvmlDeviceGetGpuFabricInfoV, device, nvml.byref(info)) is None:
        return None
    cluster = bytes(bytearray(info.clusterUuid)).hex()
    if info.state != nvml.NVML_GPU_FABRIC_STATE_COMPLETED or not cluster.strip("0"):
        return None
    parts = (cluster[:8], cluster[8:12], cluster[12:16], cluster[16:20], cluster[20:])
    return "{}.{}".format("-".join(parts), info.cliqueId)


def _ask(nvml: ModuleType, question: Callable[..., Any], *arguments: Any) -> Any:
    try:
        answer = question(*arguments)
    except nvml.NVMLError:
        return None
    return _text(answer) if isinstance(answer, bytes) else answer


def _text(answer: Any) -> str:
    return answer.decode("ascii", "replace") if isinstance(answer, bytes) else str(answer)
