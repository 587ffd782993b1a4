"""The PCI functions of a machine whose RDMA devices the shared RDMA device plugin can use.

Mellanox/k8s-rdma-shared-dev-plugin v1.5.3: DiscoverHostDevices takes every network controller;
NewPciNetDevice refuses one whose RDMA devices, as /sys/bus/pci/devices/ADDRESS/infiniband lists them, lack a
character device.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from numaforge.lib.ordering import grouped, natural
from numaforge.machine.topology.model import Nic, NodeTopology, RdmaDevice

# pkg/resources/rdma_device_spec.go; it also requires /dev/infiniband/rdma_cm, which all devices share, and
# version 1.5.3 does not require issm.
REQUIRED = ("umad", "uverbs")
_WITHOUT_MAD = frozenset({"efa"})  # drivers whose devices have no management datagrams, and so no umad
_LINK_TYPES = {"InfiniBand": "infiniband", "Ethernet": "ether"}  # as in netlink's EncapType


class PluginFunction(NamedTuple):
    """A PCI function as the plugin's selectors see it; absent texts are ""."""

    address: str
    vendor: str
    device: str
    driver: str
    interface: str
    link_type: str
    devices: tuple[RdmaDevice, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its RDMA devices."""
        return tuple(device.name for device in self.devices)


def plugin_functions(topology: NodeTopology, *, software_devices: bool = False) -> dict[str, PluginFunction]:
    """Return the functions that the plugin can offer, by address.

    With `software_devices`, an rxe or siw device belongs to the function of its interface.
    """
    nics = grouped((nic.pci_address, nic) for nic in topology.nics)
    devices: dict[str, list[RdmaDevice]] = {}
    for device in topology.rdma_devices:
        address = device.pci_address or (address_of(device, topology.nics) if software_devices else None)
        if address is not None and not lacking(device, topology):
            devices.setdefault(address, []).append(device)
    return {
        address: _function(address, rdma_devices, nics.get(address, []))
        for address, rdma_devices in sorted(devices.items())
    }


def address_of(device: RdmaDevice, nics: Iterable[Nic]) -> str | None:
    """Return the PCI address of a device's function; for a software device, that of its interface."""
    if device.pci_address or device.interface is None:
        return device.pci_address
    return next((nic.pci_address for nic in nics if nic.interface == device.interface), None)


def lacking(device: RdmaDevice, topology: NodeTopology) -> tuple[str, ...]:
    """Return the kinds that a device lacks for good: other devices have them, or its driver never does."""
    missing = set(REQUIRED) - _kinds(device)
    shown = {kind for other_device in topology.rdma_devices for kind in _kinds(other_device)}
    never = {"umad"} if device.driver in _WITHOUT_MAD else set()
    return tuple(sorted(missing & (shown | never)))


def not_loaded(topology: NodeTopology) -> tuple[str, ...]:
    """Return the kinds of character devices that no RDMA device has, where other kinds exist."""
    shown = {kind for device in topology.rdma_devices for kind in _kinds(device)}
    return tuple(kind for kind in REQUIRED if shown and kind not in shown)


def selected(
    functions: Iterable[PluginFunction], selectors: Mapping[str, Sequence[str]]
) -> tuple[PluginFunction, ...]:
    """Return the functions that selectors choose: those that match an entry of every non-empty list.

    pkg/resources/resources_manager.go, GetFilteredDevices: texts must be equal.
    """
    return tuple(
        function
        for function in functions
        if all(getattr(function, SELECTORS[name]) in values for name, values in selectors.items() if values)
    )


SELECTORS = {
    "vendors": "vendor",
    "deviceIDs": "device",
    "drivers": "driver",
    "ifNames": "interface",
    "linkTypes": "link_type",
}
"""The plugin's selectors, in its order, each with the field of a function that it compares."""


def _function(address: str, devices: Sequence[RdmaDevice], nics: Sequence[Nic]) -> PluginFunction:
    # The plugin takes the first of a function's interfaces, by name (utils.GetNetNames).
    nic = min((nic for nic in nics if nic.interface), key=lambda nic: nic.interface or "", default=None)
    first = devices[0]
    link_layer = nic.link_layer if nic else None
    return PluginFunction(
        address,
        first.vendor or "",
        first.device or "",
        first.driver or next((nic.driver for nic in nics if nic.driver), ""),
        (nic and nic.interface) or "",
        _LINK_TYPES.get(link_layer or "", ""),
        tuple(sorted(devices, key=lambda device: natural(device.name))),
    )


def _kinds(device: RdmaDevice) -> set[str]:
    return {name.rstrip("0123456789") for name in device.character_devices}
