"""The resource managers' state files: how a kubelet restores them, and which ones a change invalidates.

Sources: pkg/kubelet/cm/cpumanager/state, pkg/kubelet/cm/memorymanager/state (state_checkpoint.go,
checkpoint.go), validateState in their policy_static.go, and github.com/davecgh/go-spew, whose dump is
the input of the checksum.

Formats of cpu_manager_state: 1 has one level of entries, 2 adds a level for pods, 3 adds allocations of whole
pods (1.36, feature gate PodLevelResourceManagers). 4 (from 1.37 on) has all of this in the text `data` with
its own checksum, beside the fields of format 2 for older kubelets. The memory manager's formats 1, 2 and 3
correspond to 2, 3 and 4.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numaforge.kubelet_minors.options import STRICT_CPU_RESERVATION
from numaforge.kubelet_minors.values.cpusets import CpuSetError, parse_cpuset
from numaforge.kubelet_minors.values.gojson import GoJsonError, Json, Types, decode, decode_json, parse_json
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.values.numbers import truth
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.kubelet_paths import ROOT_DIR

CPU_STATE_FILE = "cpu_manager_state"
MEMORY_STATE_FILE = "memory_manager_state"

_CORRUPT = "checkpoint is corrupted"
_DRAIN = "please drain this node and delete the {manager} checkpoint file {path} before restarting Kubelet"

# From this minor on the newest format is tried first, and the error of the oldest format is reported.
_FIRST_MINOR_NEWEST_FIRST = 36
# From this minor on the memory manager's file has formats 1 and 2, and a file without a checksum is accepted.
_FIRST_MINOR_OF_MEMORY_FORMATS = 36
# From this minor on only the sums over a group of NUMA nodes must match: the share of each is not recorded,
# and differs once one of several pods has gone. Before, each NUMA node is compared.
_FIRST_MINOR_OF_GROUP_SUMS = 32
# From this minor on the state is a text in the file, with its own checksum.
_FIRST_MINOR_WITH_DATA = 37


def policy_in(text: str | None) -> str | None:
    """Return the policy named in a state file; None where it names none or cannot be parsed."""
    try:
        state = json.loads(text) if text else None
    except ValueError:
        return None
    policy = state.get("policyName") if isinstance(state, dict) else None
    return policy if isinstance(policy, str) else None


def _pod_cpus(value: Any) -> frozenset[int]:
    """Parse the CPUs of a whole pod, `{"cpuSet": "0-3"}`, as PodEntry.UnmarshalJSON does."""
    entry = decode(value, "state.podEntryJSON", _POD_ENTRY, as_written=True, in_any_case=True).value or {}
    try:
        return parse_cpuset(entry.get("cpuSet", ""))
    except CpuSetError as error:
        raise ValueError(f"failed to parse cpuset: {error}") from error


_POD_ENTRY = Types(structs={"state.podEntryJSON": {"cpuSet": "string"}})
_CHECKSUM = {"checksum": "checksum.Checksum"}
_DATA_FIELDS = {"data": "string", "dataChecksum": "checksum.Checksum"}
_PODS = {"podEntries": "map[string]state.PodEntry"}


def _cpu_fields(entries: str, **more: str) -> dict[str, str]:
    return {"policyName": "string", "defaultCpuSet": "string", "entries": entries, **more}


_NESTED = _cpu_fields("map[string]map[string]string")
_CPU_TYPES = Types(
    structs={
        "state.CPUManagerCheckpoint": {**_NESTED, **_CHECKSUM},
        "state.CPUManagerCheckpointV1": _cpu_fields("map[string]string", **_CHECKSUM),
        "state.CPUManagerCheckpointV2": {**_NESTED, **_CHECKSUM},
        "state.CPUManagerCheckpointV3": {**_NESTED, **_PODS, **_CHECKSUM},
        "state.CPUManagerCheckpointV4": {**_NESTED, **_CHECKSUM, **_DATA_FIELDS},
        "state.CPUManagerCheckpointData": {
            **_NESTED,
            **_PODS,
            "baselines": "map[string]map[string]state.ContainerCPUs",
        },
        "state.ContainerCPUs": {"baseline": "string"},
    },
    aliases={"checksum.Checksum": "uint64"},
    parsers={"state.PodEntry": _pod_cpus},
    read_null=frozenset({"state.PodEntry"}),
)
_MEMORY_FIELDS = {
    "policyName": "string",
    "machineState": "state.NUMANodeMap",
    "entries": "state.ContainerMemoryAssignments",
}
_MEMORY_TYPES = Types(
    structs={
        "state.MemoryManagerCheckpoint": {**_MEMORY_FIELDS, **_CHECKSUM},
        "state.MemoryManagerCheckpointV1": {**_MEMORY_FIELDS, **_CHECKSUM},
        "state.MemoryManagerCheckpointV2": {**_MEMORY_FIELDS, **_PODS, **_CHECKSUM},
        "state.MemoryManagerCheckpointV3": {**_MEMORY_FIELDS, **_CHECKSUM, **_DATA_FIELDS},
        "state.MemoryManagerCheckpointData": {**_MEMORY_FIELDS, **_PODS},
        "state.PodEntry": {"memoryBlocks": "[]state.Block"},
        "state.NUMANodeState": {
            "numberOfAssignments": "int",
            "memoryMap": "map[v1.ResourceName]*state.MemoryTable",
            "cells": "[]int",
        },
        "state.MemoryTable": dict.fromkeys(
            ("total", "systemReserved", "allocatable", "reserved", "free"), "uint64"
        ),
        "state.Block": {"numaAffinity": "[]int", "type": "v1.ResourceName", "size": "uint64"},
    },
    aliases={
        "checksum.Checksum": "uint64",
        "v1.ResourceName": "string",
        "state.NUMANodeMap": "map[int]*state.NUMANodeState",
        "state.ContainerMemoryAssignments": "map[string]map[string][]state.Block",
    },
)
# The fields of Go's structs whose name is not the capitalized one of JSON.
_GO_NAMES = {"defaultCpuSet": "DefaultCPUSet", "total": "TotalMemSize", "numaAffinity": "NUMAAffinity"}


class CheckpointError(ValueError):
    """A state file cannot be restored; the message is the kubelet's own."""


@dataclass(frozen=True)
class CpuState:
    """cpu_manager_state: the shared pool, and the exclusive CPUs by pod UID and container name.

    `pods` are the CPUs of pods that are managed as one unit, by pod UID.
    """

    default: frozenset[int]
    assignments: Mapping[str, Mapping[str, frozenset[int]]]
    pods: Mapping[str, frozenset[int]] = field(default_factory=dict)

    @property
    def known_cpus(self) -> frozenset[int]:
        """The CPUs that are shared or allocated."""
        allocated = (cpus for containers in self.assignments.values() for cpus in containers.values())
        return self.default.union(*allocated, *self.pods.values())


@dataclass(frozen=True)
class MemoryState:
    """memory_manager_state as decoded: machine state by NUMA node, blocks by pod UID and container name.

    `pods` are the blocks of pods that are managed as one unit, by pod UID.
    """

    machine: Mapping[int, Mapping[str, Any]]
    assignments: Mapping[str, Mapping[str, list[Mapping[str, Any]]]]
    pods: Mapping[str, list[Mapping[str, Any]]] = field(default_factory=dict)


class StateFileRemoval(NamedTuple):
    """A state file that must be deleted while the kubelet is stopped and the node drained, and why."""

    path: str
    reason: str


@contextmanager
def _restoring(manager: str, path: str) -> Iterator[None]:
    """Wrap a CheckpointError in the kubelet's message that the state was not restored, and what to do."""
    try:
        yield
    except CheckpointError as error:
        instruction = _DRAIN.format(manager=manager, path=f'"{path}"')
        raise CheckpointError(f"could not restore state from checkpoint: {error}, {instruction}") from error


def restore_cpu_state(
    text: str, policy: str, version: KubeletVersion, path: str, *, by_pod: bool = False
) -> CpuState:
    """Restore cpu_manager_state under the configured policy; `by_pod`: PodLevelResourceManagers is on.

    Raises CheckpointError with the message after `start cpu manager error: `.
    """
    minor = version.rules_minor
    with _restoring("CPU manager", path):
        formats = _cpu_formats(minor, by_pod=by_pod)
        checkpoint, read = _from_file(text, minor, _CPU_TYPES, _CPU_DATA, formats)
        return _cpu_state(checkpoint, policy, version, nested=read is not _CPU_V1, by_pod=by_pod)


def restore_memory_state(
    text: str, policy: str, version: KubeletVersion, path: str, *, by_pod: bool = False
) -> MemoryState:
    """Restore memory_manager_state under the configured policy; `by_pod`: PodLevelResourceManagers is on.

    Raises CheckpointError with the message after `start memory manager error: `.
    """
    minor = version.rules_minor
    with _restoring("memory manager", path):
        formats = _memory_formats(minor, by_pod=by_pod)
        checkpoint, _ = _from_file(text, minor, _MEMORY_TYPES, _MEMORY_DATA, formats)
        written = checkpoint.get("policyName", "")
        if written != policy:
            raise CheckpointError(
                f"[memorymanager] configured policy {quoted(policy)} differs from state checkpoint policy "
                f"{quoted(written)}"
            )
    # Go reads a null map or list as an empty one.
    assignments = {
        pod: {container: blocks or [] for container, blocks in (containers or {}).items()}
        for pod, containers in (checkpoint.get("entries") or {}).items()
    }
    pods = (checkpoint.get("podEntries") or {}) if by_pod else {}
    return MemoryState(
        checkpoint.get("machineState") or {},
        assignments,
        {pod: entry.get("memoryBlocks") or [] for pod, entry in pods.items()},
    )


def check_cpu_state(
    state: CpuState,
    online: frozenset[int],
    reserved: frozenset[int],
    *,
    strict: bool,
    running: bool = False,
) -> str | None:
    """Return the kubelet's message where the static policy rejects a restored state, or None.

    `online` are the machine's CPUs, `reserved` the reserved ones, `strict` the option strict-cpu-reservation.
    A `running` kubelet may have allocated its last CPU (kubernetes/kubernetes#141196) or a CPU twice, and
    while it updates the file a CPU may be missing from it.
    """
    pool = online - reserved if strict else online
    default = state.default
    if not default and not (running and state.assignments):
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
            if cpus & default and not running:
                return (
                    f'pod: {pod}, container: {container} cpuset: "{format_cpulist(cpus)}" overlaps with '
                    f'default cpuset "{format_cpulist(default)}"'
                )
    if state.known_cpus - pool or (state.known_cpus != pool and not running):
        return (
            f'current set of available CPUs "{format_cpulist(pool)}" doesn\'t match with CPUs in state '
            f'"{format_cpulist(state.known_cpus)}"'
        )
    return None


def check_memory_state(
    state: MemoryState,
    machine: "Mapping[int, Mapping[str, FreshTable]]",
    minor: int,
    *,
    running: bool = False,
) -> str | None:
    """Return the kubelet's message where the Static policy rejects a restored state, or None.

    `machine` is what a fresh state would hold: by NUMA node and resource ("memory", "hugepages-2Mi"). `minor`
    is that of the rules. For a
    `running` kubelet the state only needs to match this machine.
    """
    if not state.machine:
        if state.assignments:
            return "[memorymanager] machine state can not be empty when it has memory assignments"
        return None
    expected = {
        node: _ExpectedNode({name: [table.allocatable, 0] for name, table in tables.items()}, [node])
        for node, tables in machine.items()
    }
    for pod, containers in sorted(state.assignments.items()):
        by_container = {"": state.pods[pod]} if state.pods.get(pod) else containers
        for container, blocks in sorted(by_container.items()):
            error = _assign(expected, blocks, f"(pod: {pod}, container: {container})")
            if error:
                return f"[memorymanager] {error}"
    by_group = minor >= _FIRST_MINOR_OF_GROUP_SUMS
    if not _same_machine(state.machine, machine, None if running else expected, by_group=by_group):
        return "[memorymanager] the expected machine state is different from the real one"
    return None


class FreshTable(NamedTuple):
    """One resource of one NUMA node in a fresh state, in bytes; `allocatable` wraps below zero, as uint64."""

    total: int
    system_reserved: int
    allocatable: int


@dataclass
class _ExpectedNode:
    tables: dict[str, list[int]]  # resource -> [free, reserved]
    cells: list[int]
    assignments: int = 0


def state_files_to_remove(
    old_effective: Mapping[str, Any] | None,
    new_effective: Mapping[str, Any],
    *,
    hugepages_changed: bool = False,
    memory_changed: bool = False,
    root_dir: str = ROOT_DIR,
) -> tuple[StateFileRemoval, ...]:
    """Return the state files that a change of the effective configuration invalidates, each with its reason.

    Both mappings are effective configurations (`Configuration.settings`); the old one is None where unknown.
    `hugepages_changed`: a hugepage pool changed its size; `memory_changed`: a NUMA node's memory changed.
    Valid files are kept: they hold the CPUs and memory of pods that survive the restart. CPUs that go on- or
    offline are found by reading the file instead.
    """
    cpu = _cpu_state_reason(old_effective, new_effective)
    memory = _memory_state_reason(old_effective, new_effective, hugepages_changed, memory_changed)
    reasons = ((CPU_STATE_FILE, cpu), (MEMORY_STATE_FILE, memory))
    return tuple(StateFileRemoval(f"{root_dir}/{name}", reason) for name, reason in reasons if reason)


_UNKNOWN_WRITER = "the configuration under which it was written is not known"


def _cpu_state_reason(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> str | None:
    if old is None:
        return _UNKNOWN_WRITER
    old_policy, new_policy = old.get("cpuManagerPolicy", "none"), new.get("cpuManagerPolicy", "none")
    if old_policy != new_policy:
        return (
            f'cpuManagerPolicy changes from "{old_policy}" to "{new_policy}", and the file names the old one'
        )
    if new_policy != "static":
        return None
    options = [config.get("cpuManagerPolicyOptions") or {} for config in (old, new)]
    if truth(options[0].get(STRICT_CPU_RESERVATION)) != truth(options[1].get(STRICT_CPU_RESERVATION)):
        return f"{STRICT_CPU_RESERVATION} changes, and with it whether reserved CPUs are in the shared pool"
    if _reservation(old) != _reservation(new):
        return "the reserved CPUs change, and the file's shared pool was computed from the old ones"
    if not new.get("reservedSystemCPUs") and options[0] != options[1]:
        return "cpuManagerPolicyOptions change, which picks other CPUs for a reservation given as a number"
    return None


def _memory_state_reason(
    old: Mapping[str, Any] | None, new: Mapping[str, Any], hugepages_changed: bool, memory_changed: bool
) -> str | None:
    if old is None:
        return _UNKNOWN_WRITER
    old_policy, new_policy = old.get("memoryManagerPolicy", "None"), new.get("memoryManagerPolicy", "None")
    if old_policy != new_policy:
        change = f'from "{old_policy}" to "{new_policy}"'
        return f"memoryManagerPolicy changes {change}, and the file names the old one"
    if new_policy != "Static":
        return None
    if hugepages_changed:
        return "a hugepage pool changed its size, and the file holds every NUMA node's pools and memory"
    if memory_changed:
        return "the NUMA nodes of GPUs change their memory, and the file holds that of every NUMA node"
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
    return ("count", *(reservation.get("cpu", "0") for reservation in reserved))


def _sorted_reservations(effective: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return sorted(
        (entry.get("numaNode", 0), tuple(sorted((entry.get("limits") or {}).items())))
        for entry in effective.get("reservedMemory") or []
    )


class _Format(NamedTuple):
    """A format of a checkpoint; `bare`: accepted without a checksum."""

    go_type: str
    bare: bool = True


_CPU_V1 = _Format("CPUManagerCheckpointV1")
_CPU_V2 = _Format("CPUManagerCheckpointV2")
_CPU_V3 = _Format("CPUManagerCheckpointV3", bare=False)
_CPU_DATA = ("CPUManagerCheckpoint", "V4", "V2", "cpu")
_MEMORY_V1 = _Format("MemoryManagerCheckpointV1")
_MEMORY_V2 = _Format("MemoryManagerCheckpointV2", bare=False)
_MEMORY_DATA = ("MemoryManagerCheckpoint", "V3", "V1", "memory")


def _cpu_formats(minor: int, *, by_pod: bool) -> tuple[_Format, ...]:
    """Return the formats that a kubelet tries, in order; the last one gives the error."""
    if minor >= _FIRST_MINOR_WITH_DATA:
        return _CPU_V3, _CPU_V2
    if minor >= _FIRST_MINOR_NEWEST_FIRST:
        return (_CPU_V3, _CPU_V2, _CPU_V1) if by_pod else (_CPU_V2, _CPU_V1)
    return _CPU_V1, _Format("CPUManagerCheckpoint")


def _memory_formats(minor: int, *, by_pod: bool) -> tuple[_Format, ...]:
    if minor >= _FIRST_MINOR_WITH_DATA or (minor >= _FIRST_MINOR_OF_MEMORY_FORMATS and by_pod):
        return _MEMORY_V2, _MEMORY_V1
    if minor >= _FIRST_MINOR_OF_MEMORY_FORMATS:
        return (_MEMORY_V1,)
    return (_Format("MemoryManagerCheckpoint", bare=False),)


def _from_file(
    text: str, minor: int, types: Types, data: tuple[str, str, str, str], formats: Sequence[_Format]
) -> tuple[dict[str, Any], _Format | None]:
    """Return a checkpoint in the first format that fits; the format is None for that in the `data` field.

    Raises the CheckpointError of the last format.
    """
    if minor >= _FIRST_MINOR_WITH_DATA and (newest := _from_data(text, types, *data)) is not None:
        return newest, None
    failure = CheckpointError(_CORRUPT)
    for tried in formats:
        go_type = f"state.{tried.go_type}"
        try:
            checkpoint = _decoded(text, go_type, types)
        except CheckpointError as error:
            failure = error
            continue
        written = checkpoint.get("checksum", 0)
        dump = f"(*{re.sub('V[0-9]$', '', go_type)}){_dumped({**checkpoint, 'checksum': 0}, go_type, types)}"
        if (tried.bare and not written) or written == _checksum(dump):
            return checkpoint, tried
        failure = CheckpointError(_CORRUPT)
    raise failure


def _from_data(
    text: str, types: Types, name: str, newest: str, inline: str, manager: str
) -> dict[str, Any] | None:
    """Return the checkpoint in the file's `data` field, or None where there is none.

    With this field or its checksum present, a kubelet does not fall back to another format.
    """
    try:
        json = parse_json(text)
    except GoJsonError:
        return None
    data = _lenient_field(json, "data", "string") or ""
    checksum = _lenient_field(json, "dataChecksum", "uint64") or 0
    if not data and not checksum:
        return None
    failed = f"could not load {newest.lower()} checkpoint: "
    unread = f"{failed}failed to deserialize {manager} manager checkpoint"
    try:
        decode_json(json, f"state.{name}{newest}", types, in_any_case=True)
    except GoJsonError as error:
        raise CheckpointError(f"{unread}: {_with_embedded(str(error), name, newest, inline)}") from error
    try:
        checkpoint = _decoded(data, f"state.{name}Data", types)
    except CheckpointError as error:
        raise CheckpointError(f"{unread} data: {error}") from error
    if checksum != _checksum(f"(string){data}"):
        raise CheckpointError(f"{failed}{_CORRUPT}")
    return checkpoint


def _lenient_field(json: Json, name: str, go_type: str) -> Any:
    """Return one field as Go decodes it, whatever is wrong with other fields."""
    try:
        decoded = decode_json(json, "field", Types(structs={"field": {name: go_type}}), in_any_case=True)
    except GoJsonError:
        return None
    return decoded.value.get(name) if isinstance(decoded.value, dict) else None


def _with_embedded(error: str, name: str, newest: str, inline: str) -> str:
    """Return an error with the struct names that Go prints: the embedded struct for its own fields."""
    fields = "|".join(_DATA_FIELDS)
    return re.sub(
        rf"(?<=Go struct field ){name}{newest}\.(?!(?:{fields})\b)", f"{name}.{name}{inline}.", error
    ).replace(f"{name}{newest}", name)


def _cpu_state(
    checkpoint: dict[str, Any], policy: str, version: KubeletVersion, *, nested: bool, by_pod: bool
) -> CpuState:
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
        word = "CPU" if version.rules_minor >= _FIRST_MINOR_WITH_DATA else "cpu"
        raise CheckpointError(f"could not parse default {word} set {quoted(default)}: {error}") from error
    return CpuState(
        default_set,
        {pod: _container_cpus(pod, containers) for pod, containers in entries.items()},
        (checkpoint.get("podEntries") or {}) if by_pod else {},
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


def _decoded(text: str, go_type: str, types: Types) -> dict[str, Any]:
    try:
        json = parse_json(text)
        value = decode_json(json, go_type, types, in_any_case=True).value
    except GoJsonError as error:
        raise CheckpointError(str(error)) from error
    checkpoint: dict[str, Any] = value if isinstance(value, dict) else {}
    for name in ("entries", "machineState", "podEntries", "baselines"):
        # The kubelet starts with empty maps: a missing field leaves the map empty, null removes it.
        written = [value for key, value in (json.data or {}).items() if key.lower() == name.lower()]
        if not written:
            checkpoint[name] = {}
        elif written[-1] is None:
            checkpoint.pop(name, None)
    return checkpoint


def _dumped(value: Any, go_type: str, types: Types) -> str:
    """Return a value as go-spew prints it for the kubelet's checksums."""
    if go_type.startswith("*"):
        return f"<*>{'<nil>' if value is None else _dumped(value, go_type[1:], types)}"
    if isinstance(value, frozenset):
        elements = " ".join(f"{cpu}:{{}}" for cpu in sorted(value))
        return f"{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}})map[{elements}]}}}}"
    plain = types.aliases.get(go_type, go_type)
    if plain in types.structs:
        fields = (
            f"{_GO_NAMES.get(name, name[0].upper() + name[1:])}:({_shown_type(name, field_type, types)})"
            f"{_dumped(value.get(name), field_type, types)}"
            for name, field_type in types.structs[plain].items()
        )
        return f"{{{' '.join(fields)}}}"
    if not plain.startswith(("map[", "[]")):
        return str(("" if plain == "string" else 0) if value is None else value)
    if value is None:
        return "<nil>"
    if plain.startswith("[]"):
        return f"[{' '.join(_dumped(item, plain[2:], types) for item in value)}]"
    item_type = plain.partition("]")[2]
    return f"map[{' '.join(f'{key}:{_dumped(value[key], item_type, types)}' for key in sorted(value))}]"


def _shown_type(name: str, go_type: str, types: Types) -> str:
    if name != "podEntries":
        return go_type
    return "state.PodCPUAssignments" if types is _CPU_TYPES else "state.PodMemoryAssignments"


def _checksum(dump: str) -> int:
    """Return the 32-bit FNV-1a hash (hash/fnv New32a)."""
    value = 0x811C9DC5
    for byte in dump.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def _assign(expected: dict[int, _ExpectedNode], blocks: list[Mapping[str, Any]], owner: str) -> str | None:
    for block in blocks:
        remaining = block.get("size", 0)
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
            part = min(table[0], remaining)
            table[0] -= part
            table[1] += part
            remaining -= part
    return None


def _same_machine(
    written: Mapping[int, Mapping[str, Any]],
    machine: Mapping[int, Mapping[str, FreshTable]],
    expected: Mapping[int, _ExpectedNode] | None,
    *,
    by_group: bool,
) -> bool:
    # A kubelet panics on a null node or table, unless it finds another difference first.
    if set(written) != set(machine) or None in written.values():
        return False
    tables = {node: state.get("memoryMap") or {} for node, state in written.items()}
    if not all(_same_sizes(tables[node], machine[node]) for node in written):
        return False
    return expected is None or all(
        _same_node(node, state, tables, expected, by_group=by_group) for node, state in written.items()
    )


def _same_sizes(tables: Mapping[str, Any], machine: Mapping[str, FreshTable]) -> bool:
    names = ("total", "systemReserved", "allocatable")
    return None not in tables.values() and machine == {
        resource: tuple(table.get(name, 0) for name in names) for resource, table in tables.items()
    }


def _same_node(
    node: int,
    state: Mapping[str, Any],
    tables: Mapping[int, Mapping[str, Any]],
    expected: Mapping[int, _ExpectedNode],
    *,
    by_group: bool,
) -> bool:
    cells: list[int] = state.get("cells") or []
    if state.get("numberOfAssignments", 0) != expected[node].assignments:
        return False
    if sorted(cells) != sorted(expected[node].cells):
        return False
    if not all(cell in tables and tables[node].keys() <= tables[cell].keys() for cell in cells):
        return False
    compared = cells if by_group else [node]
    return all(
        sum(tables[cell][resource].get(amount, 0) for cell in compared)
        == sum(expected[cell].tables[resource][index] for cell in compared)
        for resource in tables[node]
        for index, amount in enumerate(("free", "reserved"))
    )
