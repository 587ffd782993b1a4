"""PCIe switches that a virtual machine does not see, as the profile describes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.links import nearest_numa_node
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.rdma.planned import HiddenSwitch

if TYPE_CHECKING:
    from numaforge.roles.rdma.libraries_section import Libraries

_WHERE = "rdma.libraries.pcie_switches"
_MOST_SWITCHES = 32  # devices of one PCI bus


def plan_hidden_switches(topology: NodeTopology, wish: Libraries) -> tuple[HiddenSwitch, ...]:
    """Return the switches that a profile describes, with their NUMA nodes.

    Raises PlanError for a device or a NUMA node that this machine does not have.
    """
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
