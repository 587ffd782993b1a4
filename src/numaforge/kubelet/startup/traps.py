"""Settings that a kubelet accepts but should not, each with its consequence.

The behaviour behind each warning was observed on real kubelets; related issues of kubernetes/kubernetes are
named beside the rule.
"""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from numaforge.findings import Finding
from numaforge.kubelet.admission.hint_work import MEMORY_MANAGER, Policies, hint_work
from numaforge.kubelet.admission.machine import cores_seen, whole_cores
from numaforge.kubelet.checkpoints import CpuState
from numaforge.kubelet.config.decode import field_path
from numaforge.kubelet.config.defaults import EVICTION_HARD
from numaforge.kubelet.config.gates import enabled, gate
from numaforge.kubelet.config.loading import Configuration
from numaforge.kubelet.findings import dotted, finding_of
from numaforge.kubelet.startup.cgroups import needed_cgroups
from numaforge.kubelet.startup.managers import CpuManagerSetup, MemoryManagerSetup
from numaforge.kubelet_minors.fields import ROOT_TYPE, first_minor_of, types_of
from numaforge.kubelet_minors.flags import flag_called
from numaforge.kubelet_minors.history import state_at
from numaforge.kubelet_minors.options import FULL_PCPUS_ONLY
from numaforge.kubelet_minors.tables import GATES, REMOVALS
from numaforge.kubelet_minors.values.durations import parse_duration
from numaforge.kubelet_minors.values.gojson import GoJsonError, Path, decode
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.lib.cpulist import cpus_named, format_cpulist
from numaforge.lib.ordering import first_of
from numaforge.lib.quantity import Quantity, counted
from numaforge.machine.topology.model import Core, CpuSet, NodeTopology

_Findings = Iterator[Finding]

_FIRST_MINOR_WITH_MEMORY_QOS = 37
_FIRST_MINOR_WITHOUT_EVENT_LIMIT = 37
_FIRST_MINOR_KEEPING_HALVES = 37
_SHORTEST_RECONCILING = 10**9


def unread_fields(configuration: Configuration, version: KubeletVersion) -> tuple[Finding, ...]:
    """Return the fields that lenient decoding drops, keys that appear twice, and files that are not read."""
    places = configuration.places
    findings = [
        _unknown_field(path, version, places.main, configuration.main.lines.get(path))
        for path in configuration.main.unknown
    ]
    findings += [_duplicate(path, places.main, line) for path, line in configuration.main.duplicates]
    for name, document in configuration.drop_in_documents.items():
        file = f"{places.drop_in_dir}/{name}"
        findings += [
            _unknown_field(path, version, file, document.lines.get(path))
            for path in _unknown_in(document.data, version)
        ]
    findings += [_skipped(f"{places.drop_in_dir}/{name}") for name in configuration.skipped]
    return tuple(findings)


def find_traps(
    configuration: Configuration,
    topology: NodeTopology,
    version: KubeletVersion,
    cpu: CpuManagerSetup | None,
    memory: MemoryManagerSetup | None,
    cpu_state: CpuState | None = None,
) -> tuple[Finding, ...]:
    """Return warnings about a loaded configuration; a manager is None where the start did not reach it.

    `cpu_state` is the CPU manager's restored state.
    """
    findings = [
        *_vanishing_gates(configuration, version),
        *_throttled_memory(configuration, version),
        *_unlimited_events(configuration, version),
        *_lost_eviction_defaults(configuration, version),
        *_overriding_flags(configuration),
        *_overwritten_reservation(configuration),
        *_options_without_policy(configuration),
        *_moving_sum(configuration),
        *_unknown_cgroup_driver(configuration),
        *needed_cgroups(configuration),
    ]
    if cpu is not None and cpu.policy == "static":
        findings += _cpu_traps(configuration, topology, cpu)
        findings += _pods_as_units(configuration, version)
        findings += _endless_reconciling(configuration)
        if cpu_state is not None and cpu.options.get(FULL_PCPUS_ONLY):
            findings += _held_halves(configuration, topology, version, cpu_state)
    if memory is not None and memory.policy == "Static":
        findings += _oversized_reservations(configuration, memory)
    findings += _single_numa_node(configuration, topology, cpu)
    findings += _many_hints(configuration, topology, version)
    findings += _isolated_cpus(configuration, topology, cpu)
    return tuple(findings)


def _unknown_field(path: Path, version: KubeletVersion, file: str, line: int | None) -> Finding:
    name = dotted(path)
    since = first_minor_of(str(path[-1])) if len(path) == 1 else None
    if since is not None and since > version.rules_minor:
        remedy = f"{name} exists from kubelet 1.{since} on: remove it, or upgrade"
    elif len(path) == 1 and (flag := flag_called(name, version.rules_minor)):
        remedy = f"did you mean {flag[1]}?" if flag[1] else f"the kubelet has it as a flag alone: {flag[0]}"
    else:
        nearest = get_close_matches(str(path[-1]), _fields_beside(path, version), n=1, cutoff=0.6)
        remedy = f"did you mean {nearest[0]}?" if nearest else "remove it, or look up the field's name"
    return finding_of(
        "NF501",
        f"kubelet {version} does not know the field {name}; it drops it with a line in its log and starts "
        "without",
        remedy,
        path=name,
        text=f"strict decoding error: unknown field {quoted(field_path(path))}",
        file=file,
        line=line,
    )


def _fields_beside(path: Path, version: KubeletVersion) -> list[str]:
    structs = types_of(version.rules_minor).structs
    fields = structs[ROOT_TYPE]
    for step in path[:-1]:
        if isinstance(step, str):
            fields = structs.get(fields.get(step, "").lstrip("*[]"), {})
    return list(fields)


def _unknown_in(data: Any, version: KubeletVersion) -> tuple[Path, ...]:
    try:
        return decode(data, ROOT_TYPE, types_of(version.rules_minor)).unknown
    except GoJsonError:
        # Merging the drop-ins reported the wrong type already.
        return ()


def _duplicate(path: Path, file: str, line: int) -> Finding:
    return finding_of(
        "NF502",
        f"{dotted(path)} appears twice; the kubelet takes the last one",
        "keep one of them",
        path=dotted(path),
        file=file,
        line=line,
    )


def _skipped(file: str) -> Finding:
    return finding_of(
        "NF514",
        "the kubelet reads only files that end in .conf, so this one has no effect",
        "rename it to *.conf, or remove it",
        path="--config-dir",
        file=file,
    )


def _vanishing_gates(configuration: Configuration, version: KubeletVersion) -> _Findings:
    """Yield a finding for each gate set here that the next minor's kubelet is known to reject."""
    following = version.rules_minor + 1
    for name in sorted(configuration.settings.get("featureGates") or {}):
        if name not in GATES or state_at(GATES[name], version.rules_minor) is None:
            continue
        if following <= LATEST_MINOR:
            if state_at(GATES[name], following) is not None:
                continue
            evidence = (
                f"kubelet 1.{following} does not start with the feature gate {name}: it does not know it"
            )
        elif REMOVALS.get(name, following + 1) > following:
            continue
        else:
            evidence = (
                f"the feature gate {name} is announced to go with 1.{REMOVALS[name]}; a kubelet does not "
                "start with a gate that it does not know"
            )
        yield configuration.places.finding(
            "NF517",
            evidence,
            f"remove it before an upgrade: kubelet {version} has it on by default and takes no other value"
            if _is_locked_on(name, version)
            else "remove it before an upgrade",
            f"featureGates.{name}",
        )


def _is_locked_on(name: str, version: KubeletVersion) -> bool:
    state = gate(version, name)
    return state is not None and state.locked and state.default


def _throttled_memory(configuration: Configuration, version: KubeletVersion) -> _Findings:
    # From 1.37 on MemoryQoS is on by default; without a factor memory.high is not set.
    factor = configuration.settings.get("memoryThrottlingFactor")
    if version.rules_minor < _FIRST_MINOR_WITH_MEMORY_QOS or factor is None:
        return
    if "MemoryQoS" in configuration.gates or not enabled(version, configuration.gates, "MemoryQoS"):
        return
    yield configuration.places.finding(
        "NF518",
        f"from 1.37 on MemoryQoS is on by default: with memoryThrottlingFactor {factor} the kernel throttles "
        "containers below their memory limit (memory.high, cgroup v2)",
        "remove memoryThrottlingFactor, or set featureGates: {MemoryQoS: true} to say that you want it",
        "memoryThrottlingFactor",
    )


def _unlimited_events(configuration: Configuration, version: KubeletVersion) -> _Findings:
    if configuration.settings.get("eventRecordQPS") != 0:
        return
    if version.rules_minor >= _FIRST_MINOR_WITHOUT_EVENT_LIMIT:
        consequence = "the kubelet sends events without a limit (up to 1.36: 5 a second)"
    else:
        consequence = "the kubelet sends 5 events a second; from 1.37 on it sends them without a limit"
    yield configuration.places.finding(
        "NF519",
        f"eventRecordQPS is 0: {consequence}",
        "leave it out (50), or set the events a second that you want",
        "eventRecordQPS",
    )


def _held_halves(
    configuration: Configuration, topology: NodeTopology, version: KubeletVersion, state: CpuState
) -> _Findings:
    """Yield a finding for containers that hold parts of cores, allocated before full-pcpus-only was set."""
    cores = cores_seen(topology)
    size = max((len(core.cpus) for core in cores), default=1)
    halves = {
        f"{pod}/{container}": cpus
        for pod, containers in sorted(state.assignments.items())
        for container, cpus in sorted(containers.items())
        if _in_part(cores, cpus)
    }
    if not halves:
        return
    shown = first_of(f"{name} ({format_cpulist(cpus)})" for name, cpus in halves.items())
    consequence = f"they keep them in spite of {FULL_PCPUS_ONLY}"
    if version.rules_minor < _FIRST_MINOR_KEEPING_HALVES and any(
        len(cpus) % size for cpus in halves.values()
    ):
        consequence = f"the kubelet refuses those without a multiple of {size} CPUs (SMTAlignmentError)"
    yield configuration.places.finding(
        "NF520",
        f"containers hold parts of cores: {shown}; {consequence}",
        "drain the node before the restart, so that their pods start again",
        f"cpuManagerPolicyOptions.{FULL_PCPUS_ONLY}",
    )


def _pods_as_units(configuration: Configuration, version: KubeletVersion) -> _Findings:
    # kubernetes/kubernetes#140989: AllocatePod of 1.36 and 1.37 does not look for what a pod has.
    gate_on = enabled(version, configuration.gates, "PodLevelResourceManagers")
    scope, policy = (configuration.settings[f"topologyManager{name}"] for name in ("Scope", "Policy"))
    if gate_on and scope == "pod" and policy != "none":
        yield configuration.places.finding(
            "NF521",
            "with PodLevelResourceManagers and the scope pod, a kubelet of 1.36 or 1.37 that restarts gives "
            "pods with resources of their own other CPUs than they run on, or refuses them",
            "switch the gate off, or drain the node before each restart of the kubelet",
            "featureGates.PodLevelResourceManagers",
        )


def _endless_reconciling(configuration: Configuration) -> _Findings:
    period = configuration.settings["cpuManagerReconcilePeriod"]
    nanoseconds = parse_duration(period).nanoseconds
    if nanoseconds < _SHORTEST_RECONCILING:
        often = f"every {period}" if nanoseconds > 0 else "without a pause"
        yield configuration.places.finding(
            "NF522",
            f"cpuManagerReconcilePeriod is {period}: the CPU manager goes through all containers "
            f"{often} and keeps a CPU busy (only a zero in the file becomes 10s)",
            "leave it out (10s), or set a second or more",
            "cpuManagerReconcilePeriod",
        )


def _moving_sum(configuration: Configuration) -> _Findings:
    settings = configuration.settings
    threshold = (settings.get("evictionHard") or {}).get("memory.available", "")
    if settings["memoryManagerPolicy"] == "Static" and threshold.endswith("%"):
        yield configuration.places.finding(
            "NF524",
            f"memory.available is {threshold} of the memory that the kernel shows, which another boot or "
            "kernel changes: reservedMemory then no longer adds up, and the kubelet does not start",
            "write the threshold as a quantity, such as 1Gi",
            'evictionHard["memory.available"]',
        )


def _unknown_cgroup_driver(configuration: Configuration) -> _Findings:
    driver = configuration.settings["cgroupDriver"]
    if driver not in ("cgroupfs", "systemd"):
        yield configuration.places.finding(
            "NF526",
            f"{driver} is no cgroup driver: the kubelet uses cgroupfs, or what the container runtime names",
            "write systemd or cgroupfs, as the container runtime has it",
            "cgroupDriver",
        )


def _isolated_cpus(
    configuration: Configuration, topology: NodeTopology, cpu: CpuManagerSetup | None
) -> _Findings:
    # kubernetes/kubernetes#87862: the kernel balances no load on isolated CPUs.
    shared = topology.isolated - (cpu.reserved if cpu else frozenset())
    if shared:
        yield configuration.places.finding(
            "NF523",
            f"the kernel isolates {cpus_named(shared)} (isolcpus, or a cpuset partition) and "
            "moves no process between them: containers without exclusive CPUs stay where they started",
            "take isolcpus off the kernel's command line, or run only pods with exclusive CPUs here",
            "reservedSystemCPUs" if configuration.settings.get("reservedSystemCPUs") else "cpuManagerPolicy",
        )


def _lost_eviction_defaults(configuration: Configuration, version: KubeletVersion) -> _Findings:
    written = configuration.main.settings.get("evictionHard")
    if written is None or configuration.settings.get("mergeDefaultEvictionSettings"):
        return
    lost = [
        signal for signal in EVICTION_HARD if signal not in (configuration.settings.get("evictionHard") or {})
    ]
    if not lost:
        return
    consequence = "these thresholds are off"
    if "memory.available" in lost:
        consequence += ": without memory.available the kernel's OOM killer comes before any eviction"
    merge = " or set mergeDefaultEvictionSettings: true" if version.rules_minor >= 33 else ""
    yield configuration.places.finding(
        "NF507",
        f"an evictionHard map replaces all defaults; it leaves out {', '.join(lost)}, and {consequence}",
        f"add them{merge}",
        "evictionHard",
    )


def _overriding_flags(configuration: Configuration) -> _Findings:
    files = [
        configuration.main.settings,
        *(setting.data for setting in configuration.drop_in_documents.values()),
    ]
    for field, flag in sorted(configuration.flags.names.items()):
        if field.startswith("featureGates."):
            continue
        value = configuration.flags.settings[field]
        in_files = [_at(settings, field) for settings in files]
        if any(setting is not None and setting != value for setting in in_files):
            yield finding_of(
                "NF509",
                f"the flag {flag} overrides {field} of the files: the kubelet runs with {_shown(value)}",
                f"remove the flag (in the unit or its environment file), or {field} from the files",
                path=flag,
            )


def _at(settings: Mapping[str, Any], field: str) -> Any:
    value: Any = settings
    for step in field.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return str(value)


def _overwritten_reservation(configuration: Configuration) -> _Findings:
    settings = configuration.settings
    if not settings.get("reservedSystemCPUs"):
        return
    for field in ("kubeReserved", "systemReserved"):
        if "cpu" in (settings.get(field) or {}):
            yield configuration.places.finding(
                "NF515",
                f"reservedSystemCPUs overwrites {field}.cpu: its size is what is kept back",
                f"remove cpu from {field}",
                f"{field}.cpu",
            )


def _options_without_policy(configuration: Configuration) -> _Findings:
    settings, places = configuration.settings, configuration.places
    policy = settings["topologyManagerPolicy"]
    if policy == "none" and settings.get("topologyManagerPolicyOptions"):
        yield places.finding(
            "NF511",
            "topologyManagerPolicyOptions are not even read while topologyManagerPolicy is none",
            "set topologyManagerPolicy, or remove the options",
            "topologyManagerPolicyOptions",
        )
    if settings["memoryManagerPolicy"] == "None" and settings.get("reservedMemory"):
        yield places.finding(
            "NF512",
            "reservedMemory has no effect while memoryManagerPolicy is None",
            "set memoryManagerPolicy: Static, or remove reservedMemory",
            "reservedMemory",
        )
    no_hints = settings["cpuManagerPolicy"] == "none" and settings["memoryManagerPolicy"] == "None"
    if policy != "none" and no_hints:
        yield places.finding(
            "NF513",
            f"topologyManagerPolicy {policy} aligns devices only: the CPU and memory managers give no hints",
            "set cpuManagerPolicy: static, and memoryManagerPolicy: Static where memory matters",
            "topologyManagerPolicy",
        )


def _cpu_traps(configuration: Configuration, topology: NodeTopology, cpu: CpuManagerSetup) -> list[Finding]:
    path = "reservedSystemCPUs" if configuration.settings.get("reservedSystemCPUs") else "kubeReserved.cpu"
    free = topology.online - cpu.reserved
    if not free:
        return [
            configuration.places.finding(
                "NF503",
                "every CPU is reserved: the kubelet starts, and no container can get exclusive CPUs",
                "reserve fewer CPUs: whole cores on each NUMA node",
                path,
            )
        ]
    return [
        *_uneven_threads(configuration, topology, cpu, path),
        *_partial_cores(configuration, topology, cpu, path),
        *_starved_gpus(configuration, topology, free, path),
    ]


def _uneven_threads(
    configuration: Configuration, topology: NodeTopology, cpu: CpuManagerSetup, path: str
) -> _Findings:
    # kubernetes/kubernetes#124066 and #140495: CPUs per core is rounded down, so a half-reserved core looks
    # free.
    kubelet_cores = cores_seen(topology)
    sizes = {len(core.cpus) for core in kubelet_cores}
    at_risk = _in_part(kubelet_cores, cpu.reserved)
    if len(sizes) < 2:
        return
    if cpu.options.get(FULL_PCPUS_ONLY):
        per_core = sum(len(core.cpus) for core in kubelet_cores) // len(kubelet_cores)
        yield configuration.places.finding(
            "NF525",
            f"cores have {' or '.join(map(str, sorted(sizes)))} threads, and the kubelet counts {per_core} "
            f"for each: {FULL_PCPUS_ONLY} admits containers to parts of cores",
            "do not rely on whole cores here: switch SMT off, or give such pods an even number of CPUs",
            f"cpuManagerPolicyOptions.{FULL_PCPUS_ONLY}",
        )
    if not at_risk:
        return
    handed_out = frozenset[int]().union(*(core.cpus & cpu.reserved for core in at_risk))
    yield configuration.places.finding(
        "NF505",
        "cores have different numbers of threads online, so the kubelet takes a half-reserved core for a "
        f"free one and hands out the reserved {cpus_named(handed_out)}",
        "reserve whole cores, or bring all threads online",
        path,
    )


def _partial_cores(
    configuration: Configuration, topology: NodeTopology, cpu: CpuManagerSetup, path: str
) -> _Findings:
    partial = _in_part(whole_cores(topology), cpu.reserved)
    if not partial:
        return
    siblings = frozenset[int]().union(*(core.cpus - cpu.reserved for core in partial))
    if cpu.options.get(FULL_PCPUS_ONLY):
        consequence = (
            f"{FULL_PCPUS_ONLY} counts the other threads, {cpus_named(siblings)}, as taken, and the kubelet "
            "still hands them out, one by one, beside the system's work"
        )
    else:
        consequence = f"containers on {cpus_named(siblings)} share a core with the system"
    with_siblings = cpu.reserved | siblings
    yield configuration.places.finding(
        "NF506",
        f"{counted(len(partial), 'core is', 'cores are')} reserved in part: {consequence}",
        f'reserve whole cores: reservedSystemCPUs: "{format_cpulist(with_siblings)}"',
        path,
    )


def _in_part(cores: Iterable[Core], reserved: CpuSet) -> list[Core]:
    return [core for core in cores if core.cpus & reserved and not core.cpus <= reserved]


def _starved_gpus(configuration: Configuration, topology: NodeTopology, free: CpuSet, path: str) -> _Findings:
    threads = max((len(core.cpus) for core in topology.cores), default=1)
    for node in topology.numa_nodes:
        gpus = sum(gpu.numa_node == node.id for gpu in topology.gpus)
        free_cpus = node.cpus & free
        if node.cpus and len(free_cpus) < gpus * threads:
            yield configuration.places.finding(
                "NF508",
                f"NUMA node {node.id} has {counted(gpus, 'GPU')} and {counted(len(free_cpus), 'CPU')} left "
                "for pods: not a core for each GPU",
                "reserve CPUs on another NUMA node, or fewer of them",
                path,
            )


def _oversized_reservations(configuration: Configuration, memory: MemoryManagerSetup) -> _Findings:
    for node, tables in sorted(memory.machine.items()):
        table = tables["memory"]
        pages = sum(size.total for name, size in tables.items() if name != "memory")
        if table.total and table.system_reserved and table.system_reserved + pages > table.total:
            reserved = Quantity.of_bytes(table.system_reserved)
            yield configuration.places.finding(
                "NF504",
                f"NUMA node {node} has {Quantity.of_bytes(table.total)} of memory, "
                f"{Quantity.of_bytes(pages)} of it in hugepages, and reservedMemory takes {reserved}: what "
                "is left wraps around to a huge number, and the kubelet admits pods that the node "
                "cannot hold",
                "spread reservedMemory over the NUMA nodes",
                "reservedMemory",
            )


def _single_numa_node(
    configuration: Configuration, topology: NodeTopology, cpu: CpuManagerSetup | None
) -> _Findings:
    nodes = [node for node in topology.numa_nodes if node.cpus]
    if configuration.settings["topologyManagerPolicy"] != "single-numa-node" or len(nodes) < 2:
        return
    reserved = cpu.reserved if cpu else frozenset()
    cpus = max(len(node.cpus - reserved) for node in nodes)
    largest = counted(cpus, "exclusive CPU")
    near = [gpu.numa_node for gpu in topology.gpus]
    gpus = near.count(None) + max(near.count(node.id) for node in topology.numa_nodes)
    if gpus < len(near):  # a GPU of unknown NUMA node gives no hint, so it never causes a refusal
        largest += f" or {gpus} of the {len(near)} GPUs"
    scope = configuration.settings["topologyManagerScope"]
    yield configuration.places.finding(
        "NF510",
        f"single-numa-node refuses every {scope} that needs more than one NUMA node has: at most {largest}",
        "use topologyManagerPolicy: best-effort where larger shapes must run",
        "topologyManagerPolicy",
    )


def _many_hints(configuration: Configuration, topology: NodeTopology, version: KubeletVersion) -> _Findings:
    settings = configuration.settings
    pages = {size for node in topology.numa_nodes for size, pool in node.hugepages.items() if pool.total}
    policies = Policies(
        settings["cpuManagerPolicy"],
        settings["memoryManagerPolicy"],
        settings["topologyManagerPolicy"],
        pages,
    )
    work = hint_work(topology, version, policies)
    if not work.slow:
        return
    consequence = "no pod is admitted in time" if work.hopeless else "every pod waits for it"
    yield configuration.places.finding(
        "NF516",
        f"{work}: {consequence}",
        work.remedies(topology),
        "memoryManagerPolicy" if MEMORY_MANAGER in work.numa_nodes else "topologyManagerPolicy",
    )
