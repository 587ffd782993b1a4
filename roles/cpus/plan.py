"""Which CPUs are reserved: whole cores, on every NUMA node that workloads use."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from numaforge.kubelet.admission.machine import cores_seen, cpu_capacity, cpus_seen, whole_cores
from numaforge.kubelet_minors.options import PREFER_ALIGN_BY_UNCORE_CACHE
from numaforge.kubelet_minors.values.numbers import truth
from numaforge.lib.codec import CpuSet
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.lib.quantity import counted
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.model import Core, NodeTopology, NumaNode
from numaforge.roles.cpus.core_order import CoreOrder, cores_by_numa_node, isolated_cpus
from numaforge.roles.cpus.default_amounts import (
    CPUS_PER_RESERVED,
    DEVICES_PER_RESERVED,
    default_cores,
    interrupting_devices,
    most_cores,
)

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.cpus.offline import OfflinePlan
    from numaforge.roles.cpus.section import ReservedCpus
    from numaforge.roles.kubelet.existing import ExistingSettings, Setting


@dataclass(frozen=True)
class CpuPlan:
    """The CPUs that workloads never get. `reserved` and `allocatable` partition `online`.

    `chosen_by` is "profile", "kubelet" (its settings), "default" or "default-avoiding-devices".
    """

    online: CpuSet
    reserved: CpuSet
    allocatable: CpuSet
    chosen_by: str = "profile"


SUBJECT = "cpus.reserved"

_DEFAULT, _AVOIDING = "default", "default-avoiding-devices"
_FIRST = "lowest first, isolated CPUs last"
_NOT_EXCLUSIVE = "no pod gets one of their threads to itself"

# The ways to ask for a number of cores, and the places where it is taken.
_WAYS = {
    "cores_per_numa_node": "every NUMA node that has CPUs",
    "cores_per_package": "every package, its NUMA nodes taking turns, those with devices first",
    "cores": "the machine, NUMA nodes with CPUs taking turns, those with devices first",
}


class _Chosen(NamedTuple):
    """Reserved CPUs, why, and who chose them (`CpuPlan.chosen_by`)."""

    cpus: CpuSet
    reason: str
    by: str
    notices: tuple[Notice, ...] = ()


def uneven_smt(topology: NodeTopology) -> bool:
    """Whether cores differ in their number of online threads."""
    return len({len(core.cpus) for core in cores_seen(topology)}) > 1


def _reserved(
    topology: NodeTopology, profile: NodeProfile, existing: ExistingSettings, previous: NodePlan | None
) -> _Chosen:
    wish, existing_setting = profile.cpus.reserved, existing.get("reservedSystemCPUs")
    if wish is None and existing_setting is not None and profile.cpus.avoid is None:
        return _adopted(topology, existing_setting)
    if wish is None and len(whole_cores(topology)) == 1:
        notice = Notice("nothing-reserved", "one core: no CPUs are reserved for the system")
        reason = "the machine has one core, which cannot be divided"
        return _Chosen(frozenset(), reason, _DEFAULT, (notice,))
    if wish is None:
        chosen = _steady_cpus(topology, _by_default(topology, profile), previous)
    else:
        cpus, reason = _wished(topology, wish, profile)
        reason = profile.choice(f"{SUBJECT}.{next(iter(wish.model_fields_set))}", reason)
        chosen = _Chosen(cpus, reason, "profile")
    existing.settle(
        ("reservedSystemCPUs",),
        chosen.cpus,
        subject=SUBJECT if wish else "cpus.avoid",
        same=lambda value: _cpus_of(value) == chosen.cpus,
        shown=f"CPUs {format_cpulist(chosen.cpus)}",
    )
    return chosen


def _by_default(topology: NodeTopology, profile: NodeProfile) -> _Chosen:
    """Take cores by the size of the machine and by its devices, the same number from each place."""
    nodes = cores_by_numa_node(topology)
    cores, cpus = sum(map(len, nodes.values())), len(cpus_seen(topology))
    devices = interrupting_devices(topology)
    count, most = default_cores(cores, cpus, devices.count), most_cores(cores)
    places, why = _places(topology, profile, count)
    if len(places) <= most:
        count = min(-(-count // len(places)), most // len(places)) * len(places)
    isolated = isolated_cpus(topology)
    housekeeping = sum(not core.cpus & isolated for core in whole_cores(topology))
    count = min(count, housekeeping or count)
    other_nodes = tuple(node for node in nodes if node not in places)
    # A small NUMA node with GPUs may have no core to give.
    candidates = [
        CoreOrder(first, isolated).take(nodes, fewer)
        for first in (places, other_nodes)
        for fewer in range(count, 0, -1)
    ]
    reserved = next((candidate for candidate in candidates if _stands(topology, candidate)), candidates[0])
    number = sum(core.cpus <= reserved for core in whole_cores(topology))
    reason = (
        f"unset in the profile, so {_counted(number)}: one CPU for each {CPUS_PER_RESERVED} of {cpus}"
        + (f", one for each {DEVICES_PER_RESERVED} devices ({devices})" if devices.count else "")
        + f", {_counted(most)} at most; {why}, {_FIRST}: {_NOT_EXCLUSIVE}"
    )
    return _Chosen(reserved, reason, _AVOIDING if profile.cpus.avoid else _DEFAULT)


def _places(topology: NodeTopology, profile: NodeProfile, count: int) -> tuple[tuple[int, ...], str]:
    """Return the NUMA nodes that give up `count` cores by default, and why."""
    nodes = cores_by_numa_node(topology)
    most = most_cores(sum(map(len, nodes.values())))
    every = frozenset(nodes)
    devices = every & interrupting_devices(topology).by_numa_node.keys()
    if profile.cpus.avoid and every - devices:
        places, why, enough = every - devices, "on NUMA nodes without devices", count
    elif profile.cpus.avoid:
        places, why, enough = every, "every NUMA node has devices, so on all", count
    elif devices:
        places, why, enough = devices, "on the NUMA nodes of devices, where these interrupt", most
    else:
        places, why, enough = every, "on all NUMA nodes", count
    if len(places) == 1:
        return (*places,), why
    keeps_l3_groups = truth(profile.kubelet.cpu_manager_options.get(PREFER_ALIGN_BY_UNCORE_CACHE)) is True
    if len(places) <= enough and not keeps_l3_groups:
        return tuple(sorted(places)), why
    package = {node: nodes[node][0].package for node in sorted(places, reverse=True)}
    first = {package: node for node, package in package.items()}
    why += ", one of them in each package so that the others and their L3 groups stay whole"
    return tuple(sorted(first.values())), why


def _order(topology: NodeTopology, profile: NodeProfile) -> CoreOrder:
    """Return the order in which cores are taken where the profile leaves the NUMA nodes open."""
    devices = interrupting_devices(topology).by_numa_node
    # Whether a node has devices counts, not how many: a failed drive must not move reserved CPUs.
    nodes = sorted(cores_by_numa_node(topology), key=lambda node: (node not in devices, node))
    if profile.cpus.avoid == "devices":
        nodes = [node for node in nodes if node not in devices]
    return CoreOrder(tuple(nodes), isolated_cpus(topology))


def _steady_cpus(topology: NodeTopology, chosen: _Chosen, previous: NodePlan | None) -> _Chosen:
    """Return what an earlier plan chose by default: a drive that fails moves no reserved CPU."""
    earlier = previous.cpus if previous else None
    if (
        earlier is None
        or earlier.chosen_by != chosen.by
        or earlier.online != topology.online
        or earlier.reserved == chosen.cpus
        or not earlier.reserved <= cpus_seen(topology) - isolated_cpus(topology)
        or _split_cores(topology, earlier.reserved)
        or not _stands(topology, earlier.reserved)
    ):
        return chosen
    return _Chosen(
        earlier.reserved,
        "unset in the profile, so as in an earlier plan, which sized them for the machine at that time; "
        f"a new plan would choose {format_cpulist(chosen.cpus)}: set {SUBJECT}.cpulist to move there",
        chosen.by,
    )


def _adopted(topology: NodeTopology, setting: Setting) -> _Chosen:
    reserved = _cpus_of(setting.value)
    _refuse_missing_cpus(topology, reserved, setting.place)
    reason = f"kept as {setting.place} has it"
    split = _split_cores(topology, reserved)
    if not split:
        return _Chosen(reserved, reason, "kubelet")
    notice = Notice(
        "reserved-part-of-core",
        f"{setting.place} reserves {format_cpulist(reserved)}, which leaves out siblings "
        f"{format_cpulist(frozenset().union(*(core.cpus for core in split)) - reserved)}: "
        "workloads share these cores with the system",
    )
    return _Chosen(reserved, reason, "kubelet", (notice,))


def _cpus_of(value: object) -> CpuSet:
    try:
        return parse_cpulist(str(value))
    except NumaforgeError as error:
        raise PlanError(error.message, where="reservedSystemCPUs", remedy=error.remedy) from error


def _wished(topology: NodeTopology, wish: ReservedCpus, profile: NodeProfile) -> tuple[CpuSet, str]:
    if wish.cpulist is not None:
        return _explicit(topology, parse_cpulist(wish.cpulist)), "the profile names these CPUs"
    way = next(iter(wish.model_fields_set & _WAYS.keys()))
    count: int = getattr(wish, way)
    reserved, order = frozenset[int](), _order(topology, profile)
    for group, nodes in _groups(topology, way).items():
        available = sum(map(len, nodes.values()))
        if count > available:
            cores = "1 core" if count == 1 else f"{count} cores"
            raise PlanError(
                f"{cores} would be reserved on {group}, which has {available}",
                where=SUBJECT,
                remedy=_fewer_cores(topology, profile),
            )
        reserved |= order.take(nodes, count)
    return reserved, f"{_counted(count)} on {_WAYS[way]}, {_FIRST}: {_NOT_EXCLUSIVE}"


def _counted(cores: int) -> str:
    return f"{cores} whole core{'s' if cores > 1 else ''}"


def _groups(topology: NodeTopology, way: str) -> dict[str, dict[int, list[Core]]]:
    """Return the places that give up the same number of cores, each with its cores by NUMA node."""
    nodes = cores_by_numa_node(topology)
    if way == "cores_per_numa_node":
        return {f"NUMA node {node}": {node: cores} for node, cores in nodes.items()}
    if way == "cores_per_package":
        return {
            f"package {package}": {
                node: [core for core in cores if core.package == package] for node, cores in nodes.items()
            }
            for package in sorted({core.package for core in whole_cores(topology)})
        }
    return {"the machine": nodes}


def _explicit(topology: NodeTopology, reserved: CpuSet) -> CpuSet:
    field = f"{SUBJECT}.cpulist"
    _refuse_missing_cpus(topology, reserved, field)
    split = _split_cores(topology, reserved)
    if split:
        missing = frozenset().union(*(core.cpus for core in split)) - reserved
        complete = format_cpulist(reserved | missing)
        raise PlanError(
            f"{format_cpulist(reserved)!r} cuts cores in two, without their siblings "
            f"{format_cpulist(missing)}",
            where=field,
            remedy=f'reserve whole cores: "{complete}"',
        )
    return reserved


def _refuse_missing_cpus(topology: NodeTopology, named_cpus: CpuSet, field: str) -> None:
    online = format_cpulist(topology.online)
    absent = named_cpus - topology.online - topology.offline
    if absent:
        raise PlanError(
            f"{format_cpulist(named_cpus)!r} names CPUs that this machine does not have: "
            f"{format_cpulist(absent)}",
            where=field,
            remedy=f"choose among the online CPUs {online}",
        )
    offline = named_cpus & topology.offline
    if offline:
        raise PlanError(
            f"{format_cpulist(named_cpus)!r} names CPUs that are offline: {format_cpulist(offline)}",
            where=field,
            remedy=f"choose among the online CPUs {online}, or bring them online first",
        )
    unseen = named_cpus - cpus_seen(topology)
    if unseen:
        raise PlanError(
            f"{format_cpulist(named_cpus)!r} names CPUs that are in no NUMA node, so that the kubelet does "
            f"not find them: {format_cpulist(unseen)}",
            where=field,
            remedy=f"choose among the CPUs that it finds: {format_cpulist(cpus_seen(topology))}",
        )


def _split_cores(topology: NodeTopology, cpus: CpuSet) -> list[Core]:
    return [core for core in whole_cores(topology) if core.cpus & cpus and not core.cpus <= cpus]


def _fewer_cores(topology: NodeTopology, profile: NodeProfile) -> str:
    """Return the most that can be reserved, in the profile's own way to say it where that leaves any."""
    wish = profile.cpus.reserved
    ways_used = [way for way in _WAYS if wish and way in wish.model_fields_set]
    for way in dict.fromkeys((*ways_used, "cores")):
        most = _most(topology, way, _order(topology, profile))
        if most:
            return f"set {SUBJECT}.{way}: {most}" + (", or fewer" if most > 1 else "")
    if len(whole_cores(topology)) == 1:
        return f"leave {SUBJECT} out: one core cannot be divided"
    last = next((core.cpus for core in reversed(whole_cores(topology)) if _stands(topology, core.cpus)), None)
    if last is None:
        return "show fewer NUMA nodes in the firmware, so that those with devices keep CPUs"
    return f'set {SUBJECT}.cpulist: "{format_cpulist(last)}"'


def _most(topology: NodeTopology, way: str, order: CoreOrder) -> int:
    """Return the largest number of cores that can be reserved in this way, 0 for none: fewer can be, too."""
    groups = _groups(topology, way).values()

    def too_many(count: int) -> bool:
        if any(count > sum(map(len, nodes.values())) for nodes in groups):
            return True
        return not _stands(topology, frozenset().union(*(order.take(nodes, count) for nodes in groups)))

    return bisect_left(range(1, len(topology.cores) + 1), True, key=too_many)


def _stands(topology: NodeTopology, reserved: CpuSet) -> bool:
    return not reserved >= cpus_seen(topology) and not any(_starved(topology, reserved))


def _refuse_nothing_left(topology: NodeTopology, reserved: CpuSet, profile: NodeProfile) -> None:
    if reserved >= cpus_seen(topology):
        raise PlanError(
            f"all {len(topology.online)} online CPUs ({format_cpulist(topology.online)}) would be reserved, "
            "so no pod could ever get one",
            where=SUBJECT,
            remedy=_fewer_cores(topology, profile),
        )


def _refuse_devices_without_cpus(topology: NodeTopology, reserved: CpuSet, profile: NodeProfile) -> None:
    for node in _starved(topology, reserved):
        raise PlanError(
            f"all CPUs of NUMA node {node.id} ({format_cpulist(node.cpus)}) would be reserved, but it "
            f"has {_devices_on(topology, node)}, whose pods need CPUs there",
            where=SUBJECT,
            remedy=_fewer_cores(topology, profile),
        )


def _starved(topology: NodeTopology, reserved: CpuSet) -> list[NumaNode]:
    """Return the NUMA nodes with GPUs or accelerators whose CPUs would all be reserved."""
    return [
        node
        for node in sorted(topology.numa_nodes, key=lambda node: node.id)
        if node.cpus and node.cpus <= reserved and _devices_of(topology, node)
    ]


def _devices_on(topology: NodeTopology, node: NumaNode) -> str:
    counts = {
        "GPU": sum(gpu.numa_node == node.id for gpu in topology.gpus),
        "accelerator": sum(one.numa_node == node.id for one in topology.accelerators),
    }
    return " and ".join(counted(count, kind) for kind, count in counts.items() if count)


def _devices_of(topology: NodeTopology, node: NumaNode) -> int:
    nodes = [gpu.numa_node for gpu in topology.gpus] + [one.numa_node for one in topology.accelerators]
    return nodes.count(node.id)


def _cpu_notices(topology: NodeTopology, plan: CpuPlan) -> Iterator[Notice]:
    if uneven_smt(topology):
        kubelet_cores = cores_seen(topology)
        sizes = [len(core.cpus) for core in kubelet_cores]
        kinds = " and ".join(f"{counted(sizes.count(size), 'core')} with {size}" for size in sorted({*sizes}))
        yield Notice(
            "uneven-smt",
            f"{kinds} online threads: the kubelet counts {cpu_capacity(topology) // len(kubelet_cores)} "
            "per core and may hand out parts of cores (kubernetes/kubernetes#140495)",
        )
    if topology.offline:
        yield Notice(
            "offline-cpus",
            f"CPUs {format_cpulist(topology.offline)} are offline and not planned; when they come online "
            "the kubelet's state file no longer fits, so plan again",
        )
    yield from _kubelet_view_notices(topology)
    if plan.reserved & topology.isolated:
        yield Notice(
            "reserved-isolated",
            f"reserved CPUs {format_cpulist(plan.reserved & topology.isolated)} are isolated by the "
            "kernel's command line, so the system's own tasks are not balanced onto them; reserve "
            "housekeeping CPUs with cpus.reserved.cpulist",
        )
    for node in sorted(topology.numa_nodes, key=lambda node: node.id):
        cpus_left = len(node.cpus - plan.reserved)
        if node.cpus and cpus_left < _devices_of(topology, node):
            yield Notice(
                "fewer-cpus-than-gpus",
                f"NUMA node {node.id} has {_devices_on(topology, node)} and "
                f"{counted(cpus_left, 'CPU')} left for their pods",
            )


def _kubelet_view_notices(topology: NodeTopology) -> Iterator[Notice]:
    """Yield notices where the kubelet counts other CPUs than there are; predictions use its count."""
    if topology.kubelet_cores is not None and {core.cpus for core in topology.kubelet_cores} != {
        core.cpus for core in topology.cores if core.cpus <= cpus_seen(topology)
    }:
        per_core = cpu_capacity(topology) // len(topology.kubelet_cores)
        yield Notice(
            "cores-by-id",
            "the kernel's CPU ids and its sibling masks disagree: the masks give "
            f"{len(topology.cores)} cores, the kubelet goes by the ids and counts "
            f"{len(topology.kubelet_cores)}, {per_core} CPUs in each; the reserved cores are whole in both",
        )
    if unseen := topology.online - cpus_seen(topology):
        yield Notice(
            "cpus-in-no-numa-node",
            f"CPUs {format_cpulist(unseen)} are in no NUMA node that the kernel shows, so the kubelet "
            f"does not find them: it reports {cpu_capacity(topology)} CPUs and gives none of these to "
            "pods of their own",
        )
    if cpu_capacity(topology) > len(topology.online):
        yield Notice(
            "offline-cpus-counted",
            f"the kernel shows no NUMA nodes, so the kubelet counts the offline CPUs "
            f"{format_cpulist(topology.offline)}, too: it promises more CPUs than pods can run on; bring "
            "them online, or remove them from the machine",
        )


def plan_cpus(
    machine: NodeTopology,
    profile: NodeProfile,
    existing: ExistingSettings,
    offline: OfflinePlan,
    earlier: NodePlan | None,
) -> Reasoned[CpuPlan]:
    """Return the reserved CPUs; they and the allocatable ones partition what the kubelet sees online.

    Where the kubelet is handed back, those that its own settings reserve. Raises PlanError for CPUs that do
    not exist or are offline, for parts of cores, where nothing is left for workloads, or where a NUMA node
    with GPUs or accelerators would lose all its CPUs.
    """
    if profile.kubelet.state == "absent":
        setting = existing.get("reservedSystemCPUs")
        reserved = parse_cpulist(str(setting.value)) & machine.online if setting else frozenset[int]()
        return Reasoned(CpuPlan(machine.online, reserved, cpus_seen(machine) - reserved))
    if not machine.cores:
        raise PlanError("the machine's cores are unknown", where=SUBJECT, remedy="capture the snapshot again")
    if not cpus_seen(machine):
        raise PlanError(
            "no CPU is in a NUMA node, so the kubelet finds none",
            where=SUBJECT,
            remedy="capture the snapshot again; a kernel that shows it so cannot run a kubelet",
        )
    chosen = _reserved(machine, profile, existing, earlier)
    _refuse_nothing_left(machine, chosen.cpus, profile)
    _refuse_devices_without_cpus(machine, chosen.cpus, profile)
    plan = CpuPlan(machine.online, chosen.cpus, cpus_seen(machine) - chosen.cpus, chosen.by)
    decision = Decision(SUBJECT, format_cpulist(chosen.cpus), chosen.reason)
    asked_for = machine.offline <= offline.cpus
    notices = (*chosen.notices, *_cpu_notices(machine, plan))
    remaining = tuple(one for one in notices if not (asked_for and one.id == "offline-cpus"))
    return Reasoned(plan, (decision,), remaining)
