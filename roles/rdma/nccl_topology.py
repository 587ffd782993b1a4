"""NCCL's topology file: the PCI tree as the machine shows it, or as a profile describes a virtual machine's.

NCCL completes the file from sysfs and NVML, by PCI address (src/graph/xml.cc), so it holds only what is
known: CPUs without affinity, GPUs without ranks, and no ports or GUIDs, because wrong ones do harm. NCCL's
reader accepts no XML declaration, no tabs, and only one space before each attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.links import nearest_numa_node, pcie_switches
from numaforge.machine.topology.model import Gpu, NodeTopology, PciLink, RdmaDevice
from numaforge.roles.rdma.planned import HiddenSwitch

if TYPE_CHECKING:
    from numaforge.roles.rdma.section import Libraries

_WHERE = "rdma.libraries.pcie_switches"
_MOST_SWITCHES = 32  # devices of one PCI bus

# PCI classes by which NCCL distinguishes nodes; it reads the full class of GPUs and NICs from sysfs.
_BRIDGE, _GPU, _NIC = "0x060400", "0x03", "0x02"
_VERSION = "1"
_UNKNOWN_NUMA_NODE = -1  # the kernel's value, which NCCL accepts for a CPU


@dataclass
class _PciNode:
    """A PCI function or bridge, and what is below it."""

    pci_class: str
    link: PciLink | None = None
    below: dict[str, _PciNode] = field(default_factory=dict)


def plan_hidden_switches(topology: NodeTopology, wish: Libraries) -> tuple[HiddenSwitch, ...]:
    """Return the switches of a profile with their NUMA nodes; raises PlanError for what the machine lacks."""
    if len(wish.pcie_switches) > _MOST_SWITCHES:
        raise PlanError(f"more than {_MOST_SWITCHES} switches", where=_WHERE)
    gpus = {gpu.pci_address: gpu for gpu in topology.gpus}
    nics = {device.pci_address: device for device in topology.rdma_devices if device.pci_address}
    planned = []
    for number, switch in enumerate(wish.pcie_switches):
        where = f"{_WHERE}[{number}]"
        for address in switch.devices:
            if address not in gpus and address not in nics:
                raise PlanError(
                    f"this machine has no GPU and no RDMA device at {address}",
                    where=f"{where}.devices",
                    remedy=f"it has {', '.join([*sorted(gpus), *sorted(nics)]) or 'none'}",
                )
        device_nodes = [nearest_numa_node(gpus.get(one) or nics[one], topology) for one in switch.devices]
        planned.append(
            HiddenSwitch(
                # As providers do: a bus that no machine has, so that the address is free.
                pci_address=f"ffff:ff:{number:02x}.0",
                numa_node=_numa_node(topology, switch.numa_node, device_nodes, where),
                gpus=tuple(one for one in switch.devices if one in gpus),
                nics=tuple(one for one in switch.devices if one not in gpus),
                speed=switch.speed,
                width=switch.width,
            )
        )
    return tuple(planned)


def _numa_node(
    topology: NodeTopology, wish: int | None, device_nodes: Sequence[int | None], where: str
) -> int:
    nodes = {node.id for node in topology.numa_nodes}
    if wish is not None:
        if wish in nodes:
            return wish
        raise PlanError(
            f"there is no NUMA node {wish}",
            where=f"{where}.numa_node",
            remedy=f"this machine has {', '.join(sorted(map(str, nodes))) or 'none'}",
        )
    known_nodes = {node for node in device_nodes if node is not None}
    if len(known_nodes) != 1:
        raise PlanError(
            "its devices are on several NUMA nodes"
            if known_nodes
            else "the kernel does not know its NUMA node",
            where=where,
            remedy="set numa_node",
        )
    return known_nodes.pop()


def of_hidden_switches(switches: Iterable[HiddenSwitch]) -> str:
    """Return the file for a virtual machine: its GPUs and NICs below switches that it does not see."""
    cpus: dict[int, dict[str, _PciNode]] = {}
    for switch in switches:
        node = _PciNode(_BRIDGE, PciLink(None, None, switch.speed, switch.width))
        node.below = {address: _PciNode(_GPU) for address in switch.gpus}
        node.below |= {address: _PciNode(_NIC) for address in switch.nics}
        cpus.setdefault(switch.numa_node, {})[switch.pci_address] = node
    return _document(cpus)


def of_machine(topology: NodeTopology) -> str:
    """Return the file of the machine's own tree: GPUs and RDMA devices with the switches above them."""
    cpus: dict[int, dict[str, _PciNode]] = {}
    devices: list[tuple[Gpu | RdmaDevice, _PciNode]] = [
        *((gpu, _PciNode(_GPU, gpu.link)) for gpu in topology.gpus),
        *((device, _PciNode(_NIC)) for device in topology.rdma_devices if not device.management),
    ]
    for device, node in devices:
        path = topology.pci_paths.get(device.pci_address or "")
        if device.pci_address is None or path is None:
            continue
        numa_node = nearest_numa_node(device, topology)
        level = cpus.setdefault(_UNKNOWN_NUMA_NODE if numa_node is None else numa_node, {})
        for bridge in pcie_switches(path):
            level = level.setdefault(bridge, _PciNode(_BRIDGE)).below
        level[device.pci_address] = node
    return _document(cpus)


def _document(cpus: dict[int, dict[str, _PciNode]]) -> str:
    lines = [f'<system version="{_VERSION}">']
    for numa_node, below in sorted(cpus.items()):
        lines += [f'  <cpu numaid="{numa_node}">', *_lines(below, 4), "  </cpu>"]
    return "\n".join([*lines, "</system>"])


def _lines(nodes: dict[str, _PciNode], indent: int) -> Sequence[str]:
    lines: list[str] = []
    for address, node in sorted(nodes.items()):
        start = f'{" " * indent}<pci busid="{address}" class="{node.pci_class}"{_link(node.link)}'
        if node.below:
            lines += [f"{start}>", *_lines(node.below, indent + 2), f"{' ' * indent}</pci>"]
        else:
            lines.append(f"{start}/>")
    return lines


def _link(link: PciLink | None) -> str:
    """Return the known attributes of a link in the kernel's wording: NCCL compares the whole text."""
    if link is None:
        return ""
    speed = "" if link.max_speed is None else f' link_speed="{link.max_speed:.1f} GT/s PCIe"'
    return speed + ("" if link.max_width is None else f' link_width="{link.max_width}"')
