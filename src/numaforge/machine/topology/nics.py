"""Network devices: the interfaces and RDMA devices of PCI functions."""

import re
from collections.abc import Iterable
from ipaddress import IPv4Network

from numaforge.lib.given import digits
from numaforge.lib.ordering import grouped
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import Network, Nic, RdmaDevice
from numaforge.machine.topology.pci import NETWORK, Function, addresses_of, functions

_ARPHRD = {"1": "Ethernet", "32": "InfiniBand"}


def read_nics(snapshot: Snapshot, rdma: Iterable[RdmaDevice]) -> tuple[Nic, ...]:
    """Return one entry per network interface of a PCI function, and one for a function that has none."""
    interfaces = grouped((address, name) for name, address in addresses_of(snapshot, NETWORK))
    # The function's own device comes before a software device on its interface.
    devices = sorted(rdma, key=lambda device: device.pci_address is None)
    with_rdma = {device.pci_address for device in devices}
    return tuple(
        _nic(snapshot, function, interface, _rdma_of(function, interface, devices))
        for function in functions(snapshot)
        if function.is_network or function.address in interfaces or function.address in with_rdma
        for interface in (*sorted(interfaces.get(function.address, [])),) or (None,)
    )


def _nic(snapshot: Snapshot, function: Function, interface: str | None, rdma: RdmaDevice | None) -> Nic:
    folder = f"/sys/class/net/{interface}"
    kind, speed = (snapshot.files.get(f"{folder}/{name}", "").strip() for name in ("type", "speed"))
    port = rdma.ports[0] if rdma and rdma.ports else None
    return Nic(
        pci_address=function.address,
        interface=interface,
        rdma_device=rdma.name if rdma else None,
        link_layer=(port and port.link_layer) or _ARPHRD.get(kind),
        rate=(port and port.rate) or (f"{speed} Mb/s" if digits(speed) else None),
        driver=function.driver,
        numa_node=function.numa_node,
    )


def _rdma_of(function: Function, interface: str | None, devices: list[RdmaDevice]) -> RdmaDevice | None:
    """Return the RDMA device that names an interface, else the one of its PCI function."""
    by_interface = next((d for d in devices if interface is not None and d.interface == interface), None)
    return by_interface or next(
        (d for d in devices if d.pci_address == function.address and d.interface is None), None
    )


DEFAULT_ROUTE = "0.0.0.0/0"

# include/uapi/linux/route.h
_UP, _GATEWAY, _REJECT = 0x1, 0x2, 0x200
_ROUTE = re.compile(
    r"(?P<interface>\S+)\s+(?P<destination>[0-9A-F]{8})\s+[0-9A-F]{8}\s+(?P<flags>[0-9A-F]{4})"
    r"\s+[0-9]+\s+[0-9]+\s+(?P<metric>[0-9]{1,10})\s+(?P<mask>[0-9A-F]{8})\b"
)


def read_networks(routes: str) -> tuple[Network, ...]:
    """Return the networks in /proc/net/route, the preferred default route first; gateways' are left out."""
    networks: list[tuple[bool, int, str, str]] = []
    for route in _ROUTE.finditer(routes):
        flags, metric = int(route["flags"], 16), int(route["metric"])
        length = int(route["mask"], 16).bit_count()
        network = IPv4Network((bytes.fromhex(route["destination"])[::-1], length), strict=False)
        default = network.prefixlen == 0
        if not flags & _UP or flags & _REJECT or (flags & _GATEWAY and not default):
            continue
        if default or network.prefixlen < network.max_prefixlen:
            networks.append((not default, metric if default else 0, route["interface"], str(network)))
    return tuple(dict.fromkeys(Network(interface, network) for *_, interface, network in sorted(networks)))
