"""Read the kubelet's state files: cpu_manager_state, memory_manager_state, kubelet_internal_checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from numaforge.cpulist import parse_cpulist
from numaforge.errors import KubeletConfigError, NumaforgeError
from numaforge.kubelet.admission.cpusets import mask_of
from numaforge.kubelet.admission.memory_manager import MemoryBlock, MemoryTable, NodeMemory

CPU_STATE = "cpu_manager_state"
MEMORY_STATE = "memory_manager_state"
DEVICE_STATE = "kubelet_internal_checkpoint"


def read_cpu_state(text: str) -> tuple[str, int, dict[str, dict[str, int]]]:
    """Return policy name, default CPU set, and exclusive CPUs by pod UID and container, as bitmasks.

    pkg/kubelet/cm/cpumanager/state/checkpoint.go. The checksum is not verified.
    """
    document = _document(text, CPU_STATE)
    try:
        default = mask_of(parse_cpulist(document.get("defaultCpuSet") or ""))
        assignments = {
            str(pod): {str(name): mask_of(parse_cpulist(cpus)) for name, cpus in containers.items()}
            for pod, containers in (document.get("entries") or {}).items()
        }
    except (AttributeError, NumaforgeError) as error:
        raise KubeletConfigError(f"not a CPU manager checkpoint: {error}", where=CPU_STATE) from error
    return str(document.get("policyName", "")), default, assignments


def read_memory_state(
    text: str,
) -> tuple[str, dict[int, NodeMemory], dict[str, dict[str, tuple[MemoryBlock, ...]]]]:
    """Return policy name, NUMA nodes, and blocks by pod UID and container.

    pkg/kubelet/cm/memorymanager/state/checkpoint.go. The checksum is not verified.
    """
    document = _document(text, MEMORY_STATE)
    try:
        nodes = {int(number): _node(node) for number, node in (document.get("machineState") or {}).items()}
        assignments = {
            str(pod): {
                str(name): tuple(_block(block) for block in blocks) for name, blocks in containers.items()
            }
            for pod, containers in (document.get("entries") or {}).items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise KubeletConfigError(f"not a memory manager checkpoint: {error}", where=MEMORY_STATE) from error
    return str(document.get("policyName", "")), nodes, assignments


def read_device_state(text: str) -> dict[str, dict[str, dict[str, set[str]]]]:
    """Return device ids by pod UID, container and resource (pkg/kubelet/cm/devicemanager/checkpoint)."""
    document = _document(text, DEVICE_STATE)
    held: dict[str, dict[str, dict[str, set[str]]]] = {}
    try:
        for entry in (document.get("Data") or {}).get("PodDeviceEntries") or ():
            container = held.setdefault(entry["PodUID"], {}).setdefault(entry["ContainerName"], {})
            ids = {name for names in entry["DeviceIDs"].values() for name in names}
            container.setdefault(entry["ResourceName"], set()).update(ids)
    except (AttributeError, KeyError, TypeError) as error:
        raise KubeletConfigError(f"not a device manager checkpoint: {error}", where=DEVICE_STATE) from error
    return held


def _document(text: str, where: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise KubeletConfigError(f"not JSON: {error}", where=where) from error
    if not isinstance(document, Mapping):
        raise KubeletConfigError("not a checkpoint: the document is not a mapping", where=where)
    return document


def _node(document: Mapping[str, Any]) -> NodeMemory:
    tables = {
        str(resource): MemoryTable(
            total=table["total"],
            system_reserved=table["systemReserved"],
            allocatable=table["allocatable"],
            free=table["free"],
            reserved=table["reserved"],
        )
        for resource, table in document["memoryMap"].items()
    }
    return NodeMemory(tables, document["numberOfAssignments"], mask_of(document["cells"]))


def _block(document: Mapping[str, Any]) -> MemoryBlock:
    return MemoryBlock(str(document["type"]), frozenset(document["numaAffinity"]), int(document["size"]))
