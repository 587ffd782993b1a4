"""Which files the plan puts on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from numaforge.planning.existing import DROP_IN_NAME
from numaforge.planning.kernel_paths import tuning_values
from numaforge.planning.model import (
    PLAN_PATH,
    HostPlan,
    InterruptsPlan,
    KubeletPlan,
    LibrariesPlan,
    MigPlan,
    ModulesPlan,
    PlannedFile,
    PodTuningPlan,
    RdmaPlan,
    SystemPlan,
    TuningPlan,
)

SYSCTL_PATH = "/etc/sysctl.d/90-numaforge.conf"
TUNING_TMPFILES_PATH = "/etc/tmpfiles.d/numaforge-tuning.conf"
TUNING_UNIT_PATH = "/etc/systemd/system/numaforge-tuning.service"
HUGEPAGES_TMPFILES_PATH = "/etc/tmpfiles.d/numaforge-hugepages.conf"
MEMORY_STATE_SCRIPT_PATH = "/usr/local/lib/numaforge/memory-state.sh"
PAM_LIMITS_PATH = "/etc/security/limits.d/90-numaforge.conf"
UPGRADES_PATH = "/etc/apt/apt.conf.d/52numaforge-hold"
SWAP_PATH = "/etc/systemd/system/swap.d/90-numaforge.conf"
CRIO_PATH = "/etc/crio/crio.conf.d/90-numaforge.conf"
MIG_UNIT_PATH = "/etc/systemd/system/numaforge-mig.service"
MIG_WORKER_PATH = "/usr/local/lib/numaforge/mig.py"
MIG_LIBRARY_PATH = "/usr/local/lib/numaforge/pynvml.py"
NCCL_CONF_PATH = "/etc/nccl.conf"
RAILS_ENV_PATH = "/etc/numaforge/rails.env"
NCCL_TOPOLOGY_PATH = "/etc/numaforge/nccl-topology.xml"
LIBRARY_PATHS = (NCCL_TOPOLOGY_PATH, NCCL_CONF_PATH, RAILS_ENV_PATH)

INTERRUPTS_PATH = "/etc/numaforge/interrupts.conf"
INTERRUPTS_SCRIPT_PATH = "/usr/local/lib/numaforge/interrupts.sh"
INTERRUPTS_UNIT = "numaforge-interrupts.service"
INTERRUPTS_UNIT_PATH = f"/etc/systemd/system/{INTERRUPTS_UNIT}"
INTERRUPTS_RULES_PATH = "/etc/udev/rules.d/90-numaforge-interrupts.rules"
IRQBALANCE_OFF_PATH = "/etc/systemd/system/irqbalance.service.d/90-numaforge.conf"
MODULES_LOAD_PATH = "/etc/modules-load.d/90-numaforge.conf"
MODPROBE_PATH = "/etc/modprobe.d/90-numaforge.conf"
NICS_PATH = "/etc/numaforge/nics"
NICS_SCRIPT_PATH = "/usr/local/lib/numaforge/nics.sh"
NICS_UNIT_PATH = "/etc/systemd/system/numaforge-nics.service"
RDMA_GATE_SCRIPT_PATH = "/usr/local/lib/numaforge/rdma-gate.sh"
RDMA_GATE_UNIT_PATH = "/etc/systemd/system/numaforge-rdma-gate.service"


def boot_link(unit_path: str) -> str:
    """Return the link by which systemd starts one of our units at boot."""
    return f"/etc/systemd/system/multi-user.target.wants/{PurePosixPath(unit_path).name}"


def plan_files(
    tuning: TuningPlan, pools: Sequence[Mapping[str, int]], kubelet: KubeletPlan | None
) -> tuple[PlannedFile, ...]:
    """Return the files in the order in which the roles write them; one with nothing to say is left out.

    `pools` are the wanted huge pages by size, of each place that has some.
    """
    return (
        PlannedFile(PLAN_PATH, "topology", None),
        *_tuning_files(tuning),
        *_hugepages_files(pools),
        *(_kubelet_files(kubelet) if kubelet else ()),
    )


def _tuning_files(tuning: TuningPlan) -> tuple[PlannedFile, ...]:
    by_path = bool(tuning_values(tuning))
    files = []
    if tuning.sysctls:
        files.append(PlannedFile(SYSCTL_PATH, "tuning", "tuning/sysctl.conf.j2"))
    if by_path:
        files.append(PlannedFile(TUNING_TMPFILES_PATH, "tuning", "tuning/tmpfiles.conf.j2"))
    if by_path or tuning.raised_sysctls or tuning.swap_off:
        files.append(PlannedFile(TUNING_UNIT_PATH, "tuning", "tuning/tuning.service.j2"))
    return tuple(files)


def _hugepages_files(pools: Sequence[Mapping[str, int]]) -> tuple[PlannedFile, ...]:
    if not any(pools):
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


def library_files(libraries: LibrariesPlan) -> tuple[PlannedFile, ...]:
    """Return the files that tell libraries of the rails."""
    files = []
    if libraries.hidden_switches:
        files.append(PlannedFile(NCCL_TOPOLOGY_PATH, "rdma", "rdma/nccl-topology.xml.j2"))
    if libraries.nccl_conf:
        files.append(PlannedFile(NCCL_CONF_PATH, "rdma", "rdma/nccl.conf.j2"))
    if libraries.env_file:
        files.append(PlannedFile(RAILS_ENV_PATH, "rdma", "rdma/rails.env.j2"))
    return tuple(files)


def host_files(host: HostPlan) -> tuple[PlannedFile, ...]:
    """Return the files of the userland."""
    of_units = bool({"nofile", "stack", "core"} & {*host.limits})
    files = {
        PAM_LIMITS_PATH: ("host/limits.conf.j2", bool(host.limits)),
        **{limits_path(unit): ("host/unit-limits.conf.j2", of_units) for unit in host.limited_units},
        SWAP_PATH: ("host/no-swap.conf.j2", host.swap_off),
        **{no_swap_path(unit): ("host/no-swap.conf.j2", host.swap_off) for unit in host.swap_services},
        UPGRADES_PATH: ("host/hold.conf.j2", bool(host.hold_kinds) and host.package_manager == "apt"),
    }
    return tuple(PlannedFile(path, "host", template) for path, (template, wanted) in files.items() if wanted)


def pod_tuning_files(plan: PodTuningPlan) -> tuple[PlannedFile, ...]:
    """Return the drop-in that tells CRI-O of the runtime class's handler."""
    return (PlannedFile(CRIO_PATH, "host", "host/crio.conf.j2"),) if plan.annotations else ()


def limits_path(unit: str) -> str:
    """Return the drop-in with the limits of a unit."""
    return f"/etc/systemd/system/{unit}.d/90-numaforge-limits.conf"


def no_swap_path(unit: str) -> str:
    """Return the drop-in that keeps a service from making swap."""
    return f"/etc/systemd/system/{unit}.d/90-numaforge.conf"


def interrupts_files(plan: InterruptsPlan) -> tuple[PlannedFile, ...]:
    """Return what sets the interrupts at every boot, and of a driver that is loaded again."""
    files = []
    if plan.devices or plan.rps or plan.default_affinity or plan.workqueues:
        files += [
            PlannedFile(INTERRUPTS_PATH, "interrupts", "interrupts/interrupts.conf.j2"),
            PlannedFile(INTERRUPTS_SCRIPT_PATH, "interrupts", "interrupts/interrupts.sh.j2"),
            PlannedFile(INTERRUPTS_UNIT_PATH, "interrupts", "interrupts/interrupts.service.j2"),
            PlannedFile(INTERRUPTS_RULES_PATH, "interrupts", "interrupts/interrupts.rules.j2"),
        ]
    if plan.irqbalance == "off":
        files.append(PlannedFile(IRQBALANCE_OFF_PATH, "interrupts", "interrupts/irqbalance.conf.j2"))
    return tuple(files)


def system_files(plan: SystemPlan) -> tuple[PlannedFile, ...]:
    """Return the drop-ins that confine the slices from the next boot on."""
    return tuple(PlannedFile(slice_path(name), "system", "system/slice.conf.j2") for name in plan.slices)


def slice_path(name: str) -> str:
    """Return the drop-in of a slice or scope such as "system.slice"."""
    return f"/etc/systemd/system/{name}.d/90-numaforge.conf"


def modules_files(modules: ModulesPlan, reboot: str) -> tuple[PlannedFile, ...]:
    """Return the files that load modules at boot, and those with their options.

    The modules of the first are loaded now, and a boot is no news of them; the second waits for a boot.
    """
    files = []
    if modules.load:
        files.append(PlannedFile(MODULES_LOAD_PATH, "modules", "modules/modules-load.conf.j2"))
    if modules.options or modules.blocked:
        waits = reboot != "allowed"
        files.append(PlannedFile(MODPROBE_PATH, "modules", "modules/modprobe.conf.j2", waits=waits))
    return tuple(files)


def rdma_files(rdma: RdmaPlan) -> tuple[PlannedFile, ...]:
    """Return the files of what RDMA needs of the host."""
    host = rdma.host
    files = [PlannedFile(memlock_path(unit), "rdma", "rdma/memlock.conf.j2") for unit in host.memlock_units]
    if host.nics:
        files += [
            PlannedFile(NICS_PATH, "rdma", "rdma/nics.j2"),
            PlannedFile(NICS_SCRIPT_PATH, "rdma", "rdma/nics.sh.j2"),
            PlannedFile(NICS_UNIT_PATH, "rdma", "rdma/nics.service.j2"),
        ]
    if host.gate:
        files += [
            PlannedFile(RDMA_GATE_SCRIPT_PATH, "rdma", "rdma/gate.sh.j2"),
            PlannedFile(RDMA_GATE_UNIT_PATH, "rdma", "rdma/gate.service.j2"),
        ]
    return tuple(files)


def memlock_path(unit: str) -> str:
    """Return the drop-in of a unit that lets it pin as much memory as it wants."""
    return f"/etc/systemd/system/{unit}.d/92-numaforge-memlock.conf"


def _kubelet_files(kubelet: KubeletPlan) -> tuple[PlannedFile, ...]:
    if kubelet.delivery == "none":
        settings = []
    elif kubelet.drop_in is None:
        settings = [PlannedFile(kubelet.config_file, "kubelet", None)]
    else:
        # The CIS benchmark wants kubelet configuration readable by root alone.
        settings = [PlannedFile(kubelet.drop_in, "kubelet", "kubelet/drop-in.conf.j2", mode="0600")]
    if kubelet.exec_start is not None:
        settings.append(PlannedFile(_unit_drop_in(kubelet), "kubelet", "kubelet/unit.conf.j2"))
    if kubelet.settings.get("memoryManagerPolicy") == "Static":
        script, drop_in = memory_state_paths(kubelet)
        settings += [
            PlannedFile(script, "kubelet", "kubelet/memory-state.sh.j2"),
            PlannedFile(drop_in, "kubelet", "kubelet/memory-state.conf.j2"),
        ]
    return tuple(settings)


def handed_back_paths(kubelet: KubeletPlan) -> tuple[str, ...]:
    """Return the files by which the kubelet was told of our settings, where it is told of none any more."""
    if kubelet.delivery != "none":
        return ()
    return (*filter(None, [kubelet.drop_in]), *(() if kubelet.exec_start else (_unit_drop_in(kubelet),)))


def memory_state_paths(kubelet: KubeletPlan) -> tuple[str, str]:
    """Return the script that puts the memory manager's state aside after a boot, and what has it run."""
    return MEMORY_STATE_SCRIPT_PATH, f"{_unit_folder(kubelet)}/91-numaforge-memory-state.conf"


def _unit_drop_in(kubelet: KubeletPlan) -> str:
    return f"{_unit_folder(kubelet)}/{DROP_IN_NAME}"


def _unit_folder(kubelet: KubeletPlan) -> str:
    return f"/etc/systemd/system/{kubelet.unit}.d"
