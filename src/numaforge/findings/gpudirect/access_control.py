"""The access control that bridges between GPUs and NICs need for GPUDirect RDMA, by layout.

Masks are those of the kernel's `pci=config_acs=`: bits 6 to 0 as 1 (on), 0 (off) or x (unchanged). For
NVIDIA's own switches and root ports they are those of rdma-core's `rdma_topo` (kernel-boot/rdma_topo); below
any other switch those for bare metal, for the bridges between a GPU and a NIC alone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from numaforge.machine.topology.links import is_direct_nic, pci_distance
from numaforge.machine.topology.model import NodeTopology, PciFunction, RdmaDevice
from numaforge.machine.topology.vendors import NVIDIA

MELLANOX = "15b3"
REDIRECTS = 0b0001100  # request and completion redirect: traffic between peers goes by the root complex
_BITS = 7
_NAMES = (
    "source validation",
    "translation blocking",
    "request redirect",
    "completion redirect",
    "upstream forwarding",
    "egress control",
    "direct translated peer-to-peer",
)

_GRACE = frozenset({"22b1", "22b2", "22b8"})
_VERA = frozenset({"2f95", "2f96"})
_CONNECTX_NICS = frozenset({"1021", "1023", "1025"})  # ConnectX-7, -8, -9
_CONNECTX_SWITCHES = frozenset({"197c", "1979"})
_BLUEFIELD_SWITCH = "197b"

_ISOLATED = "xx111x1"  # what the kernel itself sets where an IOMMU is on
_ISOLATED_VERA = "xx101x1"  # cannot redirect completions
_OPEN = "xx000x0"
_TOWARD_DIRECT_NIC, _TOWARD_DIRECT_GPU, _ABOVE_DIRECT = "xx110x1", "xx101x1", "xx111x0"
_TRANSLATED = "1x111x1"

NOT_READ = "the configuration space of {} was not captured: it takes root rights"


class Layout(StrEnum):
    """The connection of GPUs and NICs."""

    DIRECT_NIC = "ConnectX-8 Direct"
    CONNECTX_SWITCH = "a GPU and a NIC below each ConnectX switch"
    ROOT_PORTS = "GPUs at root ports of the CPU"
    SWITCHES = "PCIe switches"
    APART = "no GPU and NIC below one switch"


@dataclass(frozen=True)
class Required:
    """The masks that the bridges of a machine need, by PCI address, or why they are `unknown`.

    `virtual`: for GPUs that guests use; None where that makes no difference. `direct` are the functions of
    ConnectX-8 Direct, each with the GPU whose memory it writes to.
    """

    layout: Layout
    masks: Mapping[str, str] = field(default_factory=dict)
    virtual: bool | None = None
    direct: Mapping[str, str] = field(default_factory=dict)
    unknown: str | None = None


class _UnrecognisedError(Exception):
    """No values are known for how the machine is built."""


def required_control(machine: NodeTopology, virtual: bool | None = None) -> Required:
    """Return the masks that the bridges need; with `virtual` None, the NICs' address translation decides."""
    tree = _PciTree(machine)
    layout = tree.layout()
    try:
        return _REQUIRED[layout](tree, virtual)
    except _UnrecognisedError as reason:
        return Required(layout, unknown=str(reason))


def own_mask(function: PciFunction) -> str:
    """Return the kernel's own setting of a bridge where an IOMMU is on."""
    vera = function.vendor == NVIDIA and function.device in _VERA
    return _ISOLATED_VERA if vera else _ISOLATED


def wrong_bits(mask: str, control: int) -> list[str]:
    """Return in words each bit of a control register that differs from the mask."""
    bits = dict(enumerate(reversed(mask)))
    return [
        f"{_NAMES[bit]} is {'on' if control >> bit & 1 else 'off'}"
        for bit in range(_BITS)
        if bits[bit] != "x" and int(bits[bit]) != control >> bit & 1
    ]


def misconfigured(machine: NodeTopology, required: Required) -> dict[str, str]:
    """Return the bridges that separate GPUs and NICs, below ordinary switches only by redirected traffic."""
    wrong_functions = {}
    for function in machine.pci_functions:
        mask, access = required.masks.get(function.pci_address), function.access_control
        if mask is None or access is None or access.control is None:
            continue
        wrong = wrong_bits(mask, access.control)
        harmless = required.layout is Layout.SWITCHES and mask == _OPEN and not access.control & REDIRECTS
        if wrong and not harmless:
            wrong_functions[function.pci_address] = (
                f"{access.control:07b} where {mask} is needed: {', '.join(wrong)}"
            )
    return wrong_functions


def bridges_between(machine: NodeTopology, one: str, peer: str) -> tuple[str, ...]:
    """Return the bridges between two functions, without shared ones."""
    paths = [machine.pci_paths.get(address, ()) for address in (one, peer)]
    shared = {part for part in paths[0] if part in paths[1]}
    return tuple(part for path in paths for part in path[:-1] if part not in shared)


def below_one_switch(machine: NodeTopology) -> Iterator[tuple[str, str]]:
    """Yield the addresses of each GPU and NIC below a common switch."""
    for gpu in machine.gpus:
        for nic in nics(machine):
            if nic.pci_address and pci_distance(gpu, nic, machine) in ("PIX", "PXB"):
                yield gpu.pci_address, nic.pci_address


def nics(machine: NodeTopology) -> list[RdmaDevice]:
    """Return the RDMA devices that carry traffic of workloads over PCIe."""
    return [
        device for device in machine.rdma_devices if device.pci_address is not None and not device.management
    ]


class _PciTree:
    """The functions of a machine with their parents and children."""

    def __init__(self, machine: NodeTopology) -> None:
        self.machine = machine
        self.functions = {function.pci_address: function for function in machine.pci_functions}
        self.children: dict[str, list[PciFunction]] = {}
        for function in machine.pci_functions:
            if parent := self.parent(function):
                self.children.setdefault(parent.pci_address, []).append(function)
        displays = (one for one in machine.pci_functions if one.pci_class.startswith("03"))
        self.gpus = [function for function in displays if function.vendor == NVIDIA]

    def parent(self, function: PciFunction | None) -> PciFunction | None:
        path = function.path if function else ()
        return self.functions.get(path[-2]) if len(path) > 2 else None

    def above(self, function: PciFunction, count: int) -> list[PciFunction]:
        """Return up to this many bridges above a function, nearest first."""
        path = [self.functions.get(part) for part in reversed(function.path[:-1])]
        return [bridge for bridge in path[:count] if bridge is not None]

    def below(self, function: PciFunction) -> Iterator[PciFunction]:
        for child in self.children.get(function.pci_address, []):
            yield child
            yield from self.below(child)

    def layout(self) -> Layout:
        if any(map(is_direct_nic, self.functions.values())):
            return Layout.DIRECT_NIC
        if any((parent := self.parent(gpu)) and _is_root_port_of_ours(parent) for gpu in self.gpus):
            return Layout.ROOT_PORTS
        if any(self.connectx_switch(gpu) for gpu in self.gpus):
            return Layout.CONNECTX_SWITCH
        return Layout.SWITCHES if any(below_one_switch(self.machine)) else Layout.APART

    def connectx_switch(self, gpu: PciFunction) -> PciFunction | None:
        """Return the upstream port of the ConnectX switch that a GPU shares, below its own switch."""
        bridges = self.above(gpu, 4)
        return bridges[3] if len(bridges) == 4 and all(map(_is_connectx_switch, bridges)) else None

    def masks_of_others(self, masks: Mapping[str, str], mask: str | None = None) -> dict[str, str]:
        """Return the masks of NVIDIA's other switches and root ports: the kernel's own, or the one given."""
        return {
            function.pci_address: mask or own_mask(function)
            for function in self.functions.values()
            if _is_switch_of_ours(function) or _is_root_port_of_ours(function)
            if function.pci_address not in masks and self.controls(function)
        }

    def controls(self, function: PciFunction) -> bool:
        if function.access_control is None:
            raise _UnrecognisedError(NOT_READ.format(function.pci_address))
        return function.access_control.control is not None


def _direct_nic(tree: _PciTree, virtual: bool | None) -> Required:
    """A second way for the NIC's data: root port, switch, and below it the DMA function and the GPU."""
    if virtual is not None:
        raise _UnrecognisedError("ConnectX-8 Direct has the same values with guests and without")
    masks: dict[str, str] = {}
    direct: dict[str, str] = {}
    for function in filter(is_direct_nic, tree.functions.values()):
        bridges = tree.above(function, 3)
        is_direct = len(bridges) == 3 and all(map(_is_connectx_switch, bridges[:2])) and _is_grace(bridges[2])
        gpus = [gpu for gpu in tree.gpus if is_direct and bridges[2] in tree.above(gpu, 5)]
        if len(gpus) != 1 or tree.connectx_switch(gpus[0]) != bridges[1]:
            raise _UnrecognisedError(f"{function.pci_address} of ConnectX-8 Direct has no GPU beside it")
        mates = (mate for mate in tree.functions.values() if mate.device in _CONNECTX_NICS)
        if function.card is None or function.card not in {mate.card for mate in mates}:
            raise _UnrecognisedError(f"the VPD of {function.pci_address} names no NIC")
        direct[function.pci_address] = gpus[0].pci_address
        of_the_way = {function, *bridges, *tree.above(gpus[0], 5), gpus[0]}
        if unrecognised := [function for function in tree.below(bridges[2]) if function not in of_the_way]:
            raise _UnrecognisedError(f"{unrecognised[0].pci_address} is beside a GPU of ConnectX-8 Direct")
        masks[bridges[0].pci_address] = _TOWARD_DIRECT_NIC
        masks[tree.above(gpus[0], 3)[2].pci_address] = _TOWARD_DIRECT_GPU
        masks[bridges[2].pci_address] = _ABOVE_DIRECT
    return Required(Layout.DIRECT_NIC, masks | tree.masks_of_others(masks), direct=direct)


def _connectx_switch(tree: _PciTree, virtual: bool | None) -> Required:
    switches = [tree.connectx_switch(gpu) for gpu in tree.gpus]
    masks: dict[str, str] = {}
    translating = set()
    for gpu, switch in zip(tree.gpus, switches, strict=True):
        if switch is None:
            raise _UnrecognisedError(f"{gpu.pci_address} is not below a ConnectX switch as others are")
        nic_ports = [
            port for port in tree.children[switch.pci_address] if any(map(_is_connectx_nic, tree.below(port)))
        ]
        gpu_ports = [
            port
            for port in tree.children[switch.pci_address]
            if any(function in tree.gpus for function in tree.below(port))
        ]
        root_port = tree.functions.get(switch.path[1])
        if len(nic_ports) != 1 or len(gpu_ports) != 1 or nic_ports == gpu_ports or root_port is None:
            raise _UnrecognisedError(f"{switch.pci_address} has not one port with GPUs and one with a NIC")
        nic = next(filter(_is_connectx_nic, tree.below(nic_ports[0])))
        translating.add(nic.address_translation)
        masks |= {
            nic_ports[0].pci_address: _TRANSLATED,
            gpu_ports[0].pci_address: own_mask(gpu_ports[0]),
            root_port.pci_address: own_mask(root_port),
        }
    for_guests = _for_guests(translating) if virtual is None else virtual
    if any(not tree.controls(tree.functions[address]) for address in masks):
        raise _UnrecognisedError("a port between a GPU and its NIC has no access control")
    if not for_guests:
        masks = dict.fromkeys(masks, _OPEN)
    return Required(
        Layout.CONNECTX_SWITCH, masks | tree.masks_of_others(masks, None if for_guests else _OPEN), for_guests
    )


def _switches(tree: _PciTree, virtual: bool | None) -> Required:
    pairs = list(below_one_switch(tree.machine))
    connectx = [
        function
        for address in {nic for _, nic in pairs}
        if (function := tree.functions.get(address)) and function.vendor == MELLANOX
    ]
    # Other makers' NICs may always have the capability, with or without guests.
    translating = {function.address_translation for function in connectx} or {False}
    for_guests = _for_guests(translating) if virtual is None else virtual
    masks: dict[str, str] = {}
    for gpu, nic in pairs:
        for address in bridges_between(tree.machine, gpu, nic):
            bridge = tree.functions.get(address)
            if bridge is None:
                raise _UnrecognisedError(NOT_READ.format(address))
            if tree.controls(bridge):
                masks.setdefault(address, own_mask(bridge) if for_guests else _OPEN)
        port = tree.machine.pci_paths[nic][-2]
        if for_guests and port in masks:
            masks[port] = _TRANSLATED
    return Required(Layout.SWITCHES, masks, for_guests)


_REQUIRED: Mapping[Layout, Callable[[_PciTree, bool | None], Required]] = {
    Layout.DIRECT_NIC: _direct_nic,
    Layout.CONNECTX_SWITCH: _connectx_switch,
    Layout.ROOT_PORTS: lambda tree, _: Required(Layout.ROOT_PORTS, tree.masks_of_others({})),
    Layout.SWITCHES: _switches,
    Layout.APART: lambda *_: Required(Layout.APART),
}


def _for_guests(translating: set[bool | None]) -> bool:
    """A NIC that translates addresses is set up for guests, by `rdma_topo`."""
    if None in translating:
        raise _UnrecognisedError("the configuration space of the NICs was not captured: it takes root rights")
    if len(translating) > 1:
        raise _UnrecognisedError("some NICs have address translation (ATS) and others have not")
    return True in translating


def _is_grace(function: PciFunction) -> bool:
    return function.vendor == NVIDIA and function.device in _GRACE


def _is_root_port_of_ours(function: PciFunction) -> bool:
    return function.vendor == NVIDIA and function.device in _GRACE | _VERA


def _is_connectx_switch(function: PciFunction) -> bool:
    return function.vendor == MELLANOX and function.device in _CONNECTX_SWITCHES


def _is_switch_of_ours(function: PciFunction) -> bool:
    return function.vendor == MELLANOX and function.device in {_BLUEFIELD_SWITCH, *_CONNECTX_SWITCHES}


def _is_connectx_nic(function: PciFunction) -> bool:
    return function.vendor == MELLANOX and function.device in _CONNECTX_NICS
