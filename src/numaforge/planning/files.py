"""Which files the plan puts on the host."""

from __future__ import annotations

from collections.abc import Sequence

from numaforge.planning.existing import DROP_IN_NAME
from numaforge.planning.model import PLAN_PATH, KubeletPlan, MigPlan, NumaNodePlan, PlannedFile, TuningPlan

SYSCTL_PATH = "/etc/sysctl.d/90-numaforge.conf"
TUNING_TMPFILES_PATH = "/etc/tmpfiles.d/numaforge-tuning.conf"
TUNING_UNIT_PATH = "/etc/systemd/system/numaforge-tuning.service"
HUGEPAGES_TMPFILES_PATH = "/etc/tmpfiles.d/numaforge-hugepages.conf"
MEMORY_STATE_SCRIPT_PATH = "/usr/local/lib/numaforge/memory-state.sh"
MIG_UNIT_PATH = "/etc/systemd/system/numaforge-mig.service"
MIG_WORKER_PATH = "/usr/local/lib/numaforge/mig.py"
MIG_LIBRARY_PATH = "/usr/local/lib/numaforge/pynvml.py"


def plan_files(
    tuning: TuningPlan, numa_nodes: Sequence[NumaNodePlan], kubelet: KubeletPlan | None
) -> tuple[PlannedFile, ...]:
    """Return the files in the order in which the roles write them; one with nothing to say is left out."""
    return (
        PlannedFile(PLAN_PATH, "topology", None),
        *_tuning_files(tuning),
        *_hugepages_files(numa_nodes),
        *(_kubelet_files(kubelet) if kubelet else ()),
    )


def _tuning_files(tuning: TuningPlan) -> tuple[PlannedFile, ...]:
    by_path = bool(tuning.governors or tuning.energy_preferences or tuning.transparent_hugepages)
    files = []
    if tuning.sysctls:
        files.append(PlannedFile(SYSCTL_PATH, "tuning", "tuning/sysctl.conf.j2"))
    if by_path:
        files.append(PlannedFile(TUNING_TMPFILES_PATH, "tuning", "tuning/tmpfiles.conf.j2"))
    if by_path or tuning.raised_sysctls or tuning.swap_off:
        files.append(PlannedFile(TUNING_UNIT_PATH, "tuning", "tuning/tuning.service.j2"))
    return tuple(files)


def _hugepages_files(numa_nodes: Sequence[NumaNodePlan]) -> tuple[PlannedFile, ...]:
    if not any(node.hugepages for node in numa_nodes):
        return ()
    return (PlannedFile(HUGEPAGES_TMPFILES_PATH, "hugepages", "hugepages/tmpfiles.conf.j2"),)


def mig_files(mig: MigPlan) -> tuple[PlannedFile, ...]:
    """Return the files that cut the GPUs after a boot; none where the GPU operator does that."""
    if not mig.gpus or mig.managed_by == "gpu-operator":
        return ()
    return (
        PlannedFile(MIG_LIBRARY_PATH, "mig", "mig/pynvml.py.j2"),
        PlannedFile(MIG_WORKER_PATH, "mig", "mig/mig.py.j2"),
        PlannedFile(MIG_UNIT_PATH, "mig", "mig/mig.service.j2"),
    )


def _kubelet_files(kubelet: KubeletPlan) -> tuple[PlannedFile, ...]:
    if kubelet.drop_in is None:
        settings = [PlannedFile(kubelet.config_file, "kubelet", None)]
    else:
        # The CIS benchmark wants kubelet configuration readable by root alone.
        settings = [PlannedFile(kubelet.drop_in, "kubelet", "kubelet/drop-in.conf.j2", mode="0600")]
        if kubelet.exec_start is not None:
            unit_drop_in = f"{_unit_folder(kubelet)}/{DROP_IN_NAME}"
            settings.append(PlannedFile(unit_drop_in, "kubelet", "kubelet/unit.conf.j2"))
    if kubelet.settings.get("memoryManagerPolicy") == "Static":
        script, drop_in = memory_state_paths(kubelet)
        settings += [
            PlannedFile(script, "kubelet", "kubelet/memory-state.sh.j2"),
            PlannedFile(drop_in, "kubelet", "kubelet/memory-state.conf.j2"),
        ]
    return tuple(settings)


def memory_state_paths(kubelet: KubeletPlan) -> tuple[str, str]:
    """Return the script that puts the memory manager's state aside after a boot, and what has it run."""
    return MEMORY_STATE_SCRIPT_PATH, f"{_unit_folder(kubelet)}/91-numaforge-memory-state.conf"


def _unit_folder(kubelet: KubeletPlan) -> str:
    return f"/etc/systemd/system/{kubelet.unit}.d"
