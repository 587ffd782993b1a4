"""Which CPUs are reserved: whole cores, on every NUMA node that workloads use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numaforge.cpulist import format_cpulist, parse_cpulist
from numaforge.errors import NumaforgeError, PlanError
from numaforge.planning.existing import ExistingSettings, Setting
from numaforge.planning.model import CpuPlan, Decision, Notice, Reasoned
from numaforge.profile import NodeProfile, ReservedCpus
from numaforge.topology.model import Core, CpuSet, NodeTopology, NumaNode

SUBJECT = "cpus.reserved"


def plan_cpus(topology: NodeTopology, profile: NodeProfile, existing: ExistingSettings) -> Reasoned[CpuPlan]:
    """Choose the reserved CPUs; they and the allocatable ones partition the online CPUs.

    Raises PlanError for CPUs that do not exist or are offline, for parts of cores, where nothing is left for
    workloads, or where a NUMA node with GPUs would lose all its CPUs.
    """
    if not topology.cores:
        raise PlanError("the machine's cores are unknown", where=SUBJECT, remedy="capture the snapshot again")
    reserved, decision, notices = _reserved(topology, profile, existing)
    _refuse_nothing_left(topology, reserved)
    _refuse_gpus_without_cpus(topology, reserved)
    plan = CpuPlan(topology.online, reserved, topology.online - reserved)
    return Reasoned(plan, (decision,), (*notices, *_cpu_notices(topology, plan)))


def uneven_smt(topology: NodeTopology) -> bool:
    """Whether cores differ in their number of online threads."""
    return len({len(core.cpus) for core in topology.cores}) > 1


def _reserved(
    topology: NodeTopology, profile: NodeProfile, existing: ExistingSettings
) -> tuple[CpuSet, Decision, tuple[Notice, ...]]:
    wish, held = profile.cpus.reserved, existing.get("reservedSystemCPUs")
    if wish is None and held is not None:
        return _adopted(topology, held)
    if wish is None and len(topology.cores) == 1:
        return (
            frozenset(),
            Decision(SUBJECT, "", "the machine has one core, which cannot be divided"),
            (Notice("nothing-reserved", "one core: no CPUs are reserved for the system"),),
        )
    reserved, reason = _chosen(topology, wish or ReservedCpus(cores_per_numa_node=1))
    if wish is None:
        reason = f"the profile does not say, so: {reason}"
    else:
        reason = profile.choice(f"{SUBJECT}.{next(iter(wish.model_fields_set))}", reason)
    existing.settle(
        ("reservedSystemCPUs",),
        reserved,
        subject=SUBJECT,
        override=profile.kubelet.on_conflict == "override",
        same=lambda value: _cpus_of(value) == reserved,
        shown=f"CPUs {format_cpulist(reserved)}",
    )
    return reserved, Decision(SUBJECT, format_cpulist(reserved), reason), ()


def _adopted(topology: NodeTopology, held: Setting) -> tuple[CpuSet, Decision, tuple[Notice, ...]]:
    reserved = _cpus_of(held.value)
    _refuse_missing(topology, reserved, held.place)
    decision = Decision(SUBJECT, format_cpulist(reserved), f"kept as {held.place} has it")
    split = _split_cores(topology, reserved)
    if not split:
        return reserved, decision, ()
    return (
        reserved,
        decision,
        (
            Notice(
                "reserved-part-of-core",
                f"{held.place} reserves {format_cpulist(reserved)}, which leaves out siblings "
                f"{format_cpulist(frozenset().union(*(core.cpus for core in split)) - reserved)}: "
                "workloads share these cores with the system",
            ),
        ),
    )


def _cpus_of(value: object) -> CpuSet:
    try:
        return parse_cpulist(str(value))
    except NumaforgeError as error:
        raise PlanError(error.message, where="reservedSystemCPUs", remedy=error.remedy) from error


def _chosen(topology: NodeTopology, wish: ReservedCpus) -> tuple[CpuSet, str]:
    if wish.cpulist is not None:
        return _explicit(topology, parse_cpulist(wish.cpulist)), "the profile names these CPUs"
    nodes = _cores_by_numa_node(topology)
    if wish.cores_per_numa_node is not None:
        count = wish.cores_per_numa_node
        picked = [_take(f"NUMA node {node}", [cores], count) for node, cores in nodes.items()]
        where = "every NUMA node that has CPUs"
    elif wish.cores_per_package is not None:
        count = wish.cores_per_package
        packages = sorted({core.package for core in topology.cores})
        picked = [
            _take(
                f"package {package}",
                [[core for core in cores if core.package == package] for cores in nodes.values()],
                count,
            )
            for package in packages
        ]
        where = "every package, its NUMA nodes taking turns"
    else:
        count = wish.cores or 0
        picked = [_take("the machine", list(nodes.values()), count)]
        where = "the machine, NUMA nodes with CPUs taking turns"
    cores = f"{count} whole core{'s' if count > 1 else ''}"
    reserved = frozenset().union(*(core.cpus for cores_ in picked for core in cores_))
    return reserved, f"{cores} on {where}, lowest first, so that no pod shares a core with the system"


def _explicit(topology: NodeTopology, wanted: CpuSet) -> CpuSet:
    field = f"{SUBJECT}.cpulist"
    _refuse_missing(topology, wanted, field)
    split = _split_cores(topology, wanted)
    if split:
        missing = frozenset().union(*(core.cpus for core in split)) - wanted
        complete = format_cpulist(wanted | missing)
        raise PlanError(
            f"{format_cpulist(wanted)!r} cuts cores in two, without their siblings {format_cpulist(missing)}",
            where=field,
            remedy=f'reserve whole cores: "{complete}"',
        )
    return wanted


def _refuse_missing(topology: NodeTopology, wanted: CpuSet, field: str) -> None:
    online = format_cpulist(topology.online)
    absent = wanted - topology.online - topology.offline
    if absent:
        raise PlanError(
            f"{format_cpulist(wanted)!r} names CPUs that this machine does not have: "
            f"{format_cpulist(absent)}",
            where=field,
            remedy=f"choose among the online CPUs {online}",
        )
    offline = wanted & topology.offline
    if offline:
        raise PlanError(
            f"{format_cpulist(wanted)!r} names CPUs that are offline: {format_cpulist(offline)}",
            where=field,
            remedy=f"choose among the online CPUs {online}, or bring them online first",
        )


def _split_cores(topology: NodeTopology, cpus: CpuSet) -> list[Core]:
    return [core for core in topology.cores if core.cpus & cpus and not core.cpus <= cpus]


def _cores_by_numa_node(topology: NodeTopology) -> Mapping[int, list[Core]]:
    """Return each NUMA node's cores in the order in which they are taken: one L3 group after the other."""
    groups = {cpu: min(cache.cpus) for cache in topology.l3_caches for cpu in cache.cpus}
    by_node: dict[int, list[Core]] = {}
    for core in topology.cores:
        # A kernel without NUMA support exports no nodes: all of its CPUs are together.
        by_node.setdefault(core.numa_node if core.numa_node is not None else 0, []).append(core)

    def first_of_group(core: Core, among: Sequence[Core]) -> int:
        group = groups.get(min(core.cpus))
        if group is None:
            return -1
        return min(min(other.cpus) for other in among if groups.get(min(other.cpus)) == group)

    return {
        node: sorted(cores, key=lambda core: (first_of_group(core, cores), min(core.cpus)))
        for node, cores in sorted(by_node.items())
    }


def _take(place: str, nodes: Sequence[Sequence[Core]], count: int) -> list[Core]:
    """Take `count` cores, one per NUMA node in turn, from nodes that still have some."""
    available = sum(len(cores) for cores in nodes)
    if count > available:
        raise PlanError(
            f"{count} cores are to be reserved on {place}, which has {available}",
            where=SUBJECT,
            remedy=f"ask for at most {max(available - 1, 1)}",
        )
    turns = ((turn, node) for turn in range(max(map(len, nodes))) for node in range(len(nodes)))
    taken = [nodes[node][turn] for turn, node in turns if turn < len(nodes[node])]
    return taken[:count]


def _refuse_nothing_left(topology: NodeTopology, reserved: CpuSet) -> None:
    if reserved >= topology.online:
        raise PlanError(
            f"all {len(topology.online)} online CPUs ({format_cpulist(topology.online)}) would be reserved, "
            "so no pod could ever get one",
            where=SUBJECT,
            remedy=f"reserve at most {len(topology.cores) - 1} of the machine's {len(topology.cores)} cores"
            if len(topology.cores) > 1
            else "leave cpus.reserved out: one core cannot be divided",
        )


def _refuse_gpus_without_cpus(topology: NodeTopology, reserved: CpuSet) -> None:
    for node in sorted(topology.numa_nodes, key=lambda node: node.id):
        gpus = _gpus_on(topology, node)
        if gpus and node.cpus and node.cpus <= reserved:
            raise PlanError(
                f"all CPUs of NUMA node {node.id} ({format_cpulist(node.cpus)}) would be reserved, but it "
                f"has {gpus} GPU{'s' if gpus > 1 else ''}, whose pods need CPUs there",
                where=SUBJECT,
                remedy="reserve fewer cores on that NUMA node",
            )


def _gpus_on(topology: NodeTopology, node: NumaNode) -> int:
    return sum(gpu.numa_node == node.id for gpu in topology.gpus)


def _cpu_notices(topology: NodeTopology, plan: CpuPlan) -> tuple[Notice, ...]:
    notices = []
    if uneven_smt(topology):
        sizes = sorted({len(core.cpus) for core in topology.cores})
        kinds = " and ".join(
            f"{sum(len(core.cpus) == size for core in topology.cores)} cores with {size}" for size in sizes
        )
        notices.append(
            Notice(
                "uneven-smt",
                f"{kinds} online threads: the kubelet counts {len(topology.online) // len(topology.cores)} "
                "per core and may hand out parts of cores (kubernetes/kubernetes#140495)",
            )
        )
    if topology.offline:
        notices.append(
            Notice(
                "offline-cpus",
                f"CPUs {format_cpulist(topology.offline)} are offline and not planned; when they come online "
                "the kubelet's state file no longer fits, so plan again",
            )
        )
    if plan.reserved & topology.isolated:
        notices.append(
            Notice(
                "reserved-isolated",
                f"reserved CPUs {format_cpulist(plan.reserved & topology.isolated)} are isolated by the "
                "kernel's command line, so the system's own tasks are not balanced onto them; reserve "
                "housekeeping CPUs with cpus.reserved.cpulist",
            )
        )
    for node in sorted(topology.numa_nodes, key=lambda node: node.id):
        gpus, left = _gpus_on(topology, node), len(node.cpus - plan.reserved)
        if node.cpus and left < gpus:
            notices.append(
                Notice(
                    "fewer-cpus-than-gpus",
                    f"NUMA node {node.id} has {gpus} GPUs and {left} CPUs left for their pods",
                )
            )
    return tuple(notices)
