"""Read the kubelet's state files for the managers: CPUs, memory and devices by pod UID and container."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from numaforge.errors import KubeletConfigError
from numaforge.kubelet.checkpoints import (
    CheckpointError,
    CpuState,
    MemoryState,
    restore_cpu_state,
    restore_memory_state,
)
from numaforge.kubelet.minors.versions import LATEST_MINOR, KubeletVersion

CPU_STATE = "cpu_manager_state"
MEMORY_STATE = "memory_manager_state"
DEVICE_STATE = "kubelet_internal_checkpoint"
_ROOT_DIR = "/var/lib/kubelet"
_VERSION = KubeletVersion(LATEST_MINOR)
"""It reads what every earlier kubelet has written."""


def read_cpu_state(text: str, policy: str) -> CpuState:
    """Return cpu_manager_state; raises KubeletConfigError, with the kubelet's text, where it is unfit."""
    try:
        return restore_cpu_state(text, policy, _VERSION, f"{_ROOT_DIR}/{CPU_STATE}")
    except CheckpointError as error:
        raise KubeletConfigError(str(error), where=CPU_STATE) from error


def read_memory_state(text: str, policy: str) -> MemoryState:
    """Return memory_manager_state; raises KubeletConfigError, with the kubelet's text, where it is unfit."""
    try:
        return restore_memory_state(text, policy, _VERSION, f"{_ROOT_DIR}/{MEMORY_STATE}")
    except CheckpointError as error:
        raise KubeletConfigError(str(error), where=MEMORY_STATE) from error


def read_device_state(text: str) -> dict[str, dict[str, dict[str, set[str]]]]:
    """Return device ids by pod UID, container and resource (pkg/kubelet/cm/devicemanager/checkpoint)."""
    held: dict[str, dict[str, dict[str, set[str]]]] = {}
    try:
        document: Mapping[str, Any] = json.loads(text)
        for entry in (document.get("Data") or {}).get("PodDeviceEntries") or ():
            container = held.setdefault(entry["PodUID"], {}).setdefault(entry["ContainerName"], {})
            ids = {name for names in entry["DeviceIDs"].values() for name in names}
            container.setdefault(entry["ResourceName"], set()).update(ids)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise KubeletConfigError(f"not a device manager checkpoint: {error}", where=DEVICE_STATE) from error
    return held
