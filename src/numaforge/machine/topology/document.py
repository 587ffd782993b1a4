"""The NodeTopology document, schema 1: what `numaforge topology -o json` prints and other programs read."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from numaforge.lib.codec import CpuSet, DocumentKind
from numaforge.lib.errors import TopologyError
from numaforge.lib.unfinished import Unfinished
from numaforge.machine.topology.links import nvlink_domains
from numaforge.machine.topology.memory_mode import GpuMemoryMode, gpu_memory_mode
from numaforge.machine.topology.model import (
    Accelerator,
    Core,
    CoreCaches,
    Cpufreq,
    DeviceHolder,
    Gpu,
    GpuProcess,
    HugepagePool,
    IdleState,
    KubeletInstall,
    L3Cache,
    Network,
    Nic,
    NodeTopology,
    NumaNode,
    NvidiaDriver,
    NvidiaInstall,
    NvlinkDomain,
    Nvme,
    Package,
    PciDevice,
    PciFunction,
    PeerMemory,
    RdmaDevice,
    Userland,
)


@dataclass(frozen=True)
class CpuStates:
    """Which CPUs the kernel runs on, which are switched off, and which its scheduler leaves alone."""

    online: CpuSet
    offline: CpuSet
    isolated: CpuSet


@dataclass(frozen=True, kw_only=True)
class TopologyDocument:
    """One machine as a document, with its fields in the order in which they are written.

    Fields may be added; readers ignore those that they do not know. A field keeps its name and meaning.
    """

    hostname: str | None
    architecture: str | None
    cpu_vendor: str | None = None
    product: str | None = None
    product_name: str | None = None
    firmware: str | None = None
    kernel: str | None
    kernel_cmdline: str | None
    os_release: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int | None
    swap_bytes: int | None
    cgroup_version: int | None
    kubelet: KubeletInstall | None
    cpus: CpuStates
    smt: str | None = None
    switchable: CpuSet | None = None
    nohz_full: CpuSet | None = None
    packages: tuple[Package, ...]
    numa_nodes: tuple[NumaNode, ...]
    cores: tuple[Core, ...]
    kubelet_cores: tuple[Core, ...] | None = None
    kubelet_packages: tuple[Package, ...] | None = None
    l3_caches: tuple[L3Cache, ...]
    core_caches: tuple[CoreCaches, ...] = ()
    hugepages: Mapping[str, HugepagePool] = field(default_factory=dict)
    cpufreq: Cpufreq | None
    idle_states: tuple[IdleState, ...] | None = None
    kernel_values: Mapping[str, str] = field(default_factory=dict)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    loadable_modules: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...]
    nvidia: NvidiaDriver | None = None
    nvidia_install: NvidiaInstall | None = None
    gpu_memory_mode: GpuMemoryMode | None = None  # by the fields around it; not read back
    nvswitches: tuple[str, ...] = ()
    nvlink_domains: tuple[NvlinkDomain, ...] = ()  # what `gpus` say; not read back
    gpu_processes: Mapping[int, GpuProcess] = field(default_factory=dict)
    device_holders: tuple[DeviceHolder, ...] | None = None
    holders_doubt: str | None = None
    accelerators: tuple[Accelerator, ...] = ()
    nics: tuple[Nic, ...]
    rdma_devices: tuple[RdmaDevice, ...] = ()
    rdma_netns: str | None = None
    networks: tuple[Network, ...] = ()
    nccl_conf: str | None = None
    peer_memory: PeerMemory = field(default_factory=PeerMemory)
    nvmes: tuple[Nvme, ...] = ()
    other_devices: tuple[PciDevice, ...] = ()
    pci_functions: tuple[PciFunction, ...] = ()
    pci_paths: Mapping[str, tuple[str, ...]]
    userland: Userland | None = None
    kernel_values_record: str | None = None
    planned_files: Mapping[str, str] = field(default_factory=dict)
    previous_plan: str | None = None
    unfinished: Unfinished | None = None
    unreadable: tuple[str, ...] = ()


TOPOLOGY = DocumentKind(
    name="topology",
    number=1,
    holds=TopologyDocument,
    error=TopologyError,
    remedy="write it with `numaforge topology -o json` of this version",
)

_DEVICE_ID = re.compile("[0-9a-f]{1,4}")
_STATES = [field.name for field in fields(CpuStates)]
_APART = ("cpus", "nvlink_domains", "gpu_memory_mode")
_ALIKE = [field.name for field in fields(TopologyDocument) if field.name not in _APART]


def to_document(topology: NodeTopology) -> dict[str, Any]:
    """Return the topology as JSON data: CPU sets as cpulists, mappings by CPU keyed by cpulist."""
    states = CpuStates(**_members(topology, _STATES))
    document = TopologyDocument(
        cpus=states,
        nvlink_domains=nvlink_domains(topology.gpus),
        gpu_memory_mode=gpu_memory_mode(topology),
        **_members(topology, _ALIKE),
    )
    return TOPOLOGY.encode(document)


def from_document(document: object) -> NodeTopology:
    """Read a document back.

    Raises TopologyError for another schema, and for a field that is missing or of the wrong kind.
    """
    read = TOPOLOGY.decode(document)
    _require_whole(read)
    return NodeTopology(**_members(read.cpus, _STATES), **_members(read, _ALIKE))


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


def _members(value: object, names: list[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}
