"""The resource managers' state files: how a kubelet restores them, and which ones a change invalidates.

Sources: pkg/kubelet/cm/cpumanager/state, pkg/kubelet/cm/memorymanager/state (state_checkpoint.go,
checkpoint.go), validateState in their policy_static.go, and github.com/davecgh/go-spew, whose dump the
checksum is taken of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from numaforge.cpulist import format_cpulist
from numaforge.kubelet.minors.options import STRICT_CPU_RESERVATION
from numaforge.kubelet.minors.versions import KubeletVersion
from numaforge.kubelet.values.booleans import truth
from numaforge.kubelet.values.cpusets import CpuSetError, parse_cpuset
from numaforge.kubelet.values.gojson import GoJsonError, Types, decode_json, parse_json
from numaforge.kubelet.values.gotext import quoted

CPU_STATE_FILE = "cpu_manager_state"
MEMORY_STATE_FILE = "memory_manager_state"

_CORRUPT = "checkpoint is corrupted"
_DRAIN = "please drain this node and delete the {manager} checkpoint file {path} before restarting Kubelet"

# From this minor on the newest format is tried first, and the error of the oldest format is the one that is
# told.
_FIRST_MINOR_NEWEST_FIRST = 36
# From this minor on the memory manager's file has a first and a second format, and one without a checksum is
# taken as it is.
_FIRST_MINOR_OF_MEMORY_FORMATS = 36

_FIELDS = {"policyName": "string", "defaultCpuSet": "string", "checksum": "checksum.Checksum"}
_CPU_TYPES = Types(
    structs={
        "state.CPUManagerCheckpoint": {**_FIELDS, "entries": "map[string]map[string]string"},
        "state.CPUManagerCheckpointV1": {**_FIELDS, "entries": "map[string]string"},
    },
    aliases={"checksum.Checksum": "uint64"},
)
_MEMORY_CHECKPOINT = {
    "policyName": "string",
    "machineState": "state.NUMANodeMap",
    "entries": "state.ContainerMemoryAssignments",
    "checksum": "checksum.Checksum",
}
_MEMORY_TYPES = Types(
    structs={
        "state.MemoryManagerCheckpoint": _MEMORY_CHECKPOINT,
        "state.MemoryManagerCheckpointV1": _MEMORY_CHECKPOINT,
        "state.NUMANodeState": {
            "numberOfAssignments": "int",
            "memoryMap": "map[v1.ResourceName]*state.MemoryTable",
            "cells": "[]int",
        },
        "state.MemoryTable": {
            "total": "uint64",
            "systemReserved": "uint64",
            "allocatable": "uint64",
            "reserved": "uint64",
            "free": "uint64",
        },
        "state.Block": {"numaAffinity": "[]int", "type": "v1.ResourceName", "size": "uint64"},
    },
    aliases={
        "checksum.Checksum": "uint64",
        "v1.ResourceName": "string",
        "state.NUMANodeMap": "map[int]*state.NUMANodeState",
        "state.ContainerMemoryAssignments": "map[string]map[string][]state.Block",
    },
)


class CheckpointError(ValueError):
    """A state file cannot be restored; the message is the kubelet's own."""


@dataclass(frozen=True)
class CpuState:
    """cpu_manager_state: the shared pool, and the exclusive CPUs by pod UID and container name."""

    policy: str
    default: frozenset[int]
    assignments: Mapping[str, Mapping[str, frozenset[int]]]


@dataclass(frozen=True)
class MemoryState:
    """memory_manager_state as decoded: machine state by NUMA node, blocks by pod UID and container name."""

    policy: str
    machine: Mapping[int, Mapping[str, Any]]
    assignments: Mapping[str, Mapping[str, list[Mapping[str, Any]]]]


@dataclass(frozen=True)
class StateFileRemoval:
    """A state file that must be deleted while the kubelet is stopped and the node drained, and why."""

    path: str
    reason: str


def restore_cpu_state(text: str, policy: str, version: KubeletVersion, path: str) -> CpuState:
    """Restore cpu_manager_state under the configured policy.

    Raises CheckpointError with the text that follows `start cpu manager error: `.
    """
    try:
        return _restored_cpu_state(text, policy, version)
    except CheckpointError as error:
        raise CheckpointError(_restore_error(error, "CPU manager", path)) from error


def restore_memory_state(text: str, policy: str, version: KubeletVersion, path: str) -> MemoryState:
    """Restore memory_manager_state under the configured policy.

    Raises CheckpointError with the text that follows `start memory manager error: `.
    """
    try:
        return _restored_memory_state(text, policy, version)
    except CheckpointError as error:
        raise CheckpointError(_restore_error(error, "memory manager", path)) from error


def check_cpu_state(
    state: CpuState, online: frozenset[int], reserved: frozenset[int], *, strict: bool
) -> str | None:
    """Return why the static policy refuses a restored state, in the kubelet's words, or None.

    `online` are the machine's CPUs, `reserved` the reserved ones, `strict` the option strict-cpu-reservation.
    """
    pool = online - reserved if strict else online
    default = state.default
    if not default:
        return "default cpuset cannot be empty" if state.assignments else None
    if strict and reserved & default:
        return (
            f'some of strictly reserved cpus: "{format_cpulist(reserved & default)}" are present in '
            f'defaultCpuSet: "{format_cpulist(default)}"'
        )
    if not strict and not reserved <= default:
        return (
            f'not all reserved cpus: "{format_cpulist(reserved)}" are present in '
            f'defaultCpuSet: "{format_cpulist(default)}"'
        )
    for pod, containers in sorted(state.assignments.items()):
        for container, cpus in sorted(containers.items()):
            if cpus & default:
                return (
                    f'pod: {pod}, container: {container} cpuset: "{format_cpulist(cpus)}" overlaps with '
                    f'default cpuset "{format_cpulist(default)}"'
                )
    known = default.union(
        *(cpus for containers in state.assignments.values() for cpus in containers.values())
    )
    if known != pool:
        return (
            f'current set of available CPUs "{format_cpulist(pool)}" doesn\'t match with CPUs in state '
            f'"{format_cpulist(known)}"'
        )
    return None


def check_memory_state(state: MemoryState, machine: Mapping[int, Mapping[str, FreshTable]]) -> str | None:
    """Return why the Static policy refuses a restored state, in the kubelet's words, or None.

    `machine` is what a fresh state would hold: by NUMA node and resource ("memory", "hugepages-2Mi").
    """
    if not state.machine:
        if state.assignments:
            return "[memorymanager] machine state can not be empty when it has memory assignments"
        return None
    expected = {
        node: _ExpectedNode({name: [table.free, 0] for name, table in tables.items()}, [node])
        for node, tables in machine.items()
    }
    for pod, containers in sorted(state.assignments.items()):
        for container, blocks in sorted(containers.items()):
            error = _assign(expected, blocks, f"(pod: {pod}, container: {container})")
            if error:
                return f"[memorymanager] {error}"
    if not _same_machine(state.machine, machine, expected):
        return "[memorymanager] the expected machine state is different from the real one"
    return None


@dataclass(frozen=True)
class FreshTable:
    """One resource of one NUMA node in a fresh state, in bytes; `allocatable` wraps below zero, as uint64."""

    total: int
    system_reserved: int
    allocatable: int

    @property
    def free(self) -> int:
        """What is free before any assignment."""
        return self.allocatable


@dataclass
class _ExpectedNode:
    tables: dict[str, list[int]]  # resource -> [free, reserved]
    cells: list[int]
    assignments: int = 0


def state_files_to_remove(
    old_effective: Mapping[str, Any] | None,
    new_effective: Mapping[str, Any],
    *,
    online_changed: bool = False,
    hugepages_changed: bool = False,
    root_dir: str = "/var/lib/kubelet",
) -> tuple[StateFileRemoval, ...]:
    """Return the state files that a change of the effective configuration invalidates, each with its reason.

    Both mappings are effective configurations (`config.loading.effective_config`); None for the
    old one means that it is not known. `online_changed`: CPUs went on- or offline since the kubelet last
    started; `hugepages_changed`: a hugepage pool changed its size. A file that need not go stays: it holds
    the CPUs and the memory of pods that survive the restart.
    """
    cpu = _cpu_state_reason(old_effective, new_effective, online_changed)
    memory = _memory_state_reason(old_effective, new_effective, hugepages_changed)
    reasons = ((CPU_STATE_FILE, cpu), (MEMORY_STATE_FILE, memory))
    return tuple(StateFileRemoval(f"{root_dir}/{name}", reason) for name, reason in reasons if reason)


_UNKNOWN_WRITER = "the configuration under which it was written is not known"


def _cpu_state_reason(
    old: Mapping[str, Any] | None, new: Mapping[str, Any], online_changed: bool
) -> str | None:
    if old is None:
        return _UNKNOWN_WRITER
    before, after = old.get("cpuManagerPolicy", "none"), new.get("cpuManagerPolicy", "none")
    if before != after:
        return f'cpuManagerPolicy changes from "{before}" to "{after}", and the file names the old one'
    if after != "static":
        return None
    if online_changed:
        return "the set of online CPUs changed, and the static policy compares it with the file"
    options = [each.get("cpuManagerPolicyOptions") or {} for each in (old, new)]
    if truth(options[0].get(STRICT_CPU_RESERVATION)) != truth(options[1].get(STRICT_CPU_RESERVATION)):
        return f"{STRICT_CPU_RESERVATION} changes, and with it whether reserved CPUs are in the shared pool"
    if _reservation(old) != _reservation(new):
        return "the reserved CPUs change, and the file's shared pool was computed from the old ones"
    if not new.get("reservedSystemCPUs") and options[0] != options[1]:
        return "cpuManagerPolicyOptions change, which picks other CPUs for a reservation given as a number"
    return None


def _memory_state_reason(
    old: Mapping[str, Any] | None, new: Mapping[str, Any], hugepages_changed: bool
) -> str | None:
    if old is None:
        return _UNKNOWN_WRITER
    before, after = old.get("memoryManagerPolicy", "None"), new.get("memoryManagerPolicy", "None")
    if before != after:
        return f'memoryManagerPolicy changes from "{before}" to "{after}", and the file names the old one'
    if after != "Static":
        return None
    if hugepages_changed:
        return "a hugepage pool changed its size, and the file holds every NUMA node's pools and memory"
    if _sorted_reservations(old) != _sorted_reservations(new):
        return "reservedMemory changes, and the file holds the old reservation of every NUMA node"
    return None


def _reservation(effective: Mapping[str, Any]) -> tuple[Any, ...]:
    cpus = effective.get("reservedSystemCPUs") or ""
    if cpus:
        try:
            return ("set", parse_cpuset(cpus))
        except CpuSetError:
            return ("text", cpus)
    reserved = (effective.get(field) or {} for field in ("kubeReserved", "systemReserved"))
    return ("count", *(each.get("cpu", "0") for each in reserved))


def _sorted_reservations(effective: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return sorted(
        (entry.get("numaNode", 0), tuple(sorted((entry.get("limits") or {}).items())))
        for entry in effective.get("reservedMemory") or []
    )


def _restore_error(error: CheckpointError, manager: str, path: str) -> str:
    instruction = _DRAIN.format(manager=manager, path=f'"{path}"')
    return f"could not restore state from checkpoint: {error}, {instruction}"


def _restored_cpu_state(text: str, policy: str, version: KubeletVersion) -> CpuState:
    newest_first = version.rules_minor >= _FIRST_MINOR_NEWEST_FIRST
    formats = ("CPUManagerCheckpoint", "CPUManagerCheckpointV1")
    order = formats if newest_first else tuple(reversed(formats))
    failure: CheckpointError | None = None
    for name in order:
        try:
            checkpoint = _decoded(text, f"state.{name}", _CPU_TYPES)
            _verify_cpu_checksum(checkpoint, nested=name == formats[0])
        except CheckpointError as error:
            failure = error
            continue
        return _cpu_state(checkpoint, policy, version, nested=name == formats[0])
    raise failure if failure else CheckpointError(_CORRUPT)


def _cpu_state(checkpoint: dict[str, Any], policy: str, version: KubeletVersion, *, nested: bool) -> CpuState:
    entries = checkpoint.get("entries") or {}
    if entries and not nested:
        missing = f"containerID '{min(entries)}' not found in initial containers list"
        if version.rules_minor >= _FIRST_MINOR_NEWEST_FIRST:
            raise CheckpointError(f"failed to migrate checkpoint from v1 to v2: {missing}")
        raise CheckpointError(f"error migrating v1 checkpoint state to v2 checkpoint state: {missing}")
    written = checkpoint.get("policyName", "")
    if written != policy:
        raise CheckpointError(
            f"configured policy {quoted(policy)} differs from state checkpoint policy {quoted(written)}"
        )
    default = checkpoint.get("defaultCpuSet", "")
    try:
        default_set = parse_cpuset(default)
    except CpuSetError as error:
        raise CheckpointError(f"could not parse default cpu set {quoted(default)}: {error}") from error
    return CpuState(
        policy,
        default_set,
        {pod: _container_cpus(pod, containers) for pod, containers in entries.items()},
    )


def _container_cpus(pod: str, containers: Mapping[str, str]) -> dict[str, frozenset[int]]:
    cpus = {}
    for container, text in sorted((containers or {}).items()):
        try:
            cpus[container] = parse_cpuset(text)
        except CpuSetError as error:
            raise CheckpointError(
                f"could not parse cpuset {quoted(text)} for container {quoted(container)} in pod "
                f"{quoted(pod)}: {error}"
            ) from error
    return cpus


def _restored_memory_state(text: str, policy: str, version: KubeletVersion) -> MemoryState:
    has_formats = version.rules_minor >= _FIRST_MINOR_OF_MEMORY_FORMATS
    go_type = "MemoryManagerCheckpointV1" if has_formats else "MemoryManagerCheckpoint"
    checkpoint = _decoded(text, f"state.{go_type}", _MEMORY_TYPES)
    checksum = checkpoint.get("checksum", 0)
    if (checksum or not has_formats) and checksum != _checksum(_memory_dump(checkpoint)):
        raise CheckpointError(_CORRUPT)
    written = checkpoint.get("policyName", "")
    if written != policy:
        raise CheckpointError(
            f"[memorymanager] configured policy {quoted(policy)} differs from state checkpoint policy "
            f"{quoted(written)}"
        )
    # To Go a null map or list is an empty one.
    assignments = {
        pod: {container: blocks or [] for container, blocks in (containers or {}).items()}
        for pod, containers in (checkpoint.get("entries") or {}).items()
    }
    return MemoryState(policy, checkpoint.get("machineState") or {}, assignments)


def _decoded(text: str, go_type: str, types: Types) -> dict[str, Any]:
    try:
        json = parse_json(text)
        value = decode_json(json, go_type, types, in_any_case=True).value
    except GoJsonError as error:
        raise CheckpointError(str(error)) from error
    checkpoint: dict[str, Any] = value if isinstance(value, dict) else {}
    for name in ("entries", "machineState"):
        # The kubelet begins with empty maps: one that is not written stays empty, and null takes it away.
        written = [value for key, value in (json.data or {}).items() if key.lower() == name.lower()]
        if not written:
            checkpoint[name] = {}
        elif written[-1] is None:
            checkpoint.pop(name, None)
    return checkpoint


def _verify_cpu_checksum(checkpoint: dict[str, Any], *, nested: bool) -> None:
    # A file without a checksum comes from a kubelet that did not write one, and is taken as it is.
    written = checkpoint.get("checksum", 0)
    if written and written != _checksum(_cpu_dump(checkpoint, nested=nested)):
        raise CheckpointError(_CORRUPT)


def _cpu_dump(checkpoint: dict[str, Any], *, nested: bool) -> str:
    entries = checkpoint.get("entries")
    if nested and entries is not None:
        entries = {pod: _dumped_map(containers) for pod, containers in entries.items()}
    map_type = "map[string]map[string]string" if nested else "map[string]string"
    return (
        f"(*state.CPUManagerCheckpoint){{PolicyName:(string){checkpoint.get('policyName', '')} "
        f"DefaultCPUSet:(string){checkpoint.get('defaultCpuSet', '')} "
        f"Entries:({map_type}){_dumped_map(entries)} Checksum:(checksum.Checksum)0}}"
    )


def _memory_dump(checkpoint: dict[str, Any]) -> str:
    nodes = _each(checkpoint.get("machineState"), _dumped_node)
    entries = _each(
        checkpoint.get("entries"), lambda containers: _dumped_map(_each(containers, _dumped_blocks))
    )
    return (
        f"(*state.MemoryManagerCheckpoint){{PolicyName:(string){checkpoint.get('policyName', '')} "
        f"MachineState:(state.NUMANodeMap){_dumped_map(nodes)} "
        f"Entries:(state.ContainerMemoryAssignments){_dumped_map(entries)} Checksum:(checksum.Checksum)0}}"
    )


def _dumped_node(state: Mapping[str, Any] | None) -> str:
    if state is None:
        return "<*><nil>"
    tables = _each(state.get("memoryMap"), _dumped_table)
    return (
        f"<*>{{NumberOfAssignments:(int){state.get('numberOfAssignments', 0)} "
        f"MemoryMap:(map[v1.ResourceName]*state.MemoryTable){_dumped_map(tables)} "
        f"Cells:([]int){_dumped_list(state.get('cells'))}}}"
    )


def _dumped_table(table: Mapping[str, Any] | None) -> str:
    if table is None:
        return "<*><nil>"
    return (
        f"<*>{{TotalMemSize:(uint64){table.get('total', 0)} "
        f"SystemReserved:(uint64){table.get('systemReserved', 0)} "
        f"Allocatable:(uint64){table.get('allocatable', 0)} Reserved:(uint64){table.get('reserved', 0)} "
        f"Free:(uint64){table.get('free', 0)}}}"
    )


def _dumped_blocks(blocks: list[Mapping[str, Any]] | None) -> str:
    if blocks is None:
        return "<nil>"
    dumped = (
        f"{{NUMAAffinity:([]int){_dumped_list(block.get('numaAffinity'))} "
        f"Type:(v1.ResourceName){block.get('type', '')} Size:(uint64){block.get('size', 0)}}}"
        for block in blocks
    )
    return f"[{' '.join(dumped)}]"


def _each(entries: Mapping[Any, Any] | None, dumped: Callable[[Any], str]) -> Mapping[Any, str] | None:
    return None if entries is None else {key: dumped(value) for key, value in entries.items()}


def _dumped_map(entries: Mapping[Any, str] | None) -> str:
    if entries is None:
        return "<nil>"
    return f"map[{' '.join(f'{key}:{entries[key]}' for key in sorted(entries))}]"


def _dumped_list(values: list[int] | None) -> str:
    return "<nil>" if values is None else f"[{' '.join(map(str, values))}]"


def _checksum(dump: str) -> int:
    """Return the 32-bit FNV-1a hash (hash/fnv New32a)."""
    value = 0x811C9DC5
    for byte in dump.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def _assign(expected: dict[int, _ExpectedNode], blocks: list[Mapping[str, Any]], owner: str) -> str | None:
    for block in blocks:
        wanted = block.get("size", 0)
        nodes = block.get("numaAffinity") or []
        for node_id in nodes:
            node = expected.get(node_id)
            if node is None:
                return f"{owner} the memory assignment uses the NUMA that does not exist"
            node.assignments += 1
            node.cells = nodes
            table = node.tables.get(block.get("type", ""))
            if table is None:
                return f"{owner} the memory assignment uses memory resource that does not exist"
            taken = min(table[0], wanted)
            table[0] -= taken
            table[1] += taken
            wanted -= taken
    return None


def _same_machine(
    written: Mapping[int, Mapping[str, Any]],
    machine: Mapping[int, Mapping[str, FreshTable]],
    expected: Mapping[int, _ExpectedNode],
) -> bool:
    # A kubelet panics on a node or table that is null, unless it finds another difference first.
    if set(written) != set(machine) or not all(map(_is_whole, written.values())):
        return False
    return all(_same_node(node, written, machine, expected) for node in written)


def _is_whole(state: Mapping[str, Any] | None) -> bool:
    return state is not None and None not in (state.get("memoryMap") or {}).values()


def _same_node(
    node: int,
    written: Mapping[int, Mapping[str, Any]],
    machine: Mapping[int, Mapping[str, FreshTable]],
    expected: Mapping[int, _ExpectedNode],
) -> bool:
    state = written[node]
    tables = state.get("memoryMap") or {}
    cells = state.get("cells") or []
    if state.get("numberOfAssignments", 0) != expected[node].assignments:
        return False
    if sorted(cells) != sorted(expected[node].cells) or set(tables) != set(machine[node]):
        return False
    if not all(
        cell in written and name in (written[cell].get("memoryMap") or {})
        for cell in cells
        for name in tables
    ):
        return False
    for name, fresh in machine[node].items():
        table = tables[name]
        sizes = (table.get("total", 0), table.get("systemReserved", 0), table.get("allocatable", 0))
        if sizes != (fresh.total, fresh.system_reserved, fresh.allocatable):
            return False
        # Within a group of NUMA nodes only the sums must agree: which node gave what is not recorded.
        for index, field in enumerate(("free", "reserved")):
            held = sum(written[cell]["memoryMap"][name].get(field, 0) for cell in cells)
            if held != sum(expected[cell].tables[name][index] for cell in cells):
                return False
    return True
