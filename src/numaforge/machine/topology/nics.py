"""Network devices: the interfaces and RDMA devices of PCI functions."""

from collections.abc import Iterable

from numaforge.lib.given import digits
from numaforge.lib.ordering import grouped
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import Nic, RdmaDevice
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
    files = {name: snapshot.files.get(f"/sys/class/net/{interface}/{name}", "") for name in ("type", "speed")}
    speed = files["speed"].strip()
    port = rdma.ports[0] if rdma and rdma.ports else None
    return Nic(
        pci_address=function.address,
        interface=interface,
        rdma_device=rdma.name if rdma else None,
        link_layer=(port and port.link_layer) or _ARPHRD.get(files["type"].strip()),
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
