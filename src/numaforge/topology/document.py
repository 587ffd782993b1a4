"""The NodeTopology document, schema 1: what `numaforge topology -o json` prints and other programs read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from numaforge.codec import CpuSet, DocumentKind
from numaforge.errors import TopologyError
from numaforge.topology.links import nvlink_domains
from numaforge.topology.model import (
    Accelerator,
    Core,
    Cpufreq,
    DeviceHolder,
    Gpu,
    GpuProcess,
    HugepagePool,
    KubeletInstall,
    L3Cache,
    Nic,
    NodeTopology,
    NumaNode,
    NvidiaDriver,
    NvidiaInstall,
    NvlinkDomain,
    Package,
)


@dataclass(frozen=True)
class CpuStates:
    """Which CPUs the kernel runs on, which are switched off, and which its scheduler leaves alone."""

    online: CpuSet
    offline: CpuSet
    isolated: CpuSet


@dataclass(frozen=True, kw_only=True)
class TopologyDocument:
    """One machine as a document has it, field by field in the order in which they are written.

    Fields may be added; readers pass over those that they do not know. A field keeps its name and meaning.
    """

    hostname: str | None
    architecture: str | None
    kernel: str | None
    kernel_cmdline: str | None
    memory_bytes: int | None
    swap_bytes: int | None
    cgroup_version: int | None
    kubelet: KubeletInstall | None
    cpus: CpuStates
    smt: str | None = None
    packages: tuple[Package, ...]
    numa_nodes: tuple[NumaNode, ...]
    cores: tuple[Core, ...]
    l3_caches: tuple[L3Cache, ...]
    hugepages: Mapping[str, HugepagePool] = field(default_factory=dict)
    cpufreq: Cpufreq | None
    gpus: tuple[Gpu, ...]
    accelerators: tuple[Accelerator, ...] = ()
    nics: tuple[Nic, ...]
    nvlink_domains: tuple[NvlinkDomain, ...] = ()  # what `gpus` say; not read back
    pci_paths: Mapping[str, tuple[str, ...]]
    os_release: Mapping[str, str] = field(default_factory=dict)
    sysctls: Mapping[str, str] = field(default_factory=dict)
    transparent_hugepages: Mapping[str, str] = field(default_factory=dict)
    previous_plan: str | None = None
    unreadable: tuple[str, ...] = ()
    nvidia: NvidiaDriver | None = None
    nvidia_install: NvidiaInstall | None = None
    nvswitches: tuple[str, ...] = ()
    gpu_processes: Mapping[int, GpuProcess] = field(default_factory=dict)
    device_holders: tuple[DeviceHolder, ...] | None = None


TOPOLOGY = DocumentKind(
    name="topology",
    number=1,
    holds=TopologyDocument,
    error=TopologyError,
    remedy="write it with `numaforge topology -o json` of this version",
)

_STATES = [each.name for each in fields(CpuStates)]
_ALIKE = [each.name for each in fields(TopologyDocument) if each.name not in ("cpus", "nvlink_domains")]


def to_document(topology: NodeTopology) -> dict[str, Any]:
    """Return the topology as JSON data: CPU sets as cpulists, mappings by CPU keyed by cpulist."""
    states = CpuStates(**_members(topology, _STATES))
    domains = nvlink_domains(topology.gpus)
    return TOPOLOGY.encode(
        TopologyDocument(cpus=states, nvlink_domains=domains, **_members(topology, _ALIKE))
    )


def from_document(document: object) -> NodeTopology:
    """Read a document back.

    Raises TopologyError for another schema, and for a field that is missing or of the wrong kind.
    """
    read = TOPOLOGY.decode(document)
    return NodeTopology(**_members(read.cpus, _STATES), **_members(read, _ALIKE))


def _members(value: object, names: list[str]) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}
