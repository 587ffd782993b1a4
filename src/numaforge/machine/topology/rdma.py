"""RDMA devices: ports, character devices, virtual functions, and which of them only manage NVSwitches."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from numaforge.lib.given import digits
from numaforge.lib.ordering import natural
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.model import RdmaDevice, RdmaPort
from numaforge.machine.topology.pci import NETWORK, Function, addresses_of, functions

_CLASS = "/sys/class/infiniband"
_DEVICE = re.compile(rf"{_CLASS}/([^/]+)")
_PORT = re.compile(rf"{_CLASS}/([^/]+)/ports/([0-9]{{1,9}})/(.+)")
_CHARACTER_DEVICE = re.compile(r"/sys/class/infiniband_(?:verbs|mad)/([^/]+)/ibdev")
_SLAVES = re.compile(r"/sys/class/net/([^/]+)/bonding/slaves")
_NETNS = {"Y": "shared", "1": "shared", "N": "exclusive", "0": "exclusive"}


class _Sysfs(NamedTuple):
    files: Mapping[str, str]
    ports: Mapping[str, Mapping[int, Mapping[str, str]]]
    addresses: Mapping[str, str]  # of RDMA devices
    functions: Mapping[str, Function]
    interfaces: Mapping[str, str]  # PCI address by network interface
    character_devices: Mapping[str, tuple[str, ...]]
    bonds: Mapping[str, tuple[str, ...]]

    def of_device(self, name: str, attribute: str) -> str | None:
        return self.files.get(f"{_CLASS}/{name}/{attribute}", "").strip() or None


def read_rdma_devices(snapshot: Snapshot) -> tuple[RdmaDevice, ...]:
    """Return every RDMA device by its name, mlx5_2 before mlx5_10, software devices included."""
    sysfs = _sysfs(snapshot)
    links = {name: snapshot.links.get(f"/sys/bus/pci/devices/{name}/physfn") for name in sysfs.functions}
    physical = {address: target.rpartition("/")[2] for address, target in links.items() if target}
    return tuple(_rdma_device(name, sysfs, physical) for name in sorted(sysfs.ports, key=natural))


def read_rdma_netns(files: Mapping[str, str]) -> str | None:
    """Return "shared" or "exclusive"; None where ib_core is not loaded or the kernel is older than 5.2."""
    return _NETNS.get(files.get("/sys/module/ib_core/parameters/netns_mode", "").strip())


def _sysfs(snapshot: Snapshot) -> _Sysfs:
    names = {match[1] for path in snapshot.links if (match := _DEVICE.fullmatch(path))}
    ports: dict[str, dict[int, dict[str, str]]] = {name: {} for name in names}
    character_devices: dict[str, list[str]] = {}
    bonds: dict[str, tuple[str, ...]] = {}
    for path, text in snapshot.files.items():
        if not path.startswith("/sys/class/"):
            continue
        if match := _PORT.fullmatch(path):
            numbered = ports.setdefault(match[1], {}).setdefault(int(match[2]), {})
            numbered[match[3]] = text.strip()
        elif match := _CHARACTER_DEVICE.fullmatch(path):
            character_devices.setdefault(text.strip(), []).append(match[1])
        elif match := _SLAVES.fullmatch(path):
            bonds[match[1]] = tuple(text.split())
    return _Sysfs(
        files=snapshot.files,
        ports=ports,
        addresses=dict(addresses_of(snapshot, _DEVICE)),
        functions={function.address: function for function in functions(snapshot)},
        interfaces=dict(addresses_of(snapshot, NETWORK)),
        character_devices={
            name: tuple(sorted(nodes, key=natural)) for name, nodes in character_devices.items()
        },
        bonds=bonds,
    )


def _rdma_device(name: str, sysfs: _Sysfs, physical: Mapping[str, str]) -> RdmaDevice:
    address = sysfs.addresses.get(name)
    # rxe names its interface in a file of its own; old kernels show it below that interface's PCI function.
    software = address is None or sysfs.of_device(name, "parent") is not None
    interface = _interface(name, address, software, sysfs)
    function = sysfs.functions.get((sysfs.interfaces.get(interface or "") if software else address) or "")
    own_function = None if software else function
    virtual_functions, most_virtual_functions = (
        digits(sysfs.of_device(name, f"device/sriov_{count}vfs")) for count in ("num", "total")
    )
    bond, bonded = (None, ()) if software else _bond(interface, sysfs)
    netdev = f"/sys/class/net/{interface}/device/net/{interface}"
    vpd = sysfs.files.get(f"{_CLASS}/{name}/device/vpd")
    manages_switches = None if vpd is None else vpd.strip() != ""
    return RdmaDevice(
        name=name,
        pci_address=None if software else address,
        interface=interface,
        driver=own_function.driver if own_function else None,
        numa_node=function.numa_node if function else None,
        ports=tuple(
            RdmaPort(
                number,
                files.get("link_layer"),
                files.get("state", "").rpartition(" ")[2] or None,  # "4: ACTIVE"
                files.get("rate"),
            )
            for number, files in sorted(sysfs.ports[name].items())
        ),
        character_devices=sysfs.character_devices.get(name, ()),
        management=False if software else manages_switches,
        physical_function=None if software else physical.get(address or ""),
        virtual_functions=virtual_functions if own_function else None,
        max_virtual_functions=most_virtual_functions if own_function else None,
        vendor=(own_function and own_function.hex_id("vendor")) or None,
        device=(own_function and own_function.hex_id("device")) or None,
        node_type=(sysfs.of_device(name, "node_type") or "").rpartition(" ")[2] or None,
        firmware=sysfs.of_device(name, "fw_ver"),
        board=sysfs.of_device(name, "board_id"),
        bond=bond,
        bond_interfaces=bonded,
        mtu=digits(sysfs.files.get(f"{netdev}/mtu")),
        operstate=sysfs.files.get(f"{netdev}/operstate", "").strip() or None,
    )


def _interface(name: str, address: str | None, software: bool, sysfs: _Sysfs) -> str | None:
    """The interface that a device names; a bond of two ports belongs to the function, not to one of them."""
    ports = sysfs.ports[name]
    first = ports[min(ports)].get("gid_attrs/ndevs/0") if ports else None
    named_interfaces = [interface for interface in (sysfs.of_device(name, "parent"), first) if interface]
    if software:
        return next(iter(named_interfaces), None)
    of_function = [interface for interface, function in sysfs.interfaces.items() if function == address]
    listed = next((interface for interface in named_interfaces if interface in sysfs.interfaces), None)
    return listed or (of_function[0] if len(of_function) == 1 else None)


def _bond(interface: str | None, sysfs: _Sysfs) -> tuple[str | None, tuple[str, ...]]:
    """The bond whose ports one device serves: the function of each other port has no device of its own."""
    with_device = set(sysfs.addresses.values())
    for bond, slaves in sorted(sysfs.bonds.items()):
        peers = [slave for slave in slaves if slave != interface]
        if interface in slaves and peers:
            functions = {sysfs.interfaces.get(slave) for slave in peers}
            return (None, ()) if functions & with_device else (bond, slaves)
    return None, ()
