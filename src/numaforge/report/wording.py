"""The wording of sizes, counts and machines that tables and pictures share."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sized
from fractions import Fraction
from typing import TYPE_CHECKING

from numaforge.kubelet_minors.values.pages import in_pages
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.ordering import grouped
from numaforge.machine.topology.gpu_models import model_of
from numaforge.machine.topology.links import nodes_of_gpus
from numaforge.machine.topology.pcie_lanes import lanes
from numaforge.machine.topology.slices import partitions_of
from numaforge.report.printable import in_one_line

if TYPE_CHECKING:
    from numaforge.machine.topology.model import Accelerator, Gpu, Nic, NodeTopology, PciLink

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MOST = 2**63  # the bound of a Kubernetes quantity
ELLIPSIS = "…"


def human_bytes(count: int | None) -> str:
    """Return a size in three or four significant digits: `512 MiB`, `1.9 GiB`; `unknown` for None."""
    if count is None:
        return "unknown"
    if count >= _MOST:
        return f"{_MOST >> 50} PiB or more"
    size, unit = float(count), 0
    while round(size) >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    rounded = f"{size:.0f}" if size >= 100 else f"{size:.1f}".removesuffix(".0")
    return f"{rounded} {_UNITS[unit]}"


def amount_in_words(resource: str, amount: Fraction) -> str:
    """Return what a pod asks for of a resource: `8 CPUs`, `32 GiB memory`, `4 nvidia.com/gpu`."""
    number = f"{amount.numerator}" if amount.denominator == 1 else f"{float(amount):.3f}".rstrip("0")
    if resource == "cpu":
        return f"{number} CPUs"
    if resource in ("memory", "ephemeral-storage") or in_pages(resource):
        return f"{human_bytes(int(amount))} {resource}"
    return f"{number} {resource}"


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 package`, `2 packages`."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"


def wrapped(text: str, width: int, indent: str = "  ", most: int | None = None) -> list[str]:
    """Return a text wrapped to `width`, in at most `most` lines; names and paths stay whole."""
    return textwrap.wrap(
        in_one_line(text),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        max_lines=most,
        placeholder=f" {ELLIPSIS}",
        break_on_hyphens=False,
        break_long_words=False,
    )


def some_of(names: Iterable[str], most: int = 3) -> str:
    """Return a list of names that stays short: `a, b, c and 4 others`."""
    listed = list(names)
    if len(listed) <= most:
        return ", ".join(listed)
    return f"{', '.join(listed[:most])} and {counted(len(listed) - most, 'other')}"


def cpu_counts(topology: NodeTopology) -> tuple[str, ...]:
    """Return packages, NUMA nodes, cores and CPUs as phrases: `2 packages`; absent ones are left out."""
    cpus = f"{counted(len(topology.online), 'CPU')}{_threads_per_core(topology)}"
    return (*_counted_things(package=topology.packages, numa=topology.numa_nodes, core=topology.cores), cpus)


def memory_and_devices(topology: NodeTopology) -> tuple[str, ...]:
    """Return memory and devices as phrases (`2 TiB memory`, `8 GPUs`); what is absent is left out."""
    memory = () if topology.memory_bytes is None else (f"{human_bytes(topology.memory_bytes)} memory",)
    return (
        *memory,
        *_counted_things(gpu=topology.gpus, accelerator=topology.accelerators, nic=topology.nics),
    )


def empty_numa_nodes(ids: Iterable[int], topology: NodeTopology | None) -> list[str]:
    """Return NUMA nodes without CPUs and memory in words, those of GPUs separately.

    `28 NUMA nodes of GPUs without memory: 3-9,11-17,19-25,27-33`.
    """
    of_gpus = nodes_of_gpus(topology) if topology else frozenset()
    kinds = grouped(
        ("of GPUs without memory" if node in of_gpus else "without CPUs and memory", node) for node in ids
    )
    return [
        f"{counted(len(nodes), 'NUMA node')} {kind}: {format_cpulist(nodes)}" for kind, nodes in kinds.items()
    ]


def pcie_link(link: PciLink | None) -> str:
    """Return a PCIe link as `Gen5 x16`, with its maximum where it runs below: `Gen4 x8 of Gen5 x16`.

    A lower speed alone is no fault: an idle GPU lowers it. A lower width is one.
    """
    if link is None:
        return ""
    current = lanes(link.speed, link.width)
    best = lanes(link.max_speed, link.max_width)
    if not current or not best or current == best:
        return current or best
    return f"{current} of {best}"


def gpu_label(gpu: Gpu) -> str:
    """Return the GPU's model without the vendor's name, else its PCI ids."""
    return model_of(gpu).removeprefix("NVIDIA ").removeprefix("AMD ")


def slices_label(gpu: Gpu) -> str:
    """Return how a GPU is cut into slices: `MIG on`, `CPX NPS4 x8`, `no` where it cannot be."""
    partition = gpu.partition
    if partition is not None:
        count = partitions_of(gpu) or 1
        words = (partition.compute, partition.memory, f"x{count}" if count > 1 else None)
        return " ".join(filter(None, words)) or "unknown"
    if not gpu.mig_capable:
        return "" if gpu.mig_capable is None else "no"
    return {"enabled": "MIG on", "disabled": "MIG off"}.get(gpu.mig_mode or "", "MIG unknown")


def slicing_in_force(gpu: Gpu) -> str:
    """Return a GPU's current slicing, `MIG`, `CPX NPS4`; empty where none or unknown."""
    if gpu.mig_mode == "enabled":
        return "MIG"
    partition = gpu.partition
    cut = partition and (partition.compute not in (None, "SPX") or (partition.count or 1) > 1)
    return slices_label(gpu) if cut else ""


def accelerator_label(accelerator: Accelerator) -> str:
    """Return the accelerator's model, else its PCI ids."""
    return accelerator.name or f"{accelerator.vendor}:{accelerator.device}"


def nic_label(nic: Nic) -> str:
    """Return the names of a NIC: RDMA device, then interface, else its driver."""
    return " · ".join(name for name in (nic.rdma_device, nic.interface) if name) or nic.driver or "NIC"


def nic_speed(nic: Nic) -> str:
    """Return link layer and rate without the lane details: `InfiniBand 400 Gb/s`."""
    rate = (nic.rate or "").split(" (")[0].replace("Gb/sec", "Gb/s")
    return " ".join(part for part in (nic.link_layer, rate) if part)


def rdma_roles(topology: NodeTopology) -> dict[str, str]:
    """Return roles of RDMA devices other than usual NICs, by name: `VF of mlx5_0`, `manages NVSwitches`."""
    owners = {device.pci_address: device.name for device in topology.rdma_devices if device.pci_address}
    roles = {}
    for device in topology.rdma_devices:
        if device.management:
            roles[device.name] = "manages NVSwitches"
        elif device.physical_function is not None:
            roles[device.name] = f"VF of {owners.get(device.physical_function, device.physical_function)}"
        elif device.bond is not None:
            roles[device.name] = device.bond
    return roles


def wrapped_cpulist(cpulist: str, width: int) -> tuple[str, ...]:
    """Return a cpulist in lines of at most `width`, broken after commas."""
    lines = [""]
    for part in cpulist.split(","):
        separator = "," if lines[-1] else ""
        if lines[-1] and len(lines[-1]) + 1 + len(part) >= width:
            lines[-1] += separator
            lines.append(part)
        else:
            lines[-1] += separator + part
    return tuple(filter(None, lines))


def joined(phrases: Iterable[str]) -> str:
    """Return phrases with a middle dot between them."""
    return " · ".join(phrase for phrase in phrases if phrase)


_NOUNS = {
    "package": "package",
    "numa": "NUMA node",
    "core": "core",
    "gpu": "GPU",
    "accelerator": "accelerator",
    "nic": "NIC",
}


def _counted_things(**things: Sized) -> tuple[str, ...]:
    return tuple(counted(len(many), _NOUNS[name]) for name, many in things.items() if many)


def _threads_per_core(topology: NodeTopology) -> str:
    widths = sorted({len(core.cpus) for core in topology.cores})
    if not widths or widths == [1]:
        return ""
    if len(widths) == 1:
        return f" ({widths[0]} per core)"
    return f" ({widths[0]} to {widths[-1]} per core)"


# The classes of pci.ids that servers have; four digits are looked up before two.
_PCI_CLASSES = {
    "0100": "SCSI",
    "0104": "RAID",
    "0106": "SATA",
    "0107": "SAS",
    "01": "storage",
    "0300": "VGA",
    "03": "display",
    "04": "multimedia",
    "0700": "serial port",
    "07": "communication",
    "0c03": "USB",
    "0c07": "IPMI",
    "0c": "serial bus",
    "10": "encryption",
}


def pci_class_name(pci_class: str) -> str:
    """Return the kind of a PCI function by its class, else its base class: `SATA`, or `PCI class ff00`."""
    return _PCI_CLASSES.get(pci_class) or _PCI_CLASSES.get(pci_class[:2]) or f"PCI class {pci_class}"
