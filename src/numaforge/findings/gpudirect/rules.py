"""Rules about GPUDirect RDMA: distances, access control, the IOMMU, the driver, links."""

import re
from collections.abc import Iterator

from numaforge.findings.engine import Applicability, Seen, within
from numaforge.findings.gpudirect import scope
from numaforge.findings.gpudirect.access_control import Layout, misconfigured, nics, required_control
from numaforge.findings.rules import machine_rule
from numaforge.findings.scope import own_gpus
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import format_bytes
from numaforge.machine.topology.gpu_models import GRACE
from numaforge.machine.topology.links import gpu_names, is_direct_nic
from numaforge.machine.topology.model import Gpu, NodeTopology, PciFunction
from numaforge.machine.topology.rails import distance_to_device

NCCL = "NCCL, paths.cc: NCCL_NET_GDR_LEVEL is PXB by default, P2C beside Grace"
_NEAR = ("PIX", "PXB")
_NCCL_CONF = "/etc/nccl.conf"
_TOPOLOGY_FILE = re.compile(r"^[ \t]*NCCL_TOPO_FILE[ \t]*=", re.MULTILINE)
_DATA_DIRECT_OFF = re.compile(r"^[ \t]*NCCL_IB_DATA_DIRECT[ \t]*=[ \t]*0[ \t]*$", re.MULTILINE)
_ORDER = ("PIX", "PXB", "PHB", "NODE", "SYS")


def _best(machine: NodeTopology, gpu: Gpu) -> str | None:
    """Return the distance to the nearest NIC; None where one that could be nearer is not known."""
    distances = [distance_to_device(gpu, nic, machine) for nic in nics(machine)]
    known_distances = [distance for distance in distances if distance is not None]
    best = min(known_distances, key=_ORDER.index, default=None)
    return best if best in _NEAR or len(known_distances) == len(distances) else None


def _functions(machine: NodeTopology) -> dict[str, PciFunction]:
    return {function.pci_address: function for function in machine.pci_functions}


def _ends(machine: NodeTopology) -> list[PciFunction]:
    """Return the functions of GPUs and NICs."""
    concerned = {gpu.pci_address for gpu in machine.gpus} | {nic.pci_address for nic in nics(machine)}
    return [function for function in machine.pci_functions if function.pci_address in concerned]


def _label(machine: NodeTopology, gpu: Gpu) -> str:
    return f"{gpu_names(machine.gpus)[gpu.pci_address]} {gpu.pci_address}"


def _too_far(machine: NodeTopology) -> Iterator[Seen]:
    direct = required_control(machine).direct.values()
    for gpu in machine.gpus:
        best = _best(machine, gpu)
        allowed = (*_NEAR, "PHB", "NODE") if gpu.device in GRACE else _NEAR
        if best is None:
            yield Seen(unknown="the firmware does not report distances between GPUs and NICs")
        elif best not in allowed and best != "SYS" and gpu.pci_address not in direct:
            yield Seen(f"its nearest NIC is {best}", _label(machine, gpu))


def _wrong_socket(machine: NodeTopology) -> Iterator[Seen]:
    best = {gpu.pci_address: _best(machine, gpu) for gpu in machine.gpus}
    for gpu in machine.gpus:
        if best[gpu.pci_address] is None:
            yield Seen(unknown="the firmware does not report distances between GPUs and NICs")
        elif best[gpu.pci_address] == "SYS":
            near = sum(1 for distance in best.values() if distance not in ("SYS", None))
            counted_near = f", {near} of {len(best)} GPUs have one on their own" if near else ""
            yield Seen(f"its nearest NIC is on another socket{counted_near}", _label(machine, gpu))


def _without_numa_node(machine: NodeTopology) -> Iterator[Seen]:
    if sum(1 for node in machine.numa_nodes if node.cpus) < 2:
        return
    for gpu in machine.gpus:
        if gpu.numa_node is None:
            yield Seen("the firmware does not name its NUMA node", _label(machine, gpu))
    for nic in nics(machine):
        if nic.numa_node is None:
            yield Seen("the firmware does not name its NUMA node", nic.name)


def _hidden_switches(machine: NodeTopology) -> Iterator[Seen]:
    if _TOPOLOGY_FILE.search(machine.nccl_conf or ""):
        return
    best = {gpu.pci_address: _best(machine, gpu) for gpu in machine.gpus}
    if None in best.values():
        yield Seen(unknown="the firmware does not report distances between GPUs and NICs")
    elif not any(distance in _NEAR for distance in best.values()):
        nearest = min((distance for distance in best.values() if distance), key=_ORDER.index)
        yield Seen(f"no GPU has a NIC nearer than {nearest}, and NCCL leaves GPUDirect out")


@within(scope.has_pairs)
def _with_direct_functions(machine: NodeTopology) -> Applicability | None:
    count = sum(map(is_direct_nic, machine.pci_functions))
    if not machine.pci_functions:
        return Applicability(None, "the PCI functions between GPUs and NICs were not captured")
    return None if count else Applicability(False, "no ConnectX-8 Direct")


def _of_no_nic(machine: NodeTopology) -> Iterator[Seen]:
    joined = {nic.data_direct for nic in machine.rdma_devices}
    for function in filter(is_direct_nic, machine.pci_functions):
        if function.pci_address in joined:
            continue
        if function.card is None:
            yield Seen(unknown="its VPD, which names its card, was not captured: it takes root rights")
        else:
            yield Seen("no RDMA device of its card is here", function.pci_address)


def _not_taken(machine: NodeTopology) -> Iterator[Seen]:
    if _DATA_DIRECT_OFF.search(machine.nccl_conf or ""):
        devices = ", ".join(nic.name for nic in machine.rdma_devices if nic.data_direct)
        yield Seen(
            f"it has NCCL_IB_DATA_DIRECT=0, and {devices or 'a NIC here'} has such a function", _NCCL_CONF
        )


def _access_control(machine: NodeTopology) -> Iterator[Seen]:
    for bridge, evidence in misconfigured(machine, required_control(machine)).items():
        yield Seen(evidence, bridge)


def _apart_in_groups(machine: NodeTopology) -> Iterator[Seen]:
    functions = _functions(machine)
    for address, gpu in required_control(machine).direct.items():
        one, gpu_group = functions[address].iommu_group, functions[gpu].iommu_group
        off = machine.peer_memory.topology_check_off
        if one is not None and one == gpu_group:
            continue
        if off is None:
            yield Seen(unknown="NVIDIA's option GrdmaPciTopoCheckOverride was not captured")
        elif not off:
            yield Seen(f"its IOMMU group is {one}, that of the GPU {gpu} is {gpu_group}", address)


def _translating_nics(machine: NodeTopology) -> Iterator[Seen]:
    functions = _functions(machine)
    for nic in nics(machine):
        function = functions.get(nic.pci_address or "")
        if function is None or function.address_translation is None:
            yield Seen(unknown="the configuration space of NICs was not captured: it takes root rights")
        elif function.address_translation and function.vendor == "15b3":
            yield Seen("it has address translation (ATS)", f"{nic.name} {nic.pci_address}")


def _shared_groups(machine: NodeTopology) -> Iterator[Seen]:
    groups = grouped((function.iommu_group, function.pci_address) for function in _ends(machine))
    for group, addresses in groups.items():
        if group is None:
            yield from (Seen("it is in no IOMMU group", address) for address in addresses)
        elif len(addresses) > 1:
            yield Seen(f"they share the IOMMU group {group}", ", ".join(addresses))


def _translated(machine: NodeTopology) -> Iterator[Seen]:
    functions = _ends(machine)
    if not functions:
        yield Seen(unknown="IOMMU groups were not captured")
    for function in functions:
        # Without a group no IOMMU is on.
        if function.iommu_group is None or function.iommu_domain == "identity":
            continue
        if function.iommu_domain is None:
            yield Seen(unknown="the kernel does not report the type of IOMMU groups")
        elif function.iommu_domain.startswith("DMA"):
            yield Seen(f"the IOMMU translates its addresses ({function.iommu_domain})", function.pci_address)


def _no_way(machine: NodeTopology) -> Iterator[Seen]:
    way = scope.way_of_memory(machine)
    if way.none or way.unknown:
        yield Seen(way.none, unknown=way.unknown)


def _peer_memory_alone(machine: NodeTopology) -> Iterator[Seen]:
    way = scope.way_of_memory(machine)
    if way.peer_memory and way.dma_buf is None:
        yield Seen(unknown="it was not captured which of NVIDIA's modules runs")
    elif way.peer_memory and not way.dma_buf:
        yield Seen("nvidia_peermem is loaded, and there is no DMA-BUF")


def _small_window(machine: NodeTopology) -> Iterator[Seen]:
    for gpu in own_gpus(machine):
        if gpu.device in GRACE:
            continue
        if gpu.bar1_bytes is None or gpu.memory_bytes is None:
            yield Seen(unknown="the size of BAR1 or of the memory was not captured")
        elif gpu.bar1_bytes < gpu.memory_bytes:
            sizes = f"{format_bytes(gpu.bar1_bytes)} of {format_bytes(gpu.memory_bytes)}"
            yield Seen(f"BAR1 shows {sizes} of memory", _label(machine, gpu))


def _slow_link(machine: NodeTopology) -> Iterator[Seen]:
    functions = _functions(machine)
    for nic in nics(machine):
        function = functions.get(nic.pci_address or "")
        link = function.link if function else None
        if function is None or link is None or None in (link.speed, link.width):
            if nic.physical_function is None:
                yield Seen(unknown="the links of NICs were not captured")
            continue
        slow = link.speed and link.max_speed and link.speed < link.max_speed
        narrow = link.width and link.max_width and link.width < link.max_width
        if slow or narrow:
            above = functions.get(function.path[-2]) if len(function.path) > 2 else None
            port = above.link if above else None
            reaches = f"{link.max_speed} GT/s x{link.max_width}"
            if port and port.max_speed:
                reaches += f"; its slot reaches {port.max_speed} GT/s x{port.max_width}"
            evidence = f"{link.speed} GT/s x{link.width} of {reaches}"
            yield Seen(evidence, f"{nic.name} {nic.pci_address}")


_switched = scope.access_controlled(
    lambda required: required.layout is Layout.SWITCHES and not required.virtual,
    none="no GPU and NIC of the host's own below one switch",
)
_guests = scope.access_controlled(lambda required: bool(required.virtual), none="not set up for guests")
_connectx = scope.access_controlled(
    lambda required: required.layout is Layout.CONNECTX_SWITCH and not required.virtual,
    none="no GPU and NIC below a ConnectX switch",
)
_direct = scope.access_controlled(
    lambda required: required.layout is Layout.DIRECT_NIC,
    none='no ConnectX-8 Direct: "mlx5dv_get_data_direct_sysfs_path failed" in NCCL\'s log is no fault here',
)
_root_ports = scope.access_controlled(
    lambda required: required.layout is Layout.ROOT_PORTS, none="no GPU at a root port of NVIDIA's CPUs"
)

RULES = (
    machine_rule("GD101", scope.on_metal, _too_far),
    machine_rule("GD102", scope.on_metal, _wrong_socket),
    machine_rule("GD103", scope.has_pairs, _without_numa_node),
    machine_rule("GD104", _with_direct_functions, _of_no_nic),
    machine_rule("GD105", _with_direct_functions, _not_taken),
    machine_rule("GD106", scope.in_a_guest, _hidden_switches),
    machine_rule("GD201", _switched, _access_control),
    machine_rule("GD202", _connectx, _access_control),
    machine_rule("GD203", _direct, _access_control),
    machine_rule("GD204", _guests, _access_control),
    machine_rule("GD205", _root_ports, _access_control),
    machine_rule("GD301", _direct, _apart_in_groups),
    machine_rule("GD302", scope.on_metal_for_itself, _translated),
    machine_rule("GD303", _root_ports, _translating_nics),
    machine_rule("GD304", _root_ports, _shared_groups),
    machine_rule("GD401", scope.nvidia_pairs, _no_way),
    machine_rule("GD402", scope.nvidia_pairs, _peer_memory_alone),
    machine_rule("GD501", scope.on_metal, _small_window),
    machine_rule("GD502", scope.on_metal, _slow_link),
)
