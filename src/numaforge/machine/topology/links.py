"""The distance between two devices, as in `nvidia-smi topo -m`, from sysfs and the GPUs' own links."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from numaforge.lib.ordering import natural
from numaforge.machine.snapshot.catalogue import DIRECT_NIC
from numaforge.machine.topology.gpu_models import is_coherent, model_of
from numaforge.machine.topology.model import (
    Accelerator,
    CpuSet,
    Gpu,
    Nic,
    NodeTopology,
    NvlinkDomain,
    PciFunction,
    RdmaDevice,
)

Device = Gpu | Accelerator | Nic
Function = Gpu | Device | RdmaDevice

SELF = "X"

# As NVIDIA explains them below the table of nvidia-smi, nearest first.
LEGEND: Mapping[str, str] = {
    SELF: "the device itself",
    "NV#": "number of bonded NVLinks",
    "XGMI": "AMD's links between GPUs",
    "PIX": "at most one PCIe switch between them",
    "PXB": "several PCIe switches below one root port",
    "PHB": "through one PCIe host bridge, as a rule the CPU",
    "NODE": "through several host bridges of one NUMA node",
    "SYS": "through the interconnect between NUMA nodes",
}


class LinkedDevice(NamedTuple):
    """A device as the matrix shows it.

    `name` is GPU0, ACC0 or NIC0, `label` its common name (`mlx5_0`, the model). `cpus` are those of the NUMA
    node that it is near to. `management` marks a NIC that only manages NVSwitches.
    """

    name: str
    label: str
    device: Device
    numa_node: int | None
    cpus: CpuSet | None
    management: bool = False

    @property
    def memory_numa_node(self) -> int | None:
        return self.device.memory_numa_node if isinstance(self.device, Gpu) else None


class LinkMatrix(NamedTuple):
    """Every pair of devices: `links` has a row per device, with a link to each device."""

    devices: tuple[LinkedDevice, ...]
    links: tuple[tuple[str | None, ...], ...]
    nvlink_domains: tuple[NvlinkDomain, ...]


def link_matrix(topology: NodeTopology) -> LinkMatrix:
    """Return the distances between GPUs, accelerators and NICs: those with an RDMA device, else all."""
    managing = {device.name for device in topology.rdma_devices if device.management}
    cpus_of: dict[int | None, CpuSet] = {node.id: node.cpus for node in topology.numa_nodes}
    devices = tuple(
        LinkedDevice(
            name, label, device, node, cpus_of.get(node), isinstance(device, Nic) and label in managing
        )
        for name, label, device in _named(topology)
        for node in (nearest_numa_node(device, topology),)
    )
    links = tuple(
        tuple(link_between(one.device, peer.device, topology) for peer in devices) for one in devices
    )
    return LinkMatrix(devices, links, nvlink_domains(topology.gpus))


def link_between(one: Device, peer: Device, topology: NodeTopology) -> str | None:
    """Return `X`, `NV18`, `XGMI`, or the distance over PCIe; None where that is not known."""
    if one is peer:
        return SELF
    if isinstance(one, Gpu) and isinstance(peer, Gpu):
        count = nvlinks_between(one, peer)
        if count:
            return f"NV{count}"
        if one.xgmi_hive is not None and one.xgmi_hive == peer.xgmi_hive:
            return "XGMI"
    return pci_distance(one, peer, topology)


def nvlinks_between(one: Gpu, peer: Gpu) -> int:
    """Return the number of NVLinks that join two GPUs, directly or through switches of the same fabric."""
    switched = min(gpu.nvlink_peers.get("switch", 0) for gpu in (one, peer))
    return direct_nvlinks(one, peer) or (switched if one.fabric == peer.fabric else 0)


def direct_nvlinks(one: Gpu, peer: Gpu) -> int:
    """Return the number of NVLinks from one GPU to the other, as either side reports it."""
    return max(one.nvlink_peers.get(peer.pci_address, 0), peer.nvlink_peers.get(one.pci_address, 0))


def pci_distance(one: Function, peer: Function, topology: NodeTopology) -> str | None:
    """Return PIX, PXB, PHB, NODE or SYS for two functions, None where the firmware does not report it.

    NCCL calls NODE PHB, and functions of one card without a switch PHB instead of PIX.
    """
    paths = [topology.pci_paths.get(device.pci_address or "", ()) for device in (one, peer)]
    if all(paths) and paths[0][0] == paths[1][0]:
        if paths[0][1:2] != paths[1][1:2]:  # the root port
            return "PHB"
        return "PIX" if pcie_switches(paths[0]) == pcie_switches(paths[1]) else "PXB"
    nodes = [nearest_numa_node(device, topology) for device in (one, peer)]
    if None in nodes:
        return None
    if nodes[0] != nodes[1]:
        return "SYS"
    return "NODE" if all(paths) else None


def pcie_switches(path: Sequence[str]) -> tuple[str, ...]:
    """Return the switches from the root port down to a function: of two bridges each, its upstream port."""
    return tuple(path[2:-1:2])


def nearest_numa_node(device: Function, topology: NodeTopology) -> int | None:
    """Return the NUMA node with CPUs that a device is near to; None where that is not known.

    Where the kernel does not say, it is the only one that has CPUs; where it names one without CPUs, as the
    GPU's own memory on Grace, the one with CPUs at the shortest distance from there.
    """
    own_node = next((node for node in topology.numa_nodes if node.id == device.numa_node), None)
    if own_node is not None and own_node.cpus:
        return own_node.id
    if device.numa_node is None:
        return only_numa_node(topology)
    with_cpus = [node.id for node in topology.numa_nodes if node.cpus]
    distances = {
        node: own_node.distances[node] for node in with_cpus if own_node and node in own_node.distances
    }
    nearest = [node for node, distance in distances.items() if distance == min(distances.values())]
    if not nearest:
        return device.numa_node
    return nearest[0] if len(nearest) == 1 else None


def only_numa_node(topology: NodeTopology) -> int | None:
    """Return the NUMA node that every device is near to, as it alone has CPUs; None where several have."""
    with_cpus = [node.id for node in topology.numa_nodes if node.cpus]
    return with_cpus[0] if len(with_cpus) == 1 else None


def nvlink_domains(gpus: Iterable[Gpu]) -> tuple[NvlinkDomain, ...]:
    """Return the groups of GPUs that NVLink joins; a single GPU is one where it has a fabric."""
    listed = {gpu.pci_address: gpu for gpu in gpus}
    neighbours: dict[object, set[object]] = {address: set() for address in listed}
    for address, gpu in listed.items():
        joined: list[object] = [peer for peer in gpu.nvlink_peers if peer in listed]
        if gpu.fabric is not None or "switch" in gpu.nvlink_peers:
            joined.append(("fabric", gpu.fabric))
        for neighbour in joined:
            neighbours[address].add(neighbour)
            neighbours.setdefault(neighbour, set()).add(address)
    domains = []
    visited: set[object] = set()
    for address, gpu in sorted(listed.items()):
        group = _reached(address, neighbours, visited)
        members = tuple(sorted(member for member in group if isinstance(member, str)))
        if len(members) > 1 or (members and gpu.fabric is not None):
            fabric = next((listed[member].fabric for member in members if listed[member].fabric), None)
            domains.append(NvlinkDomain(members, fabric))
    return tuple(domains)


def _reached(start: object, neighbours: Mapping[object, set[object]], visited: set[object]) -> set[object]:
    """Return everything reachable from `start` that is not in `visited`, and add it to `visited`."""
    group: set[object] = set()
    waiting = [start]
    while waiting:
        one = waiting.pop()
        if one not in visited:
            visited.add(one)
            group.add(one)
            waiting.extend(neighbours[one])
    return group


def gpu_memory_nodes(topology: NodeTopology) -> dict[int, str]:
    """Return the NUMA nodes without CPUs that are a GPU's memory, each with the GPU's PCI address.

    There are none on PCIe cards, nor where the driver manages the memory itself (CDMM, from R580).
    """
    without_cpus = {node.id for node in topology.numa_nodes if not node.cpus}
    return {
        gpu.memory_numa_node: gpu.pci_address
        for gpu in topology.gpus
        if gpu.memory_numa_node is not None and gpu.memory_numa_node in without_cpus
    }


def nodes_of_gpus(topology: NodeTopology) -> frozenset[int]:
    """Return the NUMA nodes without CPUs that are there for GPUs, with memory or without.

    On bare metal with Grace firmware lists 8 for each GPU, as generic initiators: Linux makes no NUMA node
    later, and each MIG instance may need one (hw/acpi in QEMU, acpi-generic-initiator). A kernel before 5.10
    does not name these: they are those without memory beside a GPU of such a board.
    """
    coherent = any(map(is_coherent, topology.gpus))
    return frozenset(gpu_memory_nodes(topology)) | {
        node.id
        for node in topology.numa_nodes
        if coherent and not node.cpus
        if node.generic_initiator or (node.generic_initiator is None and node.memory_bytes == 0)
    }


def gpu_names(gpus: Iterable[Gpu]) -> dict[str, str]:
    """Return the name of each GPU by PCI address: GPU0, with NVML's index.

    Where no GPU has an index they are counted by PCI address, as NVML does. Otherwise a GPU without an index
    gets a letter: the numbers belong to the others.
    """
    ordered = sorted(gpus, key=lambda gpu: gpu.pci_address)
    if all(gpu.index is None for gpu in ordered):
        return {gpu.pci_address: f"GPU{number}" for number, gpu in enumerate(ordered)}
    names = {gpu.pci_address: f"GPU{gpu.index}" for gpu in ordered if gpu.index is not None}
    unnumbered = [gpu.pci_address for gpu in ordered if gpu.index is None]
    return names | {address: f"GPU{chr(ord('a') + number)}" for number, address in enumerate(unnumbered)}


def _named(topology: NodeTopology) -> Iterable[tuple[str, str, Device]]:
    names = gpu_names(topology.gpus)
    for gpu in sorted(topology.gpus, key=lambda gpu: natural(names[gpu.pci_address])):
        yield names[gpu.pci_address], model_of(gpu), gpu
    for number, one in enumerate(sorted(topology.accelerators, key=lambda one: one.pci_address)):
        yield f"ACC{number}", one.name or f"{one.vendor}:{one.device}", one
    # By the name of their RDMA device, each once: a function may have several interfaces.
    nics = {nic.rdma_device: nic for nic in topology.nics if nic.rdma_device is not None}
    nics = nics or {nic.interface or nic.pci_address: nic for nic in topology.nics}
    for number, label in enumerate(sorted(nics, key=natural)):
        yield f"NIC{number}", label, nics[label]


def is_direct_nic(function: PciFunction) -> bool:
    """Say whether this is the ConnectX-8 function that writes into a GPU's memory over its own path."""
    return (function.vendor, function.device) == ("15b3", DIRECT_NIC)
