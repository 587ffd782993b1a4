"""A machine as a tree of text: packages, NUMA nodes, caches, and PCI devices below their switches."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.quantity import counted
from numaforge.machine.topology.links import gpu_memory_nodes, gpu_names, only_numa_node
from numaforge.machine.topology.model import NodeTopology, NumaNode
from numaforge.report.machine_wording import (
    accelerator_label,
    empty_numa_nodes,
    gpu_label,
    is_empty,
    nic_label,
    nic_speed,
    pci_class_name,
    pcie_link,
)
from numaforge.report.printable import in_one_line
from numaforge.report.slices import parts_of
from numaforge.report.wording import human_bytes, joined

Steps: TypeAlias = "dict[str, Steps]"
"""PCI functions by address, each with those below it."""


@dataclass
class TreeLine:
    """A line of the tree, and the lines below it."""

    text: str
    below: "list[TreeLine]" = field(default_factory=list)


def machine_tree(topology: NodeTopology, *, whole: bool = False) -> str:
    """Return a machine in lines of ASCII; `whole` adds the caches of cores and other PCI devices."""
    root = TreeLine(f"{topology.hostname or 'this machine'}: {human_bytes(topology.memory_bytes)} memory")
    if not whole:
        topology = replace(topology, other_devices=(), core_caches=())
    for caches in topology.core_caches:  # all of one kind and size
        kind = {"Data": "d", "Instruction": "i"}.get(caches.kind, "")
        name = f"L{caches.level}{kind} {human_bytes(caches.size_bytes)}"
        text = f"{name}: {caches.count} of them, CPUs {format_cpulist(caches.cpus)}"
        root.below.append(TreeLine(text))
    placed: set[int] = set()
    for package in topology.packages:
        nodes = [node for node in topology.numa_nodes if node.cpus and node.cpus <= package.cpus]
        placed |= {node.id for node in nodes}
        within = [_numa_node(node, topology) for node in nodes] or _caches(package.cpus, topology)
        root.below.append(TreeLine(f"package {package.id}: CPUs {format_cpulist(package.cpus)}", within))
    unplaced = [node for node in topology.numa_nodes if node.id not in placed]
    root.below += [_numa_node(node, topology) for node in unplaced if not is_empty(node)]
    root.below += map(TreeLine, empty_numa_nodes(unplaced, topology))
    node_ids = {node.id for node in topology.numa_nodes}
    if elsewhere := _devices(topology, lambda numa_node: numa_node not in node_ids):
        root.below.append(TreeLine("NUMA node not known", elsewhere))
    return "".join(f"{in_one_line(line)}\n" for line in _lines(root))


def _numa_node(node: NumaNode, topology: NodeTopology) -> TreeLine:
    of_gpu = gpu_memory_nodes(topology).get(node.id)
    cpus = f"CPUs {format_cpulist(node.cpus)}" if node.cpus else "no CPUs"
    cpus += f", that of {gpu_names(topology.gpus)[of_gpu]}" if of_gpu else ""
    text = f"NUMA node {node.id}: {human_bytes(node.memory_bytes)} memory, {cpus}"
    devices = _devices(topology, lambda numa_node: numa_node == node.id)
    return TreeLine(text, [*_caches(node.cpus, topology), *devices])


def _caches(cpus: frozenset[int], topology: NodeTopology) -> list[TreeLine]:
    """Return the last-level caches that serve these CPUs, each with its cores."""
    lines = []
    for cache in (one for one in topology.l3_caches if one.cpus & cpus):
        shared = cache.cpus & cpus
        cores = counted(sum(1 for core in topology.cores if core.cpus & shared), "core")
        name = f"L{cache.level} {human_bytes(cache.size_bytes)}"
        lines.append(TreeLine(f"{name}: {cores}, CPUs {format_cpulist(shared)}"))
    return lines


def _devices(topology: NodeTopology, accepts: Callable[[int | None], bool]) -> list[TreeLine]:
    """Return the devices of a NUMA node, those below one PCIe switch together."""
    only = only_numa_node(topology)
    placed = (
        (address, only if node is None else node, line) for address, node, line in _device_lines(topology)
    )
    leaves = {address: line for address, node, line in placed if accepts(node)}
    tree: Steps = {}
    for address in leaves:
        level = tree
        for step in topology.pci_paths.get(address, (address,)):
            level = level.setdefault(step, {})
    return list(_branches(tree, leaves))


def _branches(tree: Steps, leaves: Mapping[str, TreeLine]) -> Iterator[TreeLine]:
    """Yield a branch for each device, and for each bridge above several of them."""
    for address, below in tree.items():
        within = list(_branches(below, leaves))
        if address in leaves:
            leaf = leaves[address]
            yield TreeLine(f"{leaf.text}  {address}", [*leaf.below, *within])
        elif len(within) == 1:
            yield within[0]
        else:
            kind = "host bridge" if address.startswith("pci") else "PCIe switch"
            yield TreeLine(f"{kind} {address}", within)


def _device_lines(topology: NodeTopology) -> Iterator[tuple[str, int | None, TreeLine]]:
    """Yield the PCI address, the NUMA node and the line of every device, with its parts below a GPU."""
    names = gpu_names(topology.gpus)
    for gpu in topology.gpus:
        words = joined([gpu_label(gpu), pcie_link(gpu.link)]).replace(" · ", ", ")
        parts = parts_of(gpu)
        inside = [TreeLine(f"{parts.modes}: {parts.words}")] if parts else []
        yield gpu.pci_address, gpu.numa_node, TreeLine(f"{names[gpu.pci_address]} {words}", inside)
    for one in topology.accelerators:
        yield one.pci_address, one.numa_node, TreeLine(accelerator_label(one))
    for nic in topology.nics:
        label = nic_label(nic).replace(" · ", "/")
        yield nic.pci_address, nic.numa_node, TreeLine(" ".join(filter(None, ("NIC", label, nic_speed(nic)))))
    for drive in topology.nvmes:
        yield drive.pci_address, drive.numa_node, TreeLine("NVMe")
    for device in topology.other_devices:
        words = f"{pci_class_name(device.pci_class)} {device.vendor}:{device.device}"
        words += f", {device.driver}" if device.driver else ""
        yield device.pci_address, device.numa_node, TreeLine(words)


def _lines(branch: TreeLine) -> Iterable[str]:
    yield branch.text
    for number, subtree in enumerate(branch.below, start=1):
        last = number == len(branch.below)
        first, *rest = _lines(subtree)
        yield f"{'`-' if last else '|-'} {first}"
        yield from (f"{'   ' if last else '|  '}{line}" for line in rest)
