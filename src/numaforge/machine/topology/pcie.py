"""PCIe between GPUs and NICs: access control, address translation, IOMMU groups, BARs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from numaforge.lib.given import digits
from numaforge.lib.ordering import grouped
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.snapshot.pci_functions import capabilities, extended_capabilities, from_text
from numaforge.machine.topology.links import is_direct_nic
from numaforge.machine.topology.model import AccessControl, Gpu, PciFunction, PeerMemory, RdmaDevice
from numaforge.machine.topology.nvidia_install import read_parameters
from numaforge.machine.topology.pci import functions, path_from_root

_ACCESS_CONTROL, _ADDRESS_TRANSLATION = 0x0D, 0x0F  # extended capabilities, PCIe base specification
_EXPRESS, _DEVICE_CONTROL = 0x10, 8  # the PCI Express capability, and the register within
_SMALLEST = 128  # bytes of a payload and of a read request whose field is 0
_EXTENDED_BYTES = 0x1000  # shorter: read without root rights, or a conventional PCI function
_HYPERVISOR = re.compile(r"^flags\s*:.*\bhypervisor\b", re.MULTILINE)
_PEER_CLIENTS = re.compile(r"/sys/kernel/mm/memory_peers/(nv_mem|nv_mem_nc|amdkfd)/version")


def read_pci_functions(snapshot: Snapshot) -> tuple[PciFunction, ...]:
    """Return GPUs, network functions and the bridges above them; empty without RDMA devices."""
    return tuple(
        PciFunction(
            pci_address=function.address,
            pci_class=function.pci_class,
            vendor=function.hex_id("vendor"),
            device=function.hex_id("device"),
            numa_node=function.numa_node,
            link=function.link,
            access_control=access_control(space),
            address_translation=None
            if space is None
            else any(capability == _ADDRESS_TRANSLATION for _, capability in extended_capabilities(space)),
            iommu_group=group,
            iommu_domain=snapshot.files.get(f"{folder}/iommu_group/type", "").strip() or None,
            card=snapshot.files.get(f"{folder}/vpd"),
            path=path_from_root(snapshot.links.get(folder, "")),
            max_read_request=None if control is None else _SMALLEST << (control >> 12 & 7),
            max_payload=None if control is None else _SMALLEST << (control >> 5 & 7),
        )
        for function in functions(snapshot)
        for folder in (f"/sys/bus/pci/devices/{function.address}",)
        for text in (snapshot.files.get(f"{folder}/config"),)
        for space in (_space(text),)
        for control in (device_control(space),)
        for group in (digits(snapshot.links.get(f"{folder}/iommu_group", "").rpartition("/")[2]),)
        if text is not None or group is not None
    )


def _space(text: str | None) -> bytes | None:
    space = from_text(text or "")
    # A function that has fallen off the bus reads as all ones.
    return space if len(space) >= _EXTENDED_BYTES and space[:4] != b"\xff\xff\xff\xff" else None


def access_control(space: bytes | None) -> AccessControl | None:
    """Return which kinds of peer traffic a function can control, and which controls are on.

    Both are None where it has no such capability (ACS); the result is None where that is unknown.
    """
    if space is None:
        return None
    for offset, capability in extended_capabilities(space):
        if capability == _ACCESS_CONTROL and offset + 8 <= len(space):
            return AccessControl(
                capable=int.from_bytes(space[offset + 4 : offset + 6], "little"),
                control=int.from_bytes(space[offset + 6 : offset + 8], "little"),
            )
    return AccessControl(capable=None, control=None)


def device_control(space: bytes | None) -> int | None:
    """Return the Device Control register of the PCI Express capability; None where there is none."""
    space = space or b""
    for offset in capabilities(space):
        register = space[offset + _DEVICE_CONTROL : offset + _DEVICE_CONTROL + 2]
        if space[offset] == _EXPRESS and len(register) == 2:
            return int.from_bytes(register, "little")
    return None


def read_peer_memory(snapshot: Snapshot) -> PeerMemory:
    """Return how the kernel lets a NIC reach a GPU's memory, as far as is known."""
    files = snapshot.files
    override = read_parameters(files).get("GrdmaPciTopoCheckOverride")
    config_acs = snapshot.commands.get("config_acs")
    return PeerMemory(
        clients=tuple(sorted(match[1] for path in files if (match := _PEER_CLIENTS.fullmatch(path)))),
        topology_check_off=None if override is None else override == "1",
        config_acs=None if config_acs is None else config_acs == "yes",
        virtual_machine=bool(_HYPERVISOR.search(files.get("/proc/cpuinfo", ""))),
    )


def bar1_bytes(gpu: Gpu, files: Mapping[str, str]) -> int | None:
    """Return the size of the window through which peers reach an NVIDIA GPU's memory."""
    lines = files.get(f"/sys/bus/pci/drivers/nvidia/{gpu.pci_address}/resource", "").splitlines()
    window = re.match(r"0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16}) 0x[0-9a-f]+$", "".join(lines[1:2]))
    if window is None:
        return None
    first, last = int(window[1], 16), int(window[2], 16)
    return last - first + 1 if last else 0


def with_direct_functions(
    devices: Iterable[RdmaDevice], functions: Sequence[PciFunction]
) -> tuple[RdmaDevice, ...]:
    """Return RDMA devices, each with its card's function that writes into a GPU's memory.

    The kernel does not link the two: their VPD names the same card, as rdma-core's rdma_topo uses it. The
    devices of a card take its functions in the order of their addresses.
    """
    direct = grouped(
        (function.card, function.pci_address)
        for function in sorted(functions, key=lambda each: each.pci_address)
        if is_direct_nic(function) and function.card is not None
    )
    cards = {function.pci_address: function.card for function in functions}
    paired = []
    for device in devices:
        card = None if device.physical_function else cards.get(device.pci_address or "")
        candidates = direct.get(card or "", [])
        paired.append(replace(device, data_direct=candidates[0]) if candidates else device)
        if len(candidates) > 1:
            candidates.pop(0)
    return tuple(paired)


_GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}  # by GT/s


def lanes(speed: float | None, width: int | None) -> str:
    """Return a link's generation and width, `Gen5 x16`; what is unknown is left out."""
    generation = f"Gen{_GENERATION[speed]}" if speed in _GENERATION else ""
    return " ".join(part for part in (generation, f"x{width}" if width else "") if part)
