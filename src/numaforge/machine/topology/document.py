"""The NodeTopology document, schema 1: what `numaforge topology -o json` prints and other programs read."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from numaforge.lib.codec import DocumentKind
from numaforge.lib.errors import TopologyError
from numaforge.machine.topology.links import nvlink_domains
from numaforge.machine.topology.memory_mode import GpuMemoryMode, gpu_memory_mode
from numaforge.machine.topology.model import Core, CpuSet, NodeTopology, NumaNode, NvlinkDomain, Package


@dataclass(frozen=True, kw_only=True)
class TopologyDocument(NodeTopology):
    """One machine as a document: its fields in their order, and two that follow from them.

    Fields may be added; readers ignore those that they do not know. A field keeps its name and meaning.
    """

    nvlink_domains: tuple[NvlinkDomain, ...] = ()  # what `gpus` say; not read back
    gpu_memory_mode: GpuMemoryMode | None = None  # by the fields before it; not read back


TOPOLOGY = DocumentKind(
    name="topology",
    number=1,
    holds=TopologyDocument,
    error=TopologyError,
    remedy="write it with `numaforge topology -o json` of this version",
)

_DEVICE_ID = re.compile("[0-9a-f]{1,4}")


def to_document(topology: NodeTopology) -> dict[str, Any]:
    """Return the topology as JSON data: CPU sets as cpulists, mappings by CPU keyed by cpulist."""
    domains, mode = nvlink_domains(topology.gpus), gpu_memory_mode(topology)
    return TOPOLOGY.encode(TopologyDocument(**vars(topology), nvlink_domains=domains, gpu_memory_mode=mode))


def from_document(document: object) -> NodeTopology:
    """Read a document back; raises TopologyError for another schema, and for a missing or wrong field."""
    read = TOPOLOGY.decode(document)
    for where, message in _contradictions(read):
        raise TopologyError(message, where=f"topology.{where}", remedy=TOPOLOGY.remedy)
    return NodeTopology(**{field.name: getattr(read, field.name) for field in fields(NodeTopology)})


def _contradictions(read: NodeTopology) -> Iterator[tuple[str, str]]:
    """Yield where the parts of a machine contradict each other, or hold what no machine has."""
    if not read.online:
        yield "cpus.online", "no CPU is online"
    for name, groups in (("packages", read.packages), ("cores", read.cores)):
        yield from _overlaps(name, groups, read.online)
        if ungrouped := read.online.difference(*(group.cpus for group in groups)):
            yield name, f"CPU {min(ungrouped)} is in none of them"
    yield from _misplaced_cores(read)
    yield from _overlaps("kubelet_cores", read.kubelet_cores or (), read.online)
    yield from _overlaps("kubelet_packages", read.kubelet_packages or (), read.online)
    for number, cache in enumerate(read.l3_caches):
        if strange := cache.cpus - (read.online | read.offline):
            yield f"l3_caches[{number}].cpus", f"there is no CPU {min(strange)}"
    yield from _strange_numa_nodes(read.numa_nodes)
    yield from _strange_devices(read)


def _misplaced_cores(read: NodeTopology) -> Iterator[tuple[str, str]]:
    packages, nodes = {package.id for package in read.packages}, {node.id for node in read.numa_nodes}
    for number, core in enumerate(read.cores):
        if core.package not in packages:
            yield f"cores[{number}].package", f"there is no package {core.package}"
        if core.numa_node is not None and core.numa_node not in nodes:
            yield f"cores[{number}].numa_node", f"there is no NUMA node {core.numa_node}"


def _strange_numa_nodes(nodes: Sequence[NumaNode]) -> Iterator[tuple[str, str]]:
    for number, node in enumerate(nodes):
        if node.id in {earlier.id for earlier in nodes[:number]}:
            yield f"numa_nodes[{number}].id", f"NUMA node {node.id} is listed twice"
        left_out = [one.id for one in nodes if node.distances and one.id not in node.distances]
        if left_out:
            yield f"numa_nodes[{number}].distances", f"lacks NUMA node {left_out[0]}"
        if (node.memory_bytes or 0) < 0:
            yield f"numa_nodes[{number}].memory_bytes", f"{node.memory_bytes} bytes of memory"


def _strange_devices(read: NodeTopology) -> Iterator[tuple[str, str]]:
    """Yield invalid PCI ids ("" is unknown) and instances of GPUs, and functions without an address."""
    for number, gpu in enumerate(read.gpus):
        if gpu.device and not _DEVICE_ID.fullmatch(gpu.device):
            yield f"gpus[{number}].device", f"{gpu.device[:40]!r} is not a PCI device id, such as 2330"
        for position, instance in enumerate(gpu.gpu_instances or ()):
            where = f"gpus[{number}].gpu_instances[{position}]"
            if instance.start < 0:
                yield f"{where}.start", f"{instance.start} is not a memory slice: the first is 0"
            if instance.size < 1:
                yield f"{where}.size", f"{instance.size} memory slices: an instance has one or more"
    for number, device in enumerate(read.rdma_devices):
        if device.pci_address == "":
            where = f"rdma_devices[{number}].pci_address"
            yield where, "is not a PCI function; write null where it has none"


def _overlaps(name: str, groups: Sequence[Package | Core], online: CpuSet) -> Iterator[tuple[str, str]]:
    """Yield empty groups, offline CPUs, and a CPU in two groups."""
    grouped: CpuSet = frozenset()
    for number, group in enumerate(groups):
        where = f"{name}[{number}].cpus"
        if not group.cpus:
            yield where, "names no CPU"
        if off := group.cpus - online:
            yield where, f"CPU {min(off)} is not online"
        if twice := group.cpus & grouped:
            yield where, f"CPU {min(twice)} is in two of {name}"
        grouped |= group.cpus
