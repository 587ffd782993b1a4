"""Rules about NVLink: its fabric, the daemons that run it, and memory shared with other hosts."""

from collections.abc import Collection, Iterator

from numaforge.findings import scope
from numaforge.findings.engine import Applicability, Seen, within
from numaforge.findings.gpus.nvidia_boards import HGX_BLACKWELL, NVLINKS
from numaforge.findings.rules import machine_rule
from numaforge.lib.ordering import grouped
from numaforge.machine.topology.gpu_models import RACK
from numaforge.machine.topology.model import FabricState, Gpu, NodeTopology

_FABRIC_MANAGER, _NVLSM, _IMEX = "nv-fabricmanage", "nvlsm", "nvidia-imex"  # as the kernel cuts their names


def _needs_fabric_manager(machine: NodeTopology) -> Applicability:
    """Return whether this host must run a fabric manager.

    True with NVSwitches: as PCI functions up to the third generation (HGX A100, H100, H200), and on the
    baseboards of B100, B200 and B300. Racks have theirs in separate trays.
    """
    gpus = scope.own_gpus(machine)
    if not gpus:
        return Applicability(False, "this host uses no NVIDIA GPU")
    if any(gpu.device in RACK for gpu in gpus):
        return Applicability(False, "the NVSwitches of the rack have a fabric manager of their own")
    baseboard = any(gpu.device in HGX_BLACKWELL for gpu in gpus)
    if not machine.nvswitches and not baseboard:
        return Applicability(False, "no NVSwitch")
    if not scope.driven(machine):
        return Applicability(None, f"{scope.NO_DRIVER} yet")
    if all(gpu.mig_mode == "enabled" for gpu in gpus):
        return Applicability(None, "every GPU is in MIG mode, in which none has a peer")
    if machine.nvswitches:
        return Applicability(True, f"{len(machine.nvswitches)} NVSwitches")
    if not any(map(scope.on_bare_metal, gpus)):
        return Applicability(None, "the fabric manager of a guest may run beside it")
    return Applicability(True, "a baseboard with NVSwitches of the fourth generation")


def _needs_subnet_manager(machine: NodeTopology) -> Applicability:
    """Return whether the fabric manager needs nvlsm and InfiniBand's modules."""
    where = _needs_fabric_manager(machine)
    if where.applies is not False and not any(gpu.device in HGX_BLACKWELL for gpu in machine.gpus):
        return Applicability(False, "NVSwitches before the fourth generation need none")
    return where


@within(scope.with_own_gpu)
def _in_a_rack(machine: NodeTopology) -> Applicability:
    """Return whether NVLink joins this host with others of a rack."""
    has_rack_gpu = any(gpu.device in RACK for gpu in scope.own_gpus(machine))
    return Applicability(has_rack_gpu, "GPUs of a rack" if has_rack_gpu else "no GPU of a rack")


@within(_in_a_rack)
def _imex_of_the_host(machine: NodeTopology) -> Applicability:
    """Return whether the host shares memory with others of its rack through its own IMEX service."""
    install = scope.nvidia_install(machine)
    if install.daemons is None:
        return Applicability(None, "the host's IMEX service was not looked for")
    enabled = install.imex_service == "enabled"
    return Applicability(enabled, f"the host's own IMEX service is {'enabled' if enabled else 'not enabled'}")


def _runs(machine: NodeTopology, name: str, called: str) -> Iterator[Seen]:
    daemons = scope.nvidia_install(machine).daemons
    if daemons is None:
        yield Seen(unknown="the processes were not captured")
    elif name not in {process.name for process in daemons}:
        yield Seen(f"no process {called} runs, neither on the host nor in a container")


def _subnet_modules(machine: NodeTopology) -> Iterator[Seen]:
    modules = scope.nvidia_install(machine).kernel_modules
    if modules is None:
        yield Seen(unknown="the loaded modules were not captured")
    elif missing := _not_loaded(modules):
        yield Seen(missing)


def _not_loaded(modules: Collection[str]) -> str | None:
    missing = [name for name in ("ib_umad", "mlx5_ib") if name not in modules]
    verb = "is" if len(missing) == 1 else "are"
    return f"{' and '.join(missing)} {verb} not loaded" if missing else None


def _fits(machine: NodeTopology, prefix: str) -> Iterator[Seen]:
    """Yield packages of this name with another version than the driver's."""
    install = scope.nvidia_install(machine)
    versions = {
        name: version for name, version in (install.packages or {}).items() if name.startswith(prefix)
    }
    if install.packages is None or install.loaded is None:
        yield Seen(unknown="the versions of packages were not asked for")
    elif not versions:
        yield Seen(unknown="it is not installed as a package of this host")
    for name, version in versions.items():
        if version != install.loaded is not None:
            yield Seen(f"{name} is {version}, the driver is {install.loaded}")


def _without_mig(gpu: Gpu) -> bool:
    """Return whether the GPU talks to its peers: none in MIG mode does."""
    return gpu.mig_mode != "enabled"


def _in_fabric(gpu: Gpu) -> bool:
    return gpu.fabric_state is not None and _without_mig(gpu)


_with_fabric = scope.with_answer(_in_fabric, none="no GPU outside MIG mode has a fabric")


def _registered(gpu: Gpu) -> FabricState | None:
    """Return the registration; a completed one needs its status."""
    state = gpu.fabric_state
    return None if state is None or (state.state == "completed" and state.status is None) else state


def _unsound(fabric: FabricState) -> str | None:
    if fabric.state != "completed":
        return f"its registration is {fabric.state}"
    status = fabric.status or ""
    return None if status.lower() == "success" else f"its registration completed with: {status}"


_registrations = scope.one_value(
    _in_fabric, _registered, _unsound, unknown="the driver does not report the registration"
)


def _registration(machine: NodeTopology) -> Iterator[Seen]:
    """Yield registrations that failed; without the modules of the subnet manager none succeeds (NG303)."""
    modules = scope.nvidia_install(machine).kernel_modules
    needs = modules is not None and _needs_subnet_manager(machine).applies
    cause = _not_loaded(modules or ()) if needs else None
    for observation in _registrations(machine):
        yield (
            observation._replace(evidence=f"{observation.evidence}: {cause}")
            if observation.evidence and cause
            else observation
        )


_fabric_faults = scope.one_value(
    _in_fabric,
    lambda gpu: gpu.fabric_state.faults if gpu.fabric_state else None,
    lambda faults: ", ".join(faults) or None,
    unknown="the driver does not report the fabric's health",
)


@within(scope.with_driver)
def _with_cliques(machine: NodeTopology) -> Applicability:
    count = sum(gpu.fabric is not None for gpu in scope.answering(machine))
    if not scope.answering(machine):
        return Applicability(None, "neither NVML nor nvidia-smi reported a GPU")
    return Applicability(count > 1, f"{count or 'no'} GPU{'' if count == 1 else 's'} with a clique")


def _cliques(machine: NodeTopology) -> Iterator[Seen]:
    members = grouped(
        (gpu.fabric, gpu.pci_address) for gpu in scope.answering(machine) if gpu.fabric is not None
    )
    if len(members) > 1:
        of_each = "; ".join(f"{clique} has {', '.join(gpus)}" for clique, gpus in sorted(members.items()))
        yield Seen(f"{len(members)} cliques: {of_each}")


def _on_nvlink_board(gpu: Gpu) -> bool:
    """Whether the board joins all links. The same GPU in a workstation has no switches, and no fabric."""
    joined = gpu.device in NVLINKS and (gpu.device not in RACK or gpu.fabric_state is not None)
    return joined and _without_mig(gpu) and scope.on_bare_metal(gpu)


def _links(gpu: Gpu) -> tuple[int, int] | None:
    return None if gpu.nvlinks is None else (gpu.nvlinks, NVLINKS[gpu.device])


_links_down = scope.one_value(
    _on_nvlink_board,
    _links,
    lambda links: f"{links[0]} of {links[1]} NVLinks are up" if links[0] < links[1] else None,
    unknown="the number of active NVLinks is unknown",
)


@within(_in_a_rack)
def _compute_domains(machine: NodeTopology) -> Applicability:
    registered = scope.nvidia_install(machine).compute_domains
    if registered is None:
        return Applicability(None, "the kubelet's plugins were not captured")
    if not registered:
        return Applicability(False, "the DRA driver for ComputeDomains is not here")
    return Applicability(True, "the DRA driver for ComputeDomains is here")


def _two_imex_daemons(machine: NodeTopology) -> Iterator[Seen]:
    daemons = scope.nvidia_install(machine).daemons
    if daemons is None:
        yield Seen(unknown="the processes were not captured")
        return
    imex = [process for process in daemons if process.name == _IMEX]
    if any(process.pod for process in imex) and any(process.unit for process in imex):
        yield Seen("an nvidia-imex of a pod and one of the host run side by side")


def _enabled_beside_pods(machine: NodeTopology) -> Iterator[Seen]:
    install = scope.nvidia_install(machine)
    if install.imex_service != "enabled" or install.imex_commands:
        return
    if install.imex_commands is None:
        yield Seen(unknown="whether the host's daemon takes commands was not captured")
    else:
        yield Seen("nvidia-imex.service is enabled, and takes no commands of the DRA driver")


def _no_imex_nodes(machine: NodeTopology) -> Iterator[Seen]:
    nodes = scope.nvidia_install(machine).imex_nodes
    if nodes is None:
        yield Seen(unknown="its list of nodes was not captured")
    elif nodes == 0:
        yield Seen("nvidia-imex.service is enabled, and its list of nodes is empty")


RULES = (
    machine_rule("NG203", _needs_fabric_manager, lambda machine: _fits(machine, "nvidia-fabric")),
    machine_rule("NG204", _imex_of_the_host, lambda machine: _fits(machine, "nvidia-imex")),
    machine_rule(
        "NG301", _needs_fabric_manager, lambda machine: _runs(machine, _FABRIC_MANAGER, "nv-fabricmanager")
    ),
    machine_rule("NG302", _needs_subnet_manager, lambda machine: _runs(machine, _NVLSM, "nvlsm")),
    machine_rule("NG303", _needs_subnet_manager, _subnet_modules),
    machine_rule("NG304", _with_fabric, _registration),
    machine_rule("NG305", _with_fabric, _fabric_faults),
    machine_rule(
        "NG306",
        scope.with_answer(_on_nvlink_board, none="no GPU whose number of links is given by its board"),
        _links_down,
    ),
    machine_rule("NG307", _compute_domains, _two_imex_daemons),
    machine_rule("NG308", _imex_of_the_host, _no_imex_nodes),
    machine_rule("NG309", _with_cliques, _cliques),
    machine_rule("NG310", _compute_domains, _enabled_beside_pods),
)
