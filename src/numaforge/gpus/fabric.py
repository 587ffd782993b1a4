"""Rules about NVLink: its fabric, the daemons that run it, and memory shared with other hosts."""

from __future__ import annotations

from collections.abc import Iterator

from numaforge.findings import Applicability, MachineRule, Seen, Severity
from numaforge.gpus import scope
from numaforge.gpus.boards import NVLINKS, RACK
from numaforge.gpus.driver import NVML
from numaforge.topology.model import FabricState, Gpu, GpuProcess, NodeTopology, NvidiaInstall

_PROCESSES = "/proc"


def _daemons(machine: NodeTopology) -> tuple[GpuProcess, ...] | None:
    return machine.nvidia_install.daemons if machine.nvidia_install else None


def _runs(machine: NodeTopology, name: str, called: str) -> Iterator[Seen]:
    daemons = _daemons(machine)
    if daemons is None:
        yield Seen(unknown="the processes were not captured")
    elif name not in {process.name for process in daemons}:
        yield Seen(f"no process {called} runs, neither on the host nor in a container")


def _subnet_modules(machine: NodeTopology) -> Iterator[Seen]:
    modules = machine.nvidia_install.kernel_modules if machine.nvidia_install else None
    if modules is None:
        yield Seen(unknown="the loaded modules were not captured")
        return
    missing = [name for name in ("ib_umad", "mlx5_ib") if name not in modules]
    if missing:
        yield Seen(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not loaded")


def _in_fabric(gpu: Gpu) -> bool:
    return gpu.fabric_state is not None and scope.without_mig(gpu)


def _registered(gpu: Gpu) -> FabricState | None:
    """Return the registration; one that is completed tells nothing without its status."""
    found = gpu.fabric_state
    return None if found is None or (found.state == "completed" and found.status is None) else found


def _unsound(found: FabricState) -> str | None:
    if found.state != "completed":
        return f"its registration is {found.state}"
    status = found.status or ""
    return None if status.lower() == "success" else f"its registration completed with: {status}"


_registration = scope.each(
    _in_fabric, _registered, _unsound, unknown="the driver does not tell how the registration went"
)


def _told_faults(gpu: Gpu) -> tuple[str, ...] | None:
    return None if gpu.fabric_state is None else gpu.fabric_state.faults


_fabric_faults = scope.each(
    _in_fabric,
    _told_faults,
    lambda faults: ", ".join(faults) or None,
    unknown="the driver does not tell the health of the fabric",
)


def _on_nvlink_board(gpu: Gpu) -> bool:
    """Whether the board joins all links. The same GPU in a workstation has no switches, and no fabric."""
    joined = gpu.device in NVLINKS and (gpu.device not in RACK or gpu.fabric_state is not None)
    return joined and scope.without_mig(gpu) and scope.on_bare_metal(gpu)


def _links(gpu: Gpu) -> tuple[int, int] | None:
    return None if gpu.nvlinks is None else (gpu.nvlinks, NVLINKS[gpu.device])


def _down(links: tuple[int, int]) -> str | None:
    up, expected = links
    return f"{up} of {expected} NVLinks are up" if up < expected else None


_links_down = scope.each(_on_nvlink_board, _links, _down, unknown="the number of active NVLinks was not told")


def _compute_domains(machine: NodeTopology) -> Applicability:
    where = scope.in_a_rack(machine)
    if not where.applies:
        return where
    registered = (machine.nvidia_install or NvidiaInstall()).compute_domains
    if registered is None:
        return Applicability(None, "the kubelet's plugins were not captured")
    if not registered:
        return Applicability(False, "the DRA driver for ComputeDomains is not here")
    return Applicability(True, "the DRA driver for ComputeDomains is here")


def _two_imex_daemons(machine: NodeTopology) -> Iterator[Seen]:
    daemons = _daemons(machine)
    if daemons is None:
        yield Seen(unknown="the processes were not captured")
        return
    imex = [process for process in daemons if process.name == scope.IMEX]
    if any(process.pod for process in imex) and any(process.unit for process in imex):
        yield Seen("an nvidia-imex of a pod and one of the host run side by side")


def _no_imex_nodes(machine: NodeTopology) -> Iterator[Seen]:
    nodes = machine.nvidia_install.imex_nodes if machine.nvidia_install else None
    if nodes is None:
        yield Seen(unknown="its list of nodes was not captured")
    elif nodes == 0:
        yield Seen("nvidia-imex.service is enabled, and its list of nodes is empty")


RULES: tuple[MachineRule[NodeTopology], ...] = (
    MachineRule(
        "NG301",
        Severity.ERROR,
        "the fabric manager does not run",
        "with NVSwitches: HGX A100, H100, H200, B100, B200, B300; no racks, no cards",
        _PROCESSES,
        "install the fabric manager of exactly the driver's version and enable nvidia-fabricmanager.service",
        scope.needs_fabric_manager,
        lambda machine: _runs(machine, scope.FABRIC_MANAGER, "nv-fabricmanager"),
    ),
    MachineRule(
        "NG302",
        Severity.ERROR,
        "the NVLink subnet manager does not run",
        "with a baseboard of B100, B200 or B300",
        _PROCESSES,
        "install nvlsm and restart nvidia-fabricmanager.service, which starts it",
        scope.needs_subnet_manager,
        lambda machine: _runs(machine, scope.NVLSM, "nvlsm"),
    ),
    MachineRule(
        "NG303",
        Severity.ERROR,
        "modules that the subnet manager needs are not loaded",
        "with a baseboard of B100, B200 or B300",
        "/sys/module",
        "load ib_umad and mlx5_ib at boot (modules-load.d; on Ubuntu they are in linux-modules-extra)",
        scope.needs_subnet_manager,
        _subnet_modules,
    ),
    MachineRule(
        "NG304",
        Severity.ERROR,
        "a GPU is not registered with its NVLink fabric",
        "with a GPU that has a fabric and is not in MIG mode",
        NVML,
        "wait a minute after a boot, then restart the fabric manager and read its log; until it is completed "
        "CUDA answers with error 802. In a rack look at the switch trays",
        scope.told(_in_fabric, none="no GPU outside MIG mode has a fabric"),
        _registration,
    ),
    MachineRule(
        "NG305",
        Severity.WARNING,
        "the NVLink fabric has a fault",
        "with a GPU that has a fabric and is not in MIG mode",
        NVML,
        "keep big jobs off the node until the links are serviced",
        scope.told(_in_fabric, none="no GPU outside MIG mode has a fabric"),
        _fabric_faults,
    ),
    MachineRule(
        "NG306",
        Severity.ERROR,
        "NVLinks are down",
        "on bare metal with an SXM board or a rack whose number of links is known, no MIG",
        NVML,
        "reset all GPUs of the board together, drained; links that stay down are hardware",
        scope.told(_on_nvlink_board, none="no GPU whose number of links is given by its board"),
        _links_down,
    ),
    MachineRule(
        "NG307",
        Severity.ERROR,
        "two IMEX daemons run",
        "with GPUs of a rack (GB200, GB300) and the DRA driver for ComputeDomains",
        _PROCESSES,
        "`systemctl disable --now nvidia-imex` and `systemctl mask nvidia-imex`: with ComputeDomains the DRA "
        "driver starts the daemon. Or let the driver use the host's (gate HostManagedIMEXDaemon)",
        _compute_domains,
        _two_imex_daemons,
    ),
    MachineRule(
        "NG308",
        Severity.NOTE,
        "the host's IMEX service knows no node",
        "with GPUs of a rack (GB200, GB300) and the host's own IMEX service enabled",
        "/etc/nvidia-imex/nodes_config.cfg",
        "list the nodes that share memory, or disable the service where each node works alone",
        scope.imex_of_the_host,
        _no_imex_nodes,
    ),
)
