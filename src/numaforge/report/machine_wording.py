"""The wording of machines and their devices that tables and pictures share."""

from collections.abc import Iterable, Sized

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.machine.topology.gpu_models import model_of, partitions_of
from numaforge.machine.topology.links import nodes_of_gpus
from numaforge.machine.topology.model import Accelerator, Gpu, Nic, NodeTopology, NumaNode, PciLink
from numaforge.machine.topology.pcie import lanes
from numaforge.planning.plan import NodePlan
from numaforge.report.wording import human_bytes, joined
from numaforge.roles.memory.plan import NumaNodePlan


def cpu_counts(topology: NodeTopology) -> tuple[str, ...]:
    """Return packages, NUMA nodes, cores and CPUs as phrases: `2 packages`; absent ones are left out."""
    widths = sorted({len(core.cpus) for core in topology.cores}) or [1]
    per_core = f"{widths[0]}" if len(widths) == 1 else f"{widths[0]} to {widths[-1]}"
    cpus = counted(len(topology.online), "CPU") + ("" if widths == [1] else f" ({per_core} per core)")
    packages, nodes, cores = topology.packages, topology.numa_nodes, topology.cores
    return (*_counted_things((packages, "package"), (nodes, "NUMA node"), (cores, "core")), cpus)


def memory_and_devices(topology: NodeTopology) -> tuple[str, ...]:
    """Return memory and devices as phrases (`2 TiB memory`, `8 GPUs`); what is absent is left out."""
    memory = () if topology.memory_bytes is None else (f"{human_bytes(topology.memory_bytes)} memory",)
    gpus, accelerators, nics = topology.gpus, topology.accelerators, topology.nics
    return (*memory, *_counted_things((gpus, "GPU"), (accelerators, "accelerator"), (nics, "NIC")))


def is_empty(node: NumaNode | NumaNodePlan) -> bool:
    return not node.cpus and node.memory_bytes == 0


def empty_numa_nodes(nodes: Iterable[NumaNode | NumaNodePlan], topology: NodeTopology | None) -> list[str]:
    """Return NUMA nodes without CPUs and memory: `28 NUMA nodes of GPUs without memory: 3-9,11-17`."""
    of_gpus = nodes_of_gpus(topology) if topology else frozenset()
    kinds = grouped(
        ("of GPUs without memory" if node.id in of_gpus else "without CPUs and memory", node.id)
        for node in nodes
        if is_empty(node)
    )
    return [f"{counted(len(ids), 'NUMA node')} {kind}: {format_cpulist(ids)}" for kind, ids in kinds.items()]


def pcie_link(link: PciLink | None) -> str:
    """Return a PCIe link, `Gen4 x8 of Gen5 x16` below its maximum; idle, a GPU lowers its speed alone."""
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


def _counted_things(*things: tuple[Sized, str]) -> tuple[str, ...]:
    return tuple(counted(len(several), noun) for several, noun in things if several)


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


def policies_of(plan: NodePlan) -> str:
    """Return the policies of the kubelet's managers: `CPU manager static (full-pcpus-only) · ...`, or ""."""
    settings = plan.kubelet.settings if plan.kubelet else {}
    phrases = []
    for manager in ("cpu", "topology", "memory"):
        policy = settings.get(f"{manager}ManagerPolicy")
        scope = settings.get("topologyManagerScope") if manager == "topology" and policy != "none" else None
        words = ", ".join(filter(None, (policy, scope if policy else None)))
        options = (settings.get(f"{manager}ManagerPolicyOptions") or {}).items()
        names = ", ".join(name if value == "true" else f"{name}={value}" for name, value in options)
        noun = "CPU" if manager == "cpu" else manager
        phrases.append(f"{noun} manager {words}{f' ({names})' if names else ''}" if words else "")
    return joined(phrases)
