"""PCI functions: accelerators, and the place of each in the PCI tree."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import dropwhile

from numaforge.lib.given import digits
from numaforge.lib.ordering import grouped
from numaforge.machine.snapshot.model import PCI_ADDRESS, Snapshot
from numaforge.machine.topology.model import Accelerator, Nvme, PciDevice, PciLink
from numaforge.machine.topology.vendors import AMD, HABANA

_ADDRESS = re.compile(PCI_ADDRESS)
NETWORK = re.compile(r"/sys/class/net/([^/]+)")
"""A network interface, by its link in sysfs or what is below it."""

# PCI base classes and classes (pci.ids): display, network, processing accelerator, co-processor, NVMe.
_DISPLAY, _NETWORK, _ACCELERATOR, _COPROCESSOR, _NVME = "03", "02", "12", "0b40", "0108"
_CHIPSET = ("05", "06", "08", "0c05", "11")  # memory, bridges, system peripherals, SMBus, counters

# Display controllers that only draw a console: server management chips and virtual graphics. The function is
# of class 0x0300 like a real GPU, and only its vendor (for ATI's server chips, the device) tells it.
# In this order: Matrox G200, ASPEED, XGI Volari, Silicon Motion, Cirrus Logic, Huawei Hi171x, QEMU std, QXL,
# virtio-gpu, VMware SVGA, VirtualBox, Hyper-V.
_CONSOLE_VENDORS = re.compile("102b|1a03|18ca|126f|1013|19e5|1234|1b36|1af4|15ad|80ee|1414")
_CONSOLE_DEVICES = frozenset(
    {("1002", "4752"), ("1002", "515e"), ("1002", "5159"), ("1002", "5960")}  # Rage XL, ES1000, RV100, RV280
)


# Habana's devices by PCI device id, as the habanalabs driver claims them.
_HABANA_NAMES = {
    "0001": "Goya",
    **dict.fromkeys(("1000", "1001", "1010", "1011"), "Gaudi"),
    **dict.fromkeys(("1020", "1021"), "Gaudi 2"),
    **dict.fromkeys(("1060", "1062", "1063"), "Gaudi 3"),
}


@dataclass(frozen=True)
class Function:
    """A PCI function: its raw attributes in sysfs, and the name of its driver."""

    address: str
    held: Mapping[str, str]
    driver: str | None

    @property
    def pci_class(self) -> str:
        """Base class, class and interface in hex digits."""
        return self.held.get("class", "").strip().removeprefix("0x")

    def hex_id(self, name: str) -> str:
        """Return the hex digits of `vendor` or `device`."""
        return self.held.get(name, "").strip().removeprefix("0x")

    @property
    def numa_node(self) -> int | None:
        return digits(self.held.get("numa_node", ""))  # -1: the firmware does not say

    @property
    def is_gpu(self) -> bool:
        identity = (self.hex_id("vendor"), self.hex_id("device"))
        console = _CONSOLE_VENDORS.fullmatch(identity[0]) or identity in _CONSOLE_DEVICES
        # AMD's Instinct from MI300 on has no display class any more.
        instinct = identity[0] == AMD and self.pci_class.startswith(_ACCELERATOR)
        return instinct or (self.pci_class.startswith(_DISPLAY) and not console)

    @property
    def is_network(self) -> bool:
        return self.pci_class.startswith(_NETWORK)

    @property
    def is_accelerator(self) -> bool:
        return self.pci_class.startswith((_ACCELERATOR, _COPROCESSOR)) and not self.is_gpu

    @property
    def link(self) -> PciLink | None:
        """Its PCIe link, None where nothing of it is known."""
        link = PciLink(
            speed=_gigatransfers(self.held.get("current_link_speed")),
            width=_width(self.held.get("current_link_width")),
            max_speed=_gigatransfers(self.held.get("max_link_speed")),
            max_width=_width(self.held.get("max_link_width")),
        )
        return None if link == PciLink(None, None, None, None) else link


def read_accelerators(snapshot: Snapshot) -> tuple[Accelerator, ...]:
    """Return the accelerators other than GPUs."""
    return tuple(
        Accelerator(
            pci_address=function.address,
            vendor=vendor,
            device=device,
            driver=function.driver,
            numa_node=function.numa_node,
            name=_HABANA_NAMES.get(device) if vendor == HABANA else None,
        )
        for function in functions(snapshot)
        for vendor, device in ((function.hex_id("vendor"), function.hex_id("device")),)
        if function.is_accelerator
    )


def read_other_devices(snapshot: Snapshot) -> tuple[PciDevice, ...]:
    """Return the functions without a class of their own here, except bridges and a chipset's functions."""
    return tuple(
        PciDevice(
            function.address,
            function.pci_class[:4],
            function.hex_id("vendor"),
            function.hex_id("device"),
            function.driver,
            function.numa_node,
        )
        for function in functions(snapshot)
        if function.pci_class
        and not (function.is_gpu or function.is_accelerator or function.is_network)
        and not function.pci_class.startswith((_NVME, *_CHIPSET))
    )


def read_nvmes(snapshot: Snapshot) -> tuple[Nvme, ...]:
    return tuple(
        Nvme(function.address, function.driver, function.numa_node)
        for function in functions(snapshot)
        if function.pci_class.startswith(_NVME)
    )


def addresses_of(snapshot: Snapshot, kind: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the devices of a class with the address of the PCI function that each belongs to."""
    targets = grouped(
        (match[1], target) for link, target in snapshot.links.items() if (match := kind.match(link))
    )
    for name, paths in sorted(targets.items()):
        addresses = [address for path in paths for address in _ADDRESS.findall(path)[-1:]]
        if addresses:
            yield name, addresses[0]


def read_pci_paths(snapshot: Snapshot, addresses: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the path of each function from its root down to itself: `("pci0000:15", "0000:15:01.0")`."""
    links = {address: snapshot.links.get(f"/sys/bus/pci/devices/{address}", "") for address in addresses}
    return {address: path for address, link in links.items() if (path := path_from_root(link))}


def path_from_root(link: str) -> tuple[str, ...]:
    """Return the part of a function's link in sysfs that begins with its root; () where there is none."""
    return tuple(dropwhile(lambda part: not re.fullmatch(r"pci[0-9a-f:]+", part), link.split("/")))


def functions(snapshot: Snapshot) -> list[Function]:
    drivers = {
        address: snapshot.links.get(f"/sys/bus/pci/devices/{address}/driver", "").rpartition("/")[2]
        for address in snapshot.pci_files
    }
    return [
        Function(address, attributes, drivers[address] or None)
        for address, attributes in snapshot.pci_files.items()
    ]


def _gigatransfers(text: str | None) -> float | None:
    """Return GT/s from "32.0 GT/s PCIe"; "Unknown" is unknown."""
    first = (text or "").split(" ")[0]
    return float(first) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", first) else None


def _width(text: str | None) -> int | None:
    # The kernel shows 255 lanes for a link that it cannot read.
    return None if (lanes := digits(text)) in (0, 255) else lanes
