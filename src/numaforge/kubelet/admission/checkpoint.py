"""Read the kubelet's state files of the managers: CPUs and memory by pod UID and container."""

from __future__ import annotations

from numaforge.errors import KubeletConfigError
from numaforge.kubelet.admission.settings import Settings
from numaforge.kubelet.checkpoints import (
    CheckpointError,
    CpuState,
    MemoryState,
    restore_cpu_state,
    restore_memory_state,
)
from numaforge.kubelet.minors.versions import KubeletVersion
from numaforge.kubelet_paths import ROOT_DIR

CPU_STATE = "cpu_manager_state"
MEMORY_STATE = "memory_manager_state"


def read_cpu_state(text: str, settings: Settings) -> CpuState:
    """Return cpu_manager_state; raises KubeletConfigError, with the kubelet's text, where it is unfit."""
    version, by_pod = KubeletVersion(settings.minor), settings.gates.pod_level_resource_managers
    try:
        return restore_cpu_state(text, settings.cpu_policy, version, f"{ROOT_DIR}/{CPU_STATE}", by_pod=by_pod)
    except CheckpointError as error:
        raise KubeletConfigError(str(error), where=CPU_STATE) from error


def read_memory_state(text: str, settings: Settings) -> MemoryState:
    """Return memory_manager_state; raises KubeletConfigError, with the kubelet's text, where it is unfit."""
    version, by_pod = KubeletVersion(settings.minor), settings.gates.pod_level_resource_managers
    try:
        return restore_memory_state(
            text, settings.memory_policy, version, f"{ROOT_DIR}/{MEMORY_STATE}", by_pod=by_pod
        )
    except CheckpointError as error:
        raise KubeletConfigError(str(error), where=MEMORY_STATE) from error
