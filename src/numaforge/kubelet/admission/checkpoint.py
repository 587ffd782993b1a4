"""Read the kubelet's state files of the managers: CPUs and memory by pod UID and container."""

from __future__ import annotations

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
