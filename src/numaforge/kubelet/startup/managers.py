"""How the topology, CPU and memory managers are set up, and what they reject.

Sources: NewManager and policy_options.go below pkg/kubelet/cm/topologymanager, cpumanager and memorymanager.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple

from numaforge.kubelet.admission.assignment import AssignmentError, CpuOptions, take
from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.masks import ids_of
from numaforge.kubelet.admission.memory_manager import fresh_memory
from numaforge.kubelet.checkpoints import FreshTable
from numaforge.kubelet.config.loading import Configuration
from numaforge.kubelet.findings import Fault, fault
from numaforge.kubelet_minors.options import (
    DEFAULT_MAX_NUMA_NODES,
    MAX_ALLOWABLE_NUMA_NODES,
    PREFER_CLOSEST_NUMA,
    OptionState,
    cpu_options,
    forbidden_pairs,
    known_versions_of,
    topology_options,
)
from numaforge.kubelet_minors.values.cpusets import CpuSetError, atoi
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.values.numbers import parse_bool
from numaforge.kubelet_minors.values.pages import in_pages
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.quantity import ZERO, Quantity

_UINT64 = 2**64

# From this minor on the topology manager's errors about options are in lower case.
_FIRST_MINOR_OF_LOWER_CASE = 33
# From this minor on the memory manager knows the policy of another operating system.
_FIRST_MINOR_WITH_BEST_EFFORT = 32


class SetupError(Exception):
    """A step of the start is refused: the fault's evidence is the kubelet's message behind `prefix`."""

    def __init__(self, fault: Fault, prefix: str = "failed to run Kubelet: ") -> None:
        super().__init__(fault.evidence)
        self.fault = fault
        self.prefix = prefix


class CpuManagerSetup(NamedTuple):
    """The CPU manager as configured: `reserved` is empty under policy none."""

    policy: str
    options: CpuOptions = CpuOptions()
    reserved: frozenset[int] = frozenset()


@dataclass(frozen=True)
class MemoryManagerSetup:
    """The memory manager as configured: what a fresh state holds, by NUMA node and resource."""

    policy: str
    machine: Mapping[int, Mapping[str, FreshTable]] = field(default_factory=dict)


def set_up_topology_manager(configuration: Configuration, machine: MachineInfo) -> None:
    """Check the topology manager's options against this kubelet and machine. Raises SetupError."""
    settings = configuration.settings
    if settings["topologyManagerPolicy"] == "none":
        return
    limit = DEFAULT_MAX_NUMA_NODES
    closest = False
    options = topology_options(configuration.version)
    for name, text in sorted((settings.get("topologyManagerPolicyOptions") or {}).items()):
        path = f"topologyManagerPolicyOptions.{name}"
        _require_option(name, options, "Topology", path, configuration)
        if name == PREFER_CLOSEST_NUMA:
            closest = _bool_option(name, text, path)
        elif name == MAX_ALLOWABLE_NUMA_NODES:
            limit = _node_limit(text)
    if closest and not machine.tells_distances:
        raise SetupError(fault("NF210", "distances"))
    if (count := len(machine.nodes)) > limit:
        text = "main" if MAX_ALLOWABLE_NUMA_NODES in options else "no option"
        raise SetupError(fault("NF211", text, limit=limit, count=count))


def set_up_cpu_manager(
    configuration: Configuration,
    machine: MachineInfo,
    *,
    reserved: frozenset[int] | None,
    reservation: Mapping[str, Quantity],
) -> CpuManagerSetup:
    """Check the CPU manager's policy, options and reservation, and return it with its reserved CPUs.

    `reserved` are reservedSystemCPUs, None where they were refused; `reservation` is what Node Allocatable
    reserves. Raises SetupError.
    """
    settings = configuration.settings
    policy = settings["cpuManagerPolicy"]
    options = settings.get("cpuManagerPolicyOptions") or {}
    if policy == "none":
        if options:
            raise SetupError(fault("NF210", "none policy", options=shown_map(options)))
        return CpuManagerSetup(policy)
    if policy != "static":
        raise SetupError(fault("NF205", "CPU manager", policy=policy))
    count = _reserved_count(reservation, machine) if reserved is not None else 0
    try:
        parsed = _static_options(options, configuration)
        if parsed.align_by_socket and settings["topologyManagerPolicy"] == "single-numa-node":
            raise SetupError(fault("NF210", "single NUMA node"))
        if parsed.align_by_socket and machine.cpus.num_sockets > machine.cpus.num_numa_nodes:
            raise SetupError(fault("NF210", "sockets"))
        if reserved is None:
            return CpuManagerSetup(policy, parsed)
        chosen = reserved or _chosen(machine, parsed, count, configuration.minor)
        if len(chosen) != count:
            most = machine.cpus.num_cpus
            raise SetupError(fault("NF213", chosen=format_cpulist(chosen), count=count, most=most))
    except SetupError as error:
        evidence = f"new static policy error: {error}"
        raise SetupError(error.fault._replace(evidence=evidence)) from error
    return CpuManagerSetup(policy, parsed, chosen)


def _chosen(machine: MachineInfo, options: CpuOptions, count: int, minor: int) -> frozenset[int]:
    try:
        return ids_of(take(machine.cpus, options, machine.cpus.cpus, count, minor))
    except AssignmentError:
        return frozenset()


def set_up_memory_manager(
    configuration: Configuration,
    machine: MachineInfo,
    *,
    reservation: Mapping[str, Quantity],
    parts: Mapping[str, Quantity | None],
) -> MemoryManagerSetup:
    """Check the memory manager's policy and reservedMemory, and return it. Raises SetupError.

    `parts` are the summands of the reserved memory, by the setting that has them.
    """
    settings = configuration.settings
    policy = settings["memoryManagerPolicy"]
    if policy == "None":
        return MemoryManagerSetup(policy)
    if policy == "BestEffort" and configuration.minor >= _FIRST_MINOR_WITH_BEST_EFFORT:
        raise SetupError(fault("NF205", "BestEffort"))
    if policy != "Static":
        raise SetupError(fault("NF205", "memory manager", policy=quoted(policy)))
    entries = settings.get("reservedMemory") or []
    node_ids = {node.id for node in machine.nodes}
    for index, entry in enumerate(entries):
        node = entry.get("numaNode", 0)
        if node not in node_ids:
            raise SetupError(fault("NF214", index=index, node=node, nodes=format_cpulist(node_ids)))
    _require_sum(entries, reservation, parts, machine)
    reserved = _reserved_by_node(entries)
    if sum(limits.get("memory", 0) for limits in reserved.values()) % _UINT64 == 0:
        raise SetupError(fault("NF217"))
    return MemoryManagerSetup(policy, fresh_memory(machine, reserved))


def shown_map(entries: Mapping[str, str]) -> str:
    """Return a map as Go's %v prints it."""
    return f"map[{' '.join(f'{key}:{entries[key]}' for key in sorted(entries))}]"


def _require_option(
    name: str, options: Mapping[str, OptionState], manager: str, path: str, configuration: Configuration
) -> None:
    option = options.get(name)
    if option is None:
        minors = known_versions_of(name)
        remedy = f"use one of {', '.join(options)}"
        if minors:
            remedy = f"the option exists from kubelet 1.{min(minors)} on: upgrade, or remove it"
        raise SetupError(fault("NF206", path=path, manager=manager, option=quoted(name), remedy=remedy))
    if option.gate is None or configuration.enabled(option.gate):
        return
    prefix = f"{manager} Manager Policy {option.maturity.capitalize()}-level Options"
    if manager == "Topology" and configuration.minor >= _FIRST_MINOR_OF_LOWER_CASE:
        prefix = prefix.lower()
    raise SetupError(fault("NF207", path=path, prefix=prefix, name=name, gate=option.gate))


def _bool_option(name: str, text: str, path: str) -> bool:
    try:
        return parse_bool(text)
    except ValueError as error:
        reason = "commas" if "=" in text else "boolean"
        raise SetupError(fault("NF208", reason, path=path, name=name, error=error)) from error


def _node_limit(text: str) -> int:
    try:
        limit = atoi(text)
    except CpuSetError as error:
        raise SetupError(fault("NF208", "limit", error=error)) from error
    if limit < DEFAULT_MAX_NUMA_NODES:
        raise SetupError(fault("NF208", "low limit"))
    return limit


def _reserved_count(reservation: Mapping[str, Quantity], machine: MachineInfo) -> int:
    if (cpus := reservation.get("cpu")) is not None:
        return ceil(cpus.milli_ceiling() / 1000)
    first: dict[int, int] = {}
    for cpu_place in machine.cpus.places.values():
        first[cpu_place.numa_node] = min(cpu_place.core, first.get(cpu_place.numa_node, cpu_place.core))
    cores = set(first.values())
    lowest = (cpu for cpu, cpu_place in machine.cpus.places.items() if cpu_place.core in cores)
    raise SetupError(fault("NF212", cores=format_cpulist(lowest)))


def _static_options(options: Mapping[str, str], configuration: Configuration) -> CpuOptions:
    parsed = {}
    for name, text in sorted(options.items()):
        path = f"cpuManagerPolicyOptions.{name}"
        _require_option(name, cpu_options(configuration.version), "CPU", path, configuration)
        parsed[name] = _bool_option(name, text, path)
    for pair in forbidden_pairs(configuration.version):
        if parsed.get(pair.first) and parsed.get(pair.second):
            raise SetupError(fault("NF209", first=pair.first, second=pair.second))
    return CpuOptions.of(parsed)


def shares_of(total: Quantity, machine: MachineInfo) -> list[tuple[int, str]]:
    """Return how a sum divides over the NUMA nodes that have CPUs and memory; the first has the rest.

    A sum that is no whole number of MiB goes to the first NUMA node.
    """
    with_memory = {node.id for node in machine.nodes if node.memory_bytes}
    nodes = sorted(with_memory & machine.cpus.numa_nodes.keys()) or [0]
    mib = total.amount / 2**20
    if mib.denominator != 1 or mib < len(nodes):
        return [(nodes[0], str(total))]
    share, rest = divmod(int(mib), len(nodes))
    return [(node, f"{share + rest if node == nodes[0] else share}Mi") for node in nodes]


def _shares(total: Quantity, machine: MachineInfo) -> str:
    (first, more), *others = shares_of(total, machine)
    if not others:
        return f"{total} on one NUMA node"
    nodes, share = [node for node, _ in others], others[0][1]
    if share == more:
        return f"{share} on each of the NUMA nodes {format_cpulist([first, *nodes])}"
    return f"{more} on NUMA node {first} and {share} on each of {format_cpulist(nodes)}"


def _require_sum(
    entries: list[Mapping[str, Any]],
    reservation: Mapping[str, Quantity],
    parts: Mapping[str, Quantity | None],
    machine: MachineInfo,
) -> None:
    totals: dict[str, Quantity] = {}
    for entry in entries:
        for name, text in (entry.get("limits") or {}).items():
            totals[name] = Quantity.parse(text).plus(totals.get(name, ZERO))
    reserved = {
        name: quantity for name, quantity in reservation.items() if name == "memory" or in_pages(name)
    }
    # The kubelet walks the types in random order; here memory, the only type that can match, comes last.
    for name in sorted({*totals, *reserved}, key=lambda name: (name == "memory", name)):
        total, target = totals.get(name, ZERO), reserved.get(name, ZERO)
        if total.amount == target.amount:
            continue
        if name != "memory":
            raise SetupError(fault("NF216", total=total, name=name, target=target))
        summands = " + ".join(f"{field} {part}" for field, part in parts.items() if part and part.amount)
        remedy = {
            "change": "add" if target.amount > total.amount else "remove",
            "amount": Quantity(abs(target.amount - total.amount), "BinarySI"),
            "summands": summands or "nothing is reserved",
            "shares": _shares(target, machine),
        }
        raise SetupError(fault("NF215", total=total, name=name, target=target, **remedy))


def _reserved_by_node(entries: list[Mapping[str, Any]]) -> dict[int, dict[str, int]]:
    reserved: dict[int, dict[str, int]] = {}
    for index, entry in enumerate(entries):
        for name, text in sorted((entry.get("limits") or {}).items()):
            value = Quantity.parse(text).as_int64()
            if value is None:
                raise SetupError(fault("NF215", "fraction", index=index, name=name))
            reserved.setdefault(entry.get("numaNode", 0), {})[name] = value % _UINT64
    return reserved
