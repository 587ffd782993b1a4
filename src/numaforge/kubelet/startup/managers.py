"""How the topology, CPU and memory managers are set up, and what they reject.

Sources: NewManager and policy_options.go below pkg/kubelet/cm/topologymanager, cpumanager and memorymanager.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from numaforge.kubelet.admission.assignment import AssignmentError, take_distributed, take_packed
from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.masks import bits
from numaforge.kubelet.admission.memory_manager import fresh_memory
from numaforge.kubelet.admission.settings import NO_DISTANCES, NO_DISTANCES_REMEDY
from numaforge.kubelet.checkpoints import FreshTable
from numaforge.kubelet.config.gates import enabled
from numaforge.kubelet_minors.options import (
    ALIGN_BY_SOCKET,
    CPU_MANAGER_POLICIES,
    DEFAULT_MAX_NUMA_NODES,
    DISTRIBUTE_ACROSS_CORES,
    DISTRIBUTE_ACROSS_NUMA,
    FULL_PCPUS_ONLY,
    MAX_ALLOWABLE_NUMA_NODES,
    MEMORY_MANAGER_POLICIES,
    PREFER_ALIGN_BY_UNCORE_CACHE,
    PREFER_CLOSEST_NUMA,
    Maturity,
    OptionState,
    cpu_options,
    forbidden_pairs,
    known_versions_of,
    topology_options,
)
from numaforge.kubelet_minors.values.booleans import parse_bool
from numaforge.kubelet_minors.values.cpusets import CpuSetError, atoi
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.values.pages import in_pages
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.quantity import ZERO, Quantity

_UINT64 = 2**64

# From this minor on the topology manager's errors about options are in lower case.
_FIRST_MINOR_OF_LOWER_CASE = 33
# From this minor on the memory manager knows the policy of another operating system.
_FIRST_MINOR_WITH_BEST_EFFORT = 32


class ManagerError(ValueError):
    """A manager cannot be created; the message is the kubelet's, the rest is for the finding."""

    def __init__(self, message: str, rule: str, path: str, remedy: str) -> None:
        super().__init__(message)
        self.rule = rule
        self.path = path
        self.remedy = remedy


@dataclass(frozen=True)
class CpuManagerSetup:
    """The CPU manager as configured: `reserved` is empty under policy none."""

    policy: str
    options: Mapping[str, bool] = field(default_factory=dict)
    reserved: frozenset[int] = frozenset()


@dataclass(frozen=True)
class MemoryManagerSetup:
    """The memory manager as configured: what a fresh state holds, by NUMA node and resource."""

    policy: str
    machine: Mapping[int, Mapping[str, FreshTable]] = field(default_factory=dict)


def set_up_topology_manager(
    settings: Mapping[str, Any], machine: MachineInfo, version: KubeletVersion, gates: Mapping[str, bool]
) -> None:
    """Check the topology manager's options against this kubelet and machine. Raises ManagerError."""
    if settings["topologyManagerPolicy"] == "none":
        return
    limit = DEFAULT_MAX_NUMA_NODES
    closest = False
    for name, text in sorted((settings.get("topologyManagerPolicyOptions") or {}).items()):
        path = f"topologyManagerPolicyOptions.{name}"
        _require_option(name, topology_options(version), "Topology", path, version, gates)
        if name == PREFER_CLOSEST_NUMA:
            closest = _bool_option(name, text, path)
        elif name == MAX_ALLOWABLE_NUMA_NODES:
            limit = _node_limit(text, path)
    nodes = machine.nodes
    if closest and not machine.tells_distances:
        raise ManagerError(
            NO_DISTANCES, "NF210", f"topologyManagerPolicyOptions.{PREFER_CLOSEST_NUMA}", NO_DISTANCES_REMEDY
        )
    if len(nodes) > limit:
        raise ManagerError(
            f"unsupported on machines with more than {limit} NUMA Nodes",
            "NF211",
            "topologyManagerPolicy",
            _more_nodes_remedy(len(nodes), version),
        )


def set_up_cpu_manager(
    settings: Mapping[str, Any],
    machine: MachineInfo,
    version: KubeletVersion,
    gates: Mapping[str, bool],
    *,
    reserved: frozenset[int] | None,
    reservation: Mapping[str, Quantity],
) -> CpuManagerSetup:
    """Check the CPU manager's policy, options and reservation, and return it with its reserved CPUs.

    `reserved` are reservedSystemCPUs, None where they were refused; `reservation` is what Node Allocatable
    reserves. Raises ManagerError.
    """
    policy = settings["cpuManagerPolicy"]
    options = settings.get("cpuManagerPolicyOptions") or {}
    if policy == "none":
        if options:
            raise ManagerError(
                f"new none policy error: None policy: received unsupported options={shown_map(options)}",
                "NF210",
                "cpuManagerPolicyOptions",
                "remove cpuManagerPolicyOptions, or set cpuManagerPolicy: static",
            )
        return CpuManagerSetup(policy)
    if policy != "static":
        raise ManagerError(
            f'unknown policy: "{policy}"',
            "NF205",
            "cpuManagerPolicy",
            f"use one of {', '.join(CPU_MANAGER_POLICIES)} (lower case)",
        )
    count = _reserved_count(reservation, machine) if reserved is not None else 0
    parsed = _static_options(options, version, gates)
    _require_compatible(parsed, settings, machine)
    if reserved is None:
        return CpuManagerSetup(policy, parsed)
    chosen = reserved or _reserve_by_count(machine, count, parsed, version)
    if len(chosen) != count:
        raise ManagerError(
            "new static policy error: [cpumanager] unable to reserve the required amount of CPUs "
            f"(size of {format_cpulist(chosen)} did not equal {count})",
            "NF213",
            "kubeReserved.cpu",
            f"reserve fewer than the machine's {machine.cpus.num_cpus} CPUs",
        )
    return CpuManagerSetup(policy, parsed, chosen)


def set_up_memory_manager(
    settings: Mapping[str, Any],
    machine: MachineInfo,
    version: KubeletVersion,
    *,
    reservation: Mapping[str, Quantity],
    parts: Mapping[str, Quantity | None],
) -> MemoryManagerSetup:
    """Check the memory manager's policy and reservedMemory, and return it. Raises ManagerError.

    `parts` are the summands of the reserved memory, by the setting that has them.
    """
    policy = settings["memoryManagerPolicy"]
    if policy == "None":
        return MemoryManagerSetup(policy)
    if policy == "BestEffort" and version.rules_minor >= _FIRST_MINOR_WITH_BEST_EFFORT:
        raise ManagerError(
            'policy "BestEffort" is not available for platform "linux"',
            "NF205",
            "memoryManagerPolicy",
            "use None or Static",
        )
    if policy != "Static":
        raise ManagerError(
            f"unknown policy: {quoted(policy)}",
            "NF205",
            "memoryManagerPolicy",
            f"use {' or '.join(MEMORY_MANAGER_POLICIES)} (with a capital)",
        )
    entries = settings.get("reservedMemory") or []
    _require_nodes(entries, machine)
    _require_sum(entries, reservation, _shown_parts(parts), machine)
    reserved = _reserved_by_node(entries)
    if sum(limits.get("memory", 0) for limits in reserved.values()) % _UINT64 == 0:
        raise ManagerError(
            "[memorymanager] you should specify the system reserved memory",
            "NF217",
            "reservedMemory",
            "reserve memory in kubeReserved, systemReserved or evictionHard, and the same sum in "
            "reservedMemory",
        )
    return MemoryManagerSetup(policy, fresh_memory(machine, reserved))


def shown_map(entries: Mapping[str, str]) -> str:
    """Return a map as Go's %v prints it."""
    return f"map[{' '.join(f'{key}:{entries[key]}' for key in sorted(entries))}]"


def _require_option(
    name: str,
    options: Mapping[str, OptionState],
    manager: str,
    path: str,
    version: KubeletVersion,
    gates: Mapping[str, bool],
) -> None:
    option = options.get(name)
    if option is None:
        raise ManagerError(
            f"unknown {manager} Manager Policy option: {quoted(name)}",
            "NF206",
            path,
            _unknown_option_remedy(name, options),
        )
    if option.gate is None or enabled(version, gates, option.gate):
        return
    level = "Alpha" if option.maturity is Maturity.ALPHA else "Beta"
    text = f'{manager} Manager Policy {level}-level Options not enabled, but option "{name}" provided'
    if manager == "Topology" and version.rules_minor >= _FIRST_MINOR_OF_LOWER_CASE:
        text = (
            f'topology manager policy {level.lower()}-level options not enabled, but option "{name}" provided'
        )
    raise ManagerError(text, "NF207", path, f"enable the feature gate {option.gate}, or remove the option")


def _unknown_option_remedy(name: str, options: Mapping[str, OptionState]) -> str:
    minors = known_versions_of(name)
    if minors:
        return f"the option exists from kubelet 1.{min(minors)} on: upgrade, or remove it"
    return f"use one of {', '.join(options)}"


def _bool_option(name: str, text: str, path: str) -> bool:
    try:
        return parse_bool(text)
    except ValueError as error:
        remedy = 'write "true" or "false", quoted'
        if "=" in text:
            remedy = "give each option its own flag: the kubelet does not split them at commas"
        raise ManagerError(f'bad value for option "{name}": {error}', "NF208", path, remedy) from error


def _node_limit(text: str, path: str) -> int:
    name = MAX_ALLOWABLE_NUMA_NODES
    try:
        limit = atoi(text)
    except CpuSetError as error:
        raise ManagerError(
            f'unable to convert policy option to integer "{name}": {error}',
            "NF208",
            path,
            f'write a number from {DEFAULT_MAX_NUMA_NODES} on, quoted: "16"',
        ) from error
    if limit < DEFAULT_MAX_NUMA_NODES:
        raise ManagerError(
            f'the minimum value of "{name}" should not be less than {DEFAULT_MAX_NUMA_NODES}',
            "NF208",
            path,
            f"use {DEFAULT_MAX_NUMA_NODES} or more",
        )
    return limit


def _more_nodes_remedy(count: int, version: KubeletVersion) -> str:
    if MAX_ALLOWABLE_NUMA_NODES in topology_options(version):
        return (
            f'set topologyManagerPolicyOptions: {{{MAX_ALLOWABLE_NUMA_NODES}: "{count}"}}: NUMA nodes '
            "without CPUs count too"
        )
    return "set topologyManagerPolicy: none: this kubelet has no option to raise the limit"


def _reserved_count(reservation: Mapping[str, Quantity], machine: MachineInfo) -> int:
    cpus = reservation.get("cpu")
    if cpus is None:
        raise ManagerError(
            "[cpumanager] unable to determine reserved CPU resources for static policy",
            "NF212",
            "cpuManagerPolicy",
            f'reserve whole cores, for example reservedSystemCPUs: "{_first_cores(machine)}", or a number of '
            "CPUs in kubeReserved.cpu or systemReserved.cpu",
        )
    return ceil(cpus.milli_ceiling() / 1000)


def _first_cores(machine: MachineInfo) -> str:
    """Return the cpulist of the lowest core of each NUMA node."""
    first: dict[int, int] = {}
    for cpu_place in machine.cpus.places.values():
        first[cpu_place.numa_node] = min(cpu_place.core, first.get(cpu_place.numa_node, cpu_place.core))
    cores = set(first.values())
    return format_cpulist(cpu for cpu, cpu_place in machine.cpus.places.items() if cpu_place.core in cores)


def _static_options(
    options: Mapping[str, str], version: KubeletVersion, gates: Mapping[str, bool]
) -> dict[str, bool]:
    parsed = {}
    try:
        for name, text in sorted(options.items()):
            path = f"cpuManagerPolicyOptions.{name}"
            _require_option(name, cpu_options(version), "CPU", path, version, gates)
            parsed[name] = _bool_option(name, text, path)
    except ManagerError as error:
        raise ManagerError(
            f"new static policy error: {error}", error.rule, error.path, error.remedy
        ) from error
    for pair in forbidden_pairs(version):
        if parsed.get(pair.first) and parsed.get(pair.second):
            raise ManagerError(
                f"new static policy error: static policy options {pair.first} and {pair.second} can not be "
                "used at the same time",
                "NF209",
                "cpuManagerPolicyOptions",
                f"keep {pair.first} or {pair.second}",
            )
    return parsed


def _require_compatible(
    options: Mapping[str, bool], settings: Mapping[str, Any], machine: MachineInfo
) -> None:
    if not options.get(ALIGN_BY_SOCKET):
        return
    path = f"cpuManagerPolicyOptions.{ALIGN_BY_SOCKET}"
    if settings["topologyManagerPolicy"] == "single-numa-node":
        raise ManagerError(
            "new static policy error: Topolgy manager single-numa-node policy is incompatible with "
            f"CPUManager {ALIGN_BY_SOCKET} policy option",
            "NF210",
            path,
            f"use topologyManagerPolicy: restricted, or remove {ALIGN_BY_SOCKET}",
        )
    if machine.cpus.num_sockets > machine.cpus.num_numa_nodes:
        raise ManagerError(
            "new static policy error: Align by socket is not compatible with hardware where number of "
            "sockets are more than number of NUMA",
            "NF210",
            path,
            f"remove {ALIGN_BY_SOCKET}: on this machine a NUMA node spans sockets",
        )


def _reserve_by_count(
    machine: MachineInfo, count: int, options: Mapping[str, bool], version: KubeletVersion
) -> frozenset[int]:
    """Return the CPUs that the static policy reserves for a count, chosen under its own options."""
    spread = options.get(DISTRIBUTE_ACROSS_CORES, False)
    try:
        if options.get(DISTRIBUTE_ACROSS_NUMA):
            group = machine.cpus.cpus_per_core if options.get(FULL_PCPUS_ONLY) else 1
            chosen = take_distributed(
                machine.cpus,
                machine.cpus.cpus,
                count,
                group=group,
                spread=spread,
                by_socket=options.get(ALIGN_BY_SOCKET, False),
                minor=version.rules_minor,
            )
        else:
            align = options.get(PREFER_ALIGN_BY_UNCORE_CACHE, False)
            chosen = take_packed(
                machine.cpus,
                machine.cpus.cpus,
                count,
                spread=spread,
                align_uncore=align,
                minor=version.rules_minor,
            )
    except AssignmentError:
        return frozenset()
    return frozenset(bits(chosen))


def _require_nodes(entries: list[Mapping[str, Any]], machine: MachineInfo) -> None:
    node_ids = {node.id for node in machine.nodes}
    for index, entry in enumerate(entries):
        node = entry.get("numaNode", 0)
        if node not in node_ids:
            raise ManagerError(
                f"the reserved memory configuration references a NUMA node {node} that does not exist on "
                "this machine",
                "NF214",
                f"reservedMemory[{index}].numaNode",
                f"this machine has the NUMA nodes {format_cpulist(node_ids)}",
            )


def _shown_parts(parts: Mapping[str, Quantity | None]) -> str:
    """Return the summands that are not zero: `kubeReserved 1Gi + evictionHard 100Mi`."""
    return " + ".join(f"{name} {part}" for name, part in parts.items() if part and part.amount)


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
    entries: list[Mapping[str, Any]], reservation: Mapping[str, Quantity], parts: str, machine: MachineInfo
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
        if total.amount != target.amount:
            text = (
                f'the total amount "{total}" of type "{name}" is not equal to the value "{target}" '
                "determined by Node Allocatable feature"
            )
            rule = "NF215" if name == "memory" else "NF216"
            remedy = _sum_remedy(name, total, target, parts, _shares(target, machine))
            raise ManagerError(text, rule, "reservedMemory", remedy)


def _sum_remedy(name: str, total: Quantity, target: Quantity, parts: str, shares: str) -> str:
    if name != "memory":
        return f"remove {name} from reservedMemory: kubeReserved and systemReserved cannot name hugepages"
    difference = target.amount - total.amount
    change = "add" if difference > 0 else "remove"
    amount = Quantity(abs(difference), "BinarySI")
    summands = parts or "nothing is reserved"
    return f"{change} {amount} so that reservedMemory sums up to {target} ({summands}), for example {shares}"


def _reserved_by_node(entries: list[Mapping[str, Any]]) -> dict[int, dict[str, int]]:
    reserved: dict[int, dict[str, int]] = {}
    for index, entry in enumerate(entries):
        for name, text in sorted((entry.get("limits") or {}).items()):
            value = Quantity.parse(text).as_int64()
            if value is None:
                raise ManagerError(
                    "could not covert a variable of type Quantity to int64",
                    "NF215",
                    f"reservedMemory[{index}].limits.{name}",
                    "write a whole number without a fraction and with few digits: 1536Mi, not 1.5Gi",
                )
            reserved.setdefault(entry.get("numaNode", 0), {})[name] = value % _UINT64
    return reserved
