"""PCI functions: GPUs, accelerators, network and RDMA devices, and where each hangs in the PCI tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from numaforge.snapshot.model import Snapshot
from numaforge.topology.amd import with_amdgpu
from numaforge.topology.model import Accelerator, Gpu, Nic, PciLink
from numaforge.topology.nvidia import with_answers
from numaforge.topology.vendors import AMD, HABANA

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_DEVICE_FILE = re.compile(rf"/sys/bus/pci/devices/({_ADDRESS.pattern})/(\w+)")
_DEVICE_LINK = re.compile(rf"/sys/bus/pci/devices/({_ADDRESS.pattern})")
_NETWORK = re.compile(r"/sys/class/net/([^/]+)")
_RDMA = re.compile(r"/sys/class/infiniband/([^/]+)")
_RDMA_PORT = re.compile(r"/sys/class/infiniband/([^/]+)/ports/(\d+)/(.+)")

# PCI base classes and classes (pci.ids): display, network, processing accelerator, co-processor.
_DISPLAY, _NETWORK_CLASS, _ACCELERATOR, _COPROCESSOR = "03", "02", "12", "0b40"

# Display controllers that only draw a console: server management chips and virtual graphics. The function is
# of class 0x0300 like a real GPU, and only its vendor (for ATI's server chips, the device) tells it.
_CONSOLE_VENDORS = frozenset(
    {
        "102b",  # Matrox G200
        "1a03",  # ASPEED
        "18ca",  # XGI Volari
        "126f",  # Silicon Motion
        "1013",  # Cirrus Logic
        "19e5",  # Huawei Hi171x
        "1234",  # QEMU std
        "1b36",  # QXL
        "1af4",  # virtio-gpu
        "15ad",  # VMware SVGA
        "80ee",  # VirtualBox
        "1414",  # Hyper-V
    }
)
_CONSOLE_DEVICES = frozenset(
    {("1002", "4752"), ("1002", "515e"), ("1002", "5159"), ("1002", "5960")}  # Rage XL, ES1000, RV100, RV280
)


# Habana's devices by PCI device id, as the habanalabs driver claims them.
_HABANA_NAMES = {
    "0001": "Goya",
    "1000": "Gaudi",
    "1001": "Gaudi",
    "1010": "Gaudi",
    "1011": "Gaudi",
    "1020": "Gaudi 2",
    "1021": "Gaudi 2",
    "1060": "Gaudi 3",
    "1062": "Gaudi 3",
    "1063": "Gaudi 3",
}

_ARPHRD = {"1": "Ethernet", "32": "InfiniBand"}


@dataclass(frozen=True)
class _Function:
    address: str
    held: Mapping[str, str]
    driver: str | None

    @property
    def pci_class(self) -> str:
        return self.held.get("class", "").strip().removeprefix("0x")

    def hex_id(self, name: str) -> str:
        return self.held.get(name, "").strip().removeprefix("0x")

    @property
    def numa_node(self) -> int | None:
        text = self.held.get("numa_node", "").strip()
        return int(text) if text.isdigit() else None  # -1: the firmware does not say

    @property
    def is_gpu(self) -> bool:
        identity = (self.hex_id("vendor"), self.hex_id("device"))
        console = identity[0] in _CONSOLE_VENDORS or identity in _CONSOLE_DEVICES
        # AMD's Instinct from MI300 on has no display class any more.
        instinct = identity[0] == AMD and self.pci_class.startswith(_ACCELERATOR)
        return instinct or (self.pci_class.startswith(_DISPLAY) and not console)

    @property
    def is_accelerator(self) -> bool:
        return self.pci_class.startswith((_ACCELERATOR, _COPROCESSOR)) and not self.is_gpu

    @property
    def link(self) -> PciLink | None:
        link = PciLink(
            speed=_number(self.held.get("current_link_speed")),
            width=_width(self.held.get("current_link_width")),
            max_speed=_number(self.held.get("max_link_speed")),
            max_width=_width(self.held.get("max_link_width")),
        )
        return None if link == PciLink(None, None, None, None) else link


@dataclass(frozen=True)
class _RdmaDevice:
    name: str
    address: str | None  # of its PCI function; software devices (rxe, siw) have none
    interface: str | None
    link_layer: str | None
    rate: str | None


def read_gpus(snapshot: Snapshot) -> tuple[Gpu, ...]:
    """Return every GPU that can compute, with what its driver, NVML or nvidia-smi say of it."""
    gpus = [_gpu(function) for function in _functions(snapshot) if function.is_gpu]
    return tuple(_with_driver(gpu, snapshot.files) for gpu in with_answers(gpus, snapshot))


def _with_driver(gpu: Gpu, files: Mapping[str, str]) -> Gpu:
    """Return the GPU with what its kernel driver shows in files."""
    gpu = with_amdgpu(gpu, files)
    if gpu.memory_numa_node is not None:
        return gpu
    status = files.get(f"/proc/driver/nvidia/gpus/{gpu.pci_address}/numa_status", "")
    online = re.fullmatch(r"Node:\s*(\d+)\s+Status:\s*online\b.*", status, re.DOTALL)
    return replace(gpu, memory_numa_node=int(online[1])) if online else gpu


def _gpu(function: _Function) -> Gpu:
    return Gpu(
        pci_address=function.address,
        vendor=function.hex_id("vendor"),
        device=function.hex_id("device"),
        numa_node=function.numa_node,
        link=function.link,
        driver=function.driver,
    )


def read_accelerators(snapshot: Snapshot) -> tuple[Accelerator, ...]:
    """Return the accelerators that are no GPUs."""
    return tuple(
        Accelerator(
            pci_address=function.address,
            vendor=function.hex_id("vendor"),
            device=function.hex_id("device"),
            driver=function.driver,
            numa_node=function.numa_node,
            name=_HABANA_NAMES.get(function.hex_id("device"))
            if function.hex_id("vendor") == HABANA
            else None,
        )
        for function in _functions(snapshot)
        if function.is_accelerator
    )


def read_nics(snapshot: Snapshot) -> tuple[Nic, ...]:
    """Return one entry per network interface of a PCI function, and one for a function that has none."""
    interfaces: dict[str, list[str]] = {}
    for name, address in _addresses(snapshot, _NETWORK):
        interfaces.setdefault(address, []).append(name)
    rdma = list(_rdma_devices(snapshot))
    with_rdma = {device.address for device in rdma}
    return tuple(
        _nic(snapshot, function, interface, _rdma_of(function, interface, rdma))
        for function in _functions(snapshot)
        if function.pci_class.startswith(_NETWORK_CLASS)
        or function.address in interfaces
        or function.address in with_rdma
        for interface in (*sorted(interfaces.get(function.address, [])),) or (None,)
    )


def _nic(snapshot: Snapshot, function: _Function, interface: str | None, rdma: _RdmaDevice | None) -> Nic:
    held = {name: snapshot.files.get(f"/sys/class/net/{interface}/{name}", "") for name in ("type", "speed")}
    speed = held["speed"].strip()
    return Nic(
        pci_address=function.address,
        interface=interface,
        rdma_device=rdma.name if rdma else None,
        link_layer=(rdma and rdma.link_layer) or _ARPHRD.get(held["type"].strip()),
        rate=(rdma and rdma.rate) or (f"{speed} Mb/s" if speed.isdigit() and speed != "0" else None),
        driver=function.driver,
        numa_node=function.numa_node,
    )


def _rdma_of(function: _Function, interface: str | None, rdma: Iterable[_RdmaDevice]) -> _RdmaDevice | None:
    """Return the RDMA device of one interface: the one that names it, else the one of its PCI function."""
    devices = list(rdma)
    named = next((d for d in devices if interface is not None and d.interface == interface), None)
    return named or next((d for d in devices if d.address == function.address and d.interface is None), None)


def _rdma_devices(snapshot: Snapshot) -> Iterator[_RdmaDevice]:
    names = {match[1] for path in snapshot.links if (match := _RDMA.fullmatch(path))}
    ports: dict[str, dict[int, dict[str, str]]] = {name: {} for name in names}
    for path, text in snapshot.files.items():
        if match := _RDMA_PORT.fullmatch(path):
            numbered = ports.setdefault(match[1], {}).setdefault(int(match[2]), {})
            numbered[match[3]] = text.strip()
    addresses = dict(_addresses(snapshot, _RDMA))
    on_pci = dict(_addresses(snapshot, _NETWORK))
    for name, numbers in sorted(ports.items()):
        port = numbers[min(numbers)] if numbers else {}
        named = (
            snapshot.files.get(f"/sys/class/infiniband/{name}/parent", "").strip(),
            port.get("gid_attrs/ndevs/0"),
        )
        yield _RdmaDevice(
            name=name,
            address=addresses.get(name),
            # A bond of two ports is named here too; it belongs to the function, not to one interface.
            interface=next((interface for interface in named if interface in on_pci), None),
            link_layer=port.get("link_layer"),
            rate=port.get("rate"),
        )


def _addresses(snapshot: Snapshot, kind: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the devices of a class with the address of the PCI function that each belongs to."""
    targets: dict[str, list[str]] = {}
    for link, target in snapshot.links.items():
        if match := kind.match(link):
            targets.setdefault(match[1], []).append(target)
    for name, paths in sorted(targets.items()):
        found = [address for path in paths for address in _ADDRESS.findall(path)[-1:]]
        if found:
            yield name, found[0]


def read_pci_paths(snapshot: Snapshot, addresses: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return for each function the way from its root down to itself: `("pci0000:15", "0000:15:01.0")`."""
    paths: dict[str, tuple[str, ...]] = {}
    for address in addresses:
        parts = snapshot.links.get(f"/sys/bus/pci/devices/{address}", "").split("/")
        root = next(
            (number for number, part in enumerate(parts) if re.fullmatch(r"pci[0-9a-f:]+", part)), None
        )
        if root is not None:
            paths[address] = tuple(parts[root:])
    return paths


def _functions(snapshot: Snapshot) -> list[_Function]:
    held: dict[str, dict[str, str]] = {}
    for path, text in snapshot.files.items():
        if match := _DEVICE_FILE.fullmatch(path):
            held.setdefault(match[1], {})[match[2]] = text
    return [
        _Function(address, attributes, _driver(snapshot, address))
        for address, attributes in sorted(held.items())
    ]


def _driver(snapshot: Snapshot, address: str) -> str | None:
    target = snapshot.links.get(f"/sys/bus/pci/devices/{address}/driver")
    return target.rpartition("/")[2] if target else None


def _number(text: str | None) -> float | None:
    """Return GT/s from "32.0 GT/s PCIe"; "Unknown" is unknown."""
    first = (text or "").split(" ")[0]
    return float(first) if re.fullmatch(r"\d+(\.\d+)?", first) else None


def _width(text: str | None) -> int | None:
    stripped = (text or "").strip()
    # The kernel says 255 lanes for a link that it cannot read.
    return int(stripped) if stripped.isdigit() and stripped not in ("0", "255") else None
