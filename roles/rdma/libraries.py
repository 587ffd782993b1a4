"""The settings of NCCL or RCCL, UCX, NVSHMEM and vLLM for the rails."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from numaforge.lib.errors import PlanError
from numaforge.lib.ordering import natural
from numaforge.lib.reasons import Reasoned, Reasons
from numaforge.machine.topology.links import gpu_names
from numaforge.machine.topology.model import Gpu, NodeTopology, RdmaDevice
from numaforge.machine.topology.nics import DEFAULT_ROUTE as EVERYTHING
from numaforge.machine.topology.rails import distance_to_device, rails
from numaforge.machine.topology.vendors import only_amd
from numaforge.roles.rdma import environment as env
from numaforge.roles.rdma import planned
from numaforge.roles.rdma.nccl_conf import plan_conf
from numaforge.roles.rdma.nccl_topology import plan_hidden_switches
from numaforge.roles.rdma.planned import GpuRail, HiddenSwitch, LibrariesPlan
from numaforge.roles.rdma.section import DEFAULT_ROUTE, Libraries

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile

_WHERE = "rdma.libraries"
_MOST_DEVICES = 32  # MAX_IB_DEVS of NCCL, and of RCCL

_NEAR = ("PIX", "PXB")
# NCCL's words for distances, nearest first: it calls NODE PHB (src/graph/paths.cc).
_LEVELS = {"PIX": "PIX", "PXB": "PXB", "PHB": "PHB", "NODE": "PHB", "SYS": "SYS"}
_HIDING = ("passthrough", "vgpu")
_GDR_LEVEL = "NCCL_NET_GDR_LEVEL"
_NVSHMEM_SOURCE = "(NVSHMEM environment variables)"


class Collectives(NamedTuple):
    """The collectives library for a machine's GPUs: both read the same variables, but different files."""

    name: str
    conf_path: str
    guide: str


NCCL = Collectives("NCCL", planned.NCCL_CONF_PATH, "NCCL user guide")
RCCL = Collectives("RCCL", planned.RCCL_CONF_PATH, "RCCL environment variables")


class _Fabric(NamedTuple):
    """The used devices in rail order, and those nearest to each GPU with their distance."""

    devices: tuple[RdmaDevice, ...]
    near: tuple[tuple[Gpu, str, tuple[RdmaDevice, ...]], ...]
    unknown: tuple[Gpu, ...]
    gpus: int
    hidden: bool  # the virtual machine does not see its devices' PCI tree
    library: Collectives


def plan_libraries(
    topology: NodeTopology, profile: NodeProfile, earlier: LibrariesPlan
) -> Reasoned[LibrariesPlan]:
    """Return the settings of each library; what the machine does not show is left out, with a notice.

    Raises PlanError for an interface, a device or a PCI address that this machine does not have, and for an
    admin's /etc/nccl.conf that contradicts the settings.
    """
    wish, reasons = profile.rdma.libraries, Reasons()
    library = RCCL if only_amd(topology.gpus) else NCCL
    if not wish.asked:
        return reasons.of(plan_conf(topology, LibrariesPlan(conf_path=library.conf_path), earlier, reasons))
    switches = plan_hidden_switches(topology, wish)
    fabric = _fabric(topology, wish, switches, library, reasons)
    ports = tuple(port for device in fabric.devices for port in _ports(device))
    gpus = _gpu_rails(topology, fabric, reasons)
    plan = LibrariesPlan(
        network=wish.network,
        overlay_interface=wish.overlay_interface,
        ports=ports,
        gpus=gpus,
        nccl=_nccl(topology, profile, fabric, ports, bool(switches), reasons),
        variables=_variables(wish, fabric, ports, gpus, reasons),
        hidden_switches=switches,
        nccl_conf=wish.nccl_conf,
        env_file=wish.env_file,
        conf_path=library.conf_path,
    )
    return reasons.of(plan_conf(topology, plan, earlier, reasons))


# ---- devices ----


def _fabric(
    topology: NodeTopology,
    wish: Libraries,
    switches: Sequence[HiddenSwitch],
    library: Collectives,
    reasons: Reasons,
) -> _Fabric:
    by_name = {device.name: device for device in topology.rdma_devices}
    _refuse_unknown(wish.more_devices, by_name)
    functions = {device.pci_address for device in topology.rdma_devices if device.pci_address is not None}
    # without virtual functions beside their own NIC
    candidates = [rail.device for rail in rails(topology) if rail.device.physical_function not in functions]
    near, unknown = [], []
    for gpu in sorted(topology.gpus, key=lambda gpu: gpu.pci_address):
        distance, devices = _nearest(gpu, candidates, topology, switches)
        if distance is None:
            unknown.append(gpu)
        else:
            near.append((gpu, distance, devices))
    on_rails = [device for *_, devices in near for device in devices] if topology.gpus else candidates
    more = [by_name[name] for name in wish.more_devices]
    devices = tuple(
        device
        for device in {one.name: one for one in (*on_rails, *more)}.values()
        if _is_up(device, reasons, asked=device in more)
    )
    hidden = any(gpu.virtualization in _HIDING for gpu in topology.gpus) and not any(
        distance in _NEAR for _, distance, _ in near
    )
    unused = [device.name for device in candidates if device not in on_rails and device not in more]
    if unused and near:
        reasons.notice(
            "device-on-no-rail",
            f"{', '.join(unused)}: nearest to no GPU, as storage NICs are, and so left out; what is to be "
            f"used none the less goes into {_WHERE}.more_devices",
        )
    if len(devices) > _MOST_DEVICES:
        reasons.notice(
            "nccl-device-limit",
            f"{library.name} uses the first {_MOST_DEVICES} of {len(devices)} RDMA devices",
        )
    used = tuple(
        (gpu, distance, up)
        for gpu, distance, nearest in near
        if (up := tuple(device for device in nearest if device in devices))
    )
    return _Fabric(devices, used, tuple(unknown), len(topology.gpus), hidden, library)


def _nearest(
    gpu: Gpu, devices: Sequence[RdmaDevice], topology: NodeTopology, switches: Sequence[HiddenSwitch]
) -> tuple[str | None, tuple[RdmaDevice, ...]]:
    """Return the distance to the nearest devices, and these devices; for hidden switches, by the profile."""
    for switch in switches:
        if gpu.pci_address in switch.gpus:
            below = tuple(device for device in devices if device.pci_address in switch.nics)
            if below:
                return "PIX", below
    if switches and gpu.virtualization in _HIDING:
        return None, ()  # the profile has no NIC for this GPU, and the guest's own tree shows nothing
    distances = {device.name: distance_to_device(gpu, device, topology) for device in devices}
    for distance in _LEVELS:
        nearest = tuple(device for device in devices if distances[device.name] == distance)
        if nearest:
            return distance, tuple(sorted(nearest, key=lambda device: natural(device.name)))
    return None, ()


def _is_up(device: RdmaDevice, reasons: Reasons, *, asked: bool) -> bool:
    """Return whether a device has a port that is up; a port of unknown state counts as up."""
    if _ports(device):
        return True
    states = ", ".join(f"port {port.number} is {port.state}" for port in device.ports) or "it has no port"
    reasons.notice(
        "rail-down",
        f"{device.name} is left out{'' if asked else ', and with it a rail'}: {states}; bring the link up "
        "and run again",
    )
    return False


def _ports(device: RdmaDevice) -> tuple[str, ...]:
    return tuple(f"{device.name}:{port.number}" for port in device.ports if port.state in ("ACTIVE", None))


def _refuse_unknown(names: Sequence[str], by_name: dict[str, RdmaDevice]) -> None:
    for name in names:
        if name not in by_name:
            raise PlanError(
                f"there is no RDMA device {name}",
                where=f"{_WHERE}.more_devices",
                remedy=f"this machine has {', '.join(sorted(by_name, key=natural)) or 'none'}",
            )
        if by_name[name].management:
            raise PlanError(
                f"{name} manages NVSwitches and carries no traffic of workloads",
                where=f"{_WHERE}.more_devices",
                remedy="leave it out",
            )


def _gpu_rails(topology: NodeTopology, fabric: _Fabric, reasons: Reasons) -> tuple[GpuRail, ...]:
    names = gpu_names(topology.gpus)
    if fabric.unknown and topology.rdma_devices:
        reasons.notice(
            "rail-unknown",
            f"{', '.join(names[gpu.pci_address] for gpu in fabric.unknown)}: the machine does not show how "
            "far RDMA devices are, so no rail is set",
        )
    if fabric.hidden:
        reasons.notice(
            "pci-tree-hidden",
            "this virtual machine does not show which NIC is near which GPU: nothing is set per GPU; enter "
            f"the provider's data in {_WHERE}.pcie_switches or {_WHERE}.topology_file",
        )
        return ()
    rails = (
        GpuRail(names[gpu.pci_address], gpu.pci_address, tuple(p for one in devices for p in _ports(one)))
        for gpu, _, devices in fabric.near
    )
    return tuple(sorted(rails, key=lambda rail: natural(rail.gpu)))


# ---- NCCL ----


def _nccl(
    topology: NodeTopology,
    profile: NodeProfile,
    fabric: _Fabric,
    ports: Sequence[str],
    written: bool,
    reasons: Reasons,
) -> dict[str, str]:
    wish, guide = profile.rdma.libraries, fabric.library.guide
    settings: dict[str, str] = {}

    def choose(name: str, value: str, reason: str) -> None:
        settings[name] = value
        reasons.decide(f"{_WHERE}.{name}", value, reason)

    for name, value in wish.nccl.items():
        choose(name, value, profile.choice(f"{_WHERE}.nccl.{name}"))
    interface = _interface(topology, wish.socket_interface, reasons)
    if interface:
        choose(env.SOCKET_IFNAME, env.exactly([interface[0]]), f"{interface[1]} ({guide})")
    if ports:
        choose(
            env.IB_HCA,
            env.exactly(ports),
            "the ports of the rails in the order of their GPUs, by their exact names: without the sign "
            f"mlx5_1 means mlx5_10 as well ({guide})",
        )
    elif topology.rdma_devices:
        reasons.notice("no-rails", f"no RDMA device is known to be near a GPU: {env.IB_HCA} is left out")
    only_dma_buf = fabric.library is RCCL and bool(ports) and not topology.peer_memory.clients
    if only_dma_buf and env.DMABUF_ENABLE not in settings:
        choose(
            env.DMABUF_ENABLE,
            "1",
            "no peer memory client of amdkfd is there, and RCCL before ROCm 7 leaves DMA-BUF off by default "
            "(src/misc/rocmwrap.cc)",
        )
    level = _gdr_level(topology, profile, fabric, reasons)
    if level:
        choose(_GDR_LEVEL, *level)
        if level[0] == _default(fabric.library):
            del settings[_GDR_LEVEL]
    file = planned.NCCL_TOPOLOGY_PATH if written else wish.topology_file
    if file.startswith("/"):
        reason = "written from pcie_switches" if written else profile.choice(f"{_WHERE}.topology_file")
        choose("NCCL_TOPO_FILE", file, f"{reason}; pods need it mounted ({guide})")
    return dict(sorted(settings.items()))


def _interface(topology: NodeTopology, wish: str, reasons: Reasons) -> tuple[str, str] | None:
    """Return the interface on which NCCL sets up its connections, and the reason."""
    if wish == DEFAULT_ROUTE:
        for network in topology.networks:
            if network.network == EVERYTHING:
                return network.interface, "the interface of the default route"
        reasons.notice(
            "no-default-route",
            f"the machine shows no IPv4 default route: {env.SOCKET_IFNAME} is left out; name the interface "
            f"in {_WHERE}.socket_interface",
        )
        return None
    if "/" in wish:
        return _in_network(topology, IPv4Network(wish)), f"the interface that is in {wish}"
    interfaces = {one.interface for one in topology.networks} | {
        nic.interface for nic in topology.nics if nic.interface
    }
    if topology.networks and wish not in interfaces:
        raise PlanError(
            f"there is no interface {wish} with an IPv4 network",
            where=f"{_WHERE}.socket_interface",
            remedy=f"this machine has {', '.join(sorted(interfaces, key=natural))}",
        )
    return wish, "the profile's choice"


def _in_network(topology: NodeTopology, inside: IPv4Network) -> str:
    """Return the only interface with a network within `inside`."""
    networks = [one for one in topology.networks if one.network != EVERYTHING]
    matching = sorted({one.interface for one in networks if IPv4Network(one.network).subnet_of(inside)})
    if len(matching) != 1:
        listing = ", ".join(f"{one.interface} {one.network}" for one in networks) or "none that was read"
        raise PlanError(
            f"{', '.join(matching)} are all in {inside}" if matching else f"no interface is in {inside}",
            where=f"{_WHERE}.socket_interface",
            remedy=f"name the interface, or a network that one of them is in: {listing}",
        )
    return matching[0]


def _default(library: Collectives) -> str:
    return f"{library.name}'s default"


def _gdr_level(
    topology: NodeTopology, profile: NodeProfile, fabric: _Fabric, reasons: Reasons
) -> tuple[str, str] | None:
    """Return the level and its reason; NCCL's default is named but not written. None where unknown."""
    wish, name = profile.rdma.libraries.gdr_level, fabric.library.name
    if wish != "auto":
        return wish, profile.choice(f"{_WHERE}.gdr_level")
    if not fabric.near or fabric.unknown or fabric.hidden:
        return None
    if any(gpu.memory_numa_node is not None or gpu.addressing_mode == "ats" for gpu in topology.gpus):
        return (
            _default(fabric.library),
            "C2C attaches the GPUs to their CPUs, P2C to NCCL: setting a level would lower it (NCCL 2.27)",
        )
    farthest = max((distance for _, distance, _ in fabric.near), key=list(_LEVELS).index)
    if farthest in _NEAR:
        near_enough = f"it is PXB, and no GPU is farther than {farthest} from its device"
        return _default(fabric.library), f"{near_enough} ({fabric.library.guide})"
    why = _no_gpudirect(topology, fabric.library)
    if why:
        reasons.notice(
            "gdr-level-left",
            f"a GPU is {farthest} from its nearest RDMA device, where {name} copies through the host; the "
            f"level is not raised: {why}, so GPUDirect cannot be counted on",
        )
        return None
    return (
        _LEVELS[farthest],
        f"a GPU is {farthest} from its nearest device, and {name}'s default PXB would copy through the host",
    )


def _no_gpudirect(topology: NodeTopology, library: Collectives) -> str | None:
    """Return why NICs may not reach GPU memory; None where they can, by DMA-BUF or peer memory."""
    if library is RCCL:
        kernel = "whether this kernel has PCI_P2PDMA and DMABUF_MOVE_NOTIFY is not known"
        return None if topology.peer_memory.clients else f"amdkfd is not a peer memory client, and {kernel}"
    install = topology.nvidia_install
    if install is None:
        return "the driver is not known"
    if install.open_module or "nvidia_peermem" in (install.kernel_modules or ()):
        return None
    if install.open_module is None or install.kernel_modules is None:
        return "the driver is not known"
    return "neither the open kernel module nor nvidia_peermem is loaded"


# ---- the other libraries ----


def _variables(
    wish: Libraries, fabric: _Fabric, ports: Sequence[str], gpus: Sequence[GpuRail], reasons: Reasons
) -> dict[str, str]:
    mapping = _vllm(fabric, gpus, reasons) if wish.vllm else {}
    chosen = dict(mapping)
    if ports and wish.ucx and not mapping:
        chosen[env.UCX_DEVICES] = (
            ",".join(ports),
            "the ports of the rails; UCX takes no sign before names (UCX FAQ)",
        )
    if wish.nvshmem and fabric.library is RCCL:
        reasons.notice(
            "nvshmem-left", "NVSHMEM is for NVIDIA's GPUs: it is not set; leave nvshmem out on AMD's"
        )
    nvshmem = gpus and fabric.library is NCCL
    if nvshmem and (wish.nvshmem or mapping):
        chosen[env.NVSHMEM_MAPPING] = (
            "1",
            f"NVSHMEM passes over its list of devices without it {_NVSHMEM_SOURCE}",
        )
    if nvshmem and wish.nvshmem and not mapping:
        chosen.update(_nvshmem(_own_ports(gpus)))
    for name, (value, reason) in chosen.items():
        reasons.decide(f"{_WHERE}.{name}", value, reason)
    return {name: value for name, (value, _) in sorted(chosen.items())}


def _own_ports(gpus: Sequence[GpuRail]) -> list[str]:
    """Return one port for each GPU; GPUs near the same ports take them in turn."""
    turns: dict[tuple[str, ...], int] = {}
    chosen = []
    for rail in gpus:
        turn = turns.get(rail.ports, 0)
        turns[rail.ports] = turn + 1
        chosen.append(rail.ports[turn % len(rail.ports)])
    return chosen


def _nvshmem(chosen: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return the ports that processes take in turn, or, where GPUs share one, the processes per port."""
    if len(set(chosen)) == len(chosen):
        reason = "a port for each GPU: processes in the order of the GPUs take them in turn"
        return {env.NVSHMEM_LIST: (",".join(chosen), f"{reason} {_NVSHMEM_SOURCE}")}
    counted = ",".join(f"{port}:{len(list(group))}" for port, group in groupby(chosen))
    reason = "how many processes, in the order of the GPUs, take each port"
    return {env.NVSHMEM_COUNTS: (counted, f"{reason} {_NVSHMEM_SOURCE}")}


def _vllm(fabric: _Fabric, gpus: Sequence[GpuRail], reasons: Reasons) -> dict[str, tuple[str, str]]:
    """Return the pairs of GPU and NIC; a worker whose GPU is not among them does not start."""
    addresses = {port: device.pci_address for device in fabric.devices for port in _ports(device)}
    chosen = _own_ports(gpus)
    numbers = {port.rpartition(":")[2] for port in chosen}
    problem = None
    if not gpus or len(gpus) < fabric.gpus:
        problem = "not every GPU's device is known, and a worker without one does not start"
    elif not all(addresses[port] for port in chosen):
        problem = "a device has no PCI address"
    elif len(numbers) > 1:
        problem = "the devices use different ports, and vLLM gives all of them the same number"
    if problem:
        reasons.notice("vllm-mapping-left", f"{env.VLLM_MAPPING} is left out: {problem}")
        return {}
    pairs = ",".join(f"{rail.pci_address}={addresses[port]}" for rail, port in zip(gpus, chosen, strict=True))
    suffix, library = numbers.pop(), fabric.library
    variables = [env.UCX_DEVICES] if library is RCCL else [env.UCX_DEVICES, env.NVSHMEM_LIST]
    return {
        env.VLLM_MAPPING: (pairs, "each GPU with its nearest NIC, by PCI address (vllm-project/vllm#42083)"),
        env.VLLM_VARIABLES: (
            ",".join(f"{name}:{suffix}" for name in variables),
            (
                "vLLM puts each worker's device before what these hold, so they are not set here; "
                f"{library.name} keeps all rails (vllm-project/vllm#42083)"
            ),
        ),
    }
