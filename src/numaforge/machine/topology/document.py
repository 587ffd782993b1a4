"""The NodeTopology document, schema 1: what `numaforge topology -o json` prints and other programs read."""

import re
from collections.abc import Sequence
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
    """Read a document back.

    Raises TopologyError for another schema, and for a field that is missing or of the wrong kind.
    """
    read = TOPOLOGY.decode(document)
    _require_whole(read)
    return NodeTopology(**{field.name: getattr(read, field.name) for field in fields(NodeTopology)})


def _require_whole(read: TopologyDocument) -> None:
    """Refuse a machine whose parts contradict each other; raises TopologyError with the first that does."""
    online, packages = read.cpus.online, {package.id for package in read.packages}
    nodes = {node.id for node in read.numa_nodes}
    if not online:
        raise _refusal("cpus.online", "no CPU is online")
    for name, groups in (("packages", read.packages), ("cores", read.cores)):
        if ungrouped := online - _require_apart(name, groups, online):
            raise _refusal(name, f"CPU {min(ungrouped)} is in none of them")
    for number, core in enumerate(read.cores):
        if core.package not in packages:
            raise _refusal(f"cores[{number}].package", f"there is no package {core.package}")
        if core.numa_node is not None and core.numa_node not in nodes:
            raise _refusal(f"cores[{number}].numa_node", f"there is no NUMA node {core.numa_node}")
    _require_apart("kubelet_cores", read.kubelet_cores or (), online)
    _require_apart("kubelet_packages", read.kubelet_packages or (), online)
    all_cpus = online | read.cpus.offline
    for number, cache in enumerate(read.l3_caches):
        if strange := cache.cpus - all_cpus:
            raise _refusal(f"l3_caches[{number}].cpus", f"there is no CPU {min(strange)}")
    _require_distances(read.numa_nodes)
    _require_devices(read)
    _require_sizes(read)


def _require_distances(nodes: Sequence[NumaNode]) -> None:
    """Refuse a NUMA node that is listed twice, and distances that leave out NUMA nodes."""
    for number, node in enumerate(nodes):
        if node.id in {earlier.id for earlier in nodes[:number]}:
            raise _refusal(f"numa_nodes[{number}].id", f"NUMA node {node.id} is listed twice")
        left_out = [node_id.id for node_id in nodes if node.distances and node_id.id not in node.distances]
        if left_out:
            raise _refusal(f"numa_nodes[{number}].distances", f"lacks NUMA node {left_out[0]}")


def _require_devices(read: TopologyDocument) -> None:
    """Refuse invalid PCI ids ("" is unknown), and functions without an address."""
    for number, gpu in enumerate(read.gpus):
        if gpu.device and not _DEVICE_ID.fullmatch(gpu.device):
            raise _refusal(
                f"gpus[{number}].device", f"{gpu.device[:40]!r} is not a PCI device id, such as 2330"
            )
    for number, device in enumerate(read.rdma_devices):
        if device.pci_address == "":
            raise _refusal(
                f"rdma_devices[{number}].pci_address", "is not a PCI function; write null where it has none"
            )


def _require_sizes(read: TopologyDocument) -> None:
    """Refuse negative memory and sizes of GPU instances; raises TopologyError."""
    for number, node in enumerate(read.numa_nodes):
        if (node.memory_bytes or 0) < 0:
            raise _refusal(f"numa_nodes[{number}].memory_bytes", f"{node.memory_bytes} bytes of memory")
    for number, gpu in enumerate(read.gpus):
        for position, instance in enumerate(gpu.gpu_instances or ()):
            where = f"gpus[{number}].gpu_instances[{position}]"
            if instance.start < 0:
                raise _refusal(f"{where}.start", f"{instance.start} is not a memory slice: the first is 0")
            if instance.size < 1:
                raise _refusal(f"{where}.size", f"{instance.size} memory slices: an instance has one or more")


def _require_apart(name: str, groups: Sequence[Package | Core], online: CpuSet) -> CpuSet:
    """Return the CPUs of all groups; refuse empty groups, offline CPUs, and a CPU in two groups."""
    grouped: CpuSet = frozenset()
    for number, group in enumerate(groups):
        where = f"{name}[{number}].cpus"
        if not group.cpus:
            raise _refusal(where, "names no CPU")
        if off := group.cpus - online:
            raise _refusal(where, f"CPU {min(off)} is not online")
        if twice := group.cpus & grouped:
            raise _refusal(where, f"CPU {min(twice)} is in two of {name}")
        grouped |= group.cpus
    return grouped


def _refusal(where: str, message: str) -> TopologyError:
    return TopologyError(message, where=f"topology.{where}", remedy=TOPOLOGY.remedy)
