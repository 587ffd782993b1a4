"""Settings that a kubelet accepts but should not, each with its consequence.

The behaviour behind each warning was observed on real kubelets; related issues of kubernetes/kubernetes are
named beside the rule.
"""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from functools import reduce
from typing import Any

from numaforge.findings import Finding
from numaforge.kubelet.admission.cpu_manager import FIRST_MINOR_KEEPING_HALVES
from numaforge.kubelet.admission.hint_work import MEMORY_MANAGER, Policies, hint_work
from numaforge.kubelet.admission.machine import cores_seen, whole_cores
from numaforge.kubelet.checkpoints import CpuState
from numaforge.kubelet.config.decode import field_path
from numaforge.kubelet.config.gates import gate
from numaforge.kubelet.config.loading import Configuration
from numaforge.kubelet.findings import Fault, dotted, fault
from numaforge.kubelet.startup.cgroups import needed_cgroups
from numaforge.kubelet.startup.managers import CpuManagerSetup, MemoryManagerSetup
from numaforge.kubelet_minors.fields import ROOT_TYPE, first_minor_of, types_of
from numaforge.kubelet_minors.flags import flag_called
from numaforge.kubelet_minors.options import FULL_PCPUS_ONLY
from numaforge.kubelet_minors.tables import EVICTION_HARD, GATES, REMOVALS, state_at
from numaforge.kubelet_minors.values.durations import parse_duration
from numaforge.kubelet_minors.values.gojson import GoJsonError, Path, decode
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.lib.cpulist import cpus_named, format_cpulist
from numaforge.lib.given import mapping
from numaforge.lib.ordering import first_of
from numaforge.lib.quantity import Quantity, counted
from numaforge.machine.topology.model import Core, CpuSet, NodeTopology

_Faults = Iterator[Fault]

_FIRST_MINOR_OF_NEW_MEANINGS = 37
_SHORTEST_RECONCILING = 10**9


def unread_fields(configuration: Configuration) -> tuple[Finding, ...]:
    """Return the fields that lenient decoding drops, keys that appear twice, and files that are not read."""
    places, version = configuration.places, configuration.version
    findings = [
        _unknown_field(path, version, places.main, configuration.main.lines.get(path))
        for path in configuration.main.unknown
    ]
    findings += [
        fault("NF502", path=dotted(path)).finding(file=places.main, line=line)
        for path, line in configuration.main.duplicates
    ]
    for name, document in configuration.drop_in_documents.items():
        file = f"{places.drop_in_dir}/{name}"
        findings += [
            _unknown_field(path, version, file, document.lines.get(path))
            for path in _unknown_in(document.data, version)
        ]
    skipped = (f"{places.drop_in_dir}/{name}" for name in configuration.skipped)
    findings += [fault("NF514").finding(file=file) for file in skipped]
    return tuple(findings)


def find_traps(
    configuration: Configuration,
    topology: NodeTopology,
    cpu: CpuManagerSetup | None,
    memory: MemoryManagerSetup | None,
    cpu_state: CpuState | None = None,
) -> tuple[Finding, ...]:
    """Return warnings about a loaded configuration; a manager is None where the start did not reach it.

    `cpu_state` is the CPU manager's restored state.
    """
    faults = [
        *_vanishing_gates(configuration),
        *_changed_meanings(configuration),
        *_lost_eviction_defaults(configuration),
        *_overriding_flags(configuration),
        *_without_effect(configuration),
        *_odd_values(configuration),
        *needed_cgroups(configuration),
    ]
    if cpu is not None and cpu.policy == "static":
        faults += _cpu_traps(configuration, topology, cpu)
        faults += _static_cpus(configuration)
        if cpu_state is not None and cpu.options.full_pcpus_only:
            faults += _held_halves(configuration, topology, cpu_state)
    if memory is not None and memory.policy == "Static":
        faults += _oversized_reservations(memory)
    faults += _single_numa_node(configuration, topology, cpu)
    faults += _many_hints(configuration, topology)
    # kubernetes/kubernetes#87862: the kernel balances no load on isolated CPUs.
    if shared := topology.isolated - (cpu.reserved if cpu else frozenset()):
        is_explicit = configuration.settings.get("reservedSystemCPUs")
        field = "reservedSystemCPUs" if is_explicit else "cpuManagerPolicy"
        faults.append(fault("NF523", field=field, cpus=cpus_named(shared)))
    return tuple(map(configuration.places.finding, faults))


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
    text = f"strict decoding error: unknown field {quoted(field_path(path))}"
    return fault("NF501", name=name, version=version, remedy=remedy).finding(text, file, line)


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


def _vanishing_gates(configuration: Configuration) -> _Faults:
    """Yield a finding for each gate set here that the next minor's kubelet is known to reject."""
    following = configuration.minor + 1
    for name in sorted(configuration.settings.get("featureGates") or {}):
        if name not in GATES or state_at(GATES[name], configuration.minor) is None:
            continue
        text = "main"
        if following > LATEST_MINOR:
            if REMOVALS.get(name, following + 1) > following:
                continue
            text = "announced"
        elif state_at(GATES[name], following) is not None:
            continue
        state, why = gate(configuration.version, name), ""
        if state is not None and state.locked and state.default:
            why = f": kubelet {configuration.version} has it on by default and takes no other value"
        removal = REMOVALS.get(name)
        yield fault("NF517", text, name=name, following=following, removal=removal, why=why)


def _changed_meanings(configuration: Configuration) -> _Faults:
    settings, is_newer = configuration.settings, configuration.minor >= _FIRST_MINOR_OF_NEW_MEANINGS
    # From 1.37 on MemoryQoS is on by default; without a factor memory.high is not set.
    factor, is_named = settings.get("memoryThrottlingFactor"), "MemoryQoS" in configuration.gates
    if is_newer and factor is not None and not is_named and configuration.enabled("MemoryQoS"):
        yield fault("NF518", factor=factor)
    if settings.get("eventRecordQPS") == 0:
        yield fault("NF519", "from 1.37" if is_newer else "main")


def _held_halves(configuration: Configuration, topology: NodeTopology, state: CpuState) -> _Faults:
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
    refused = configuration.minor < FIRST_MINOR_KEEPING_HALVES and any(
        len(cpus) % size for cpus in halves.values()
    )
    text = "refused" if refused else "main"
    yield fault("NF520", text, halves=shown, size=size)


def _static_cpus(configuration: Configuration) -> _Faults:
    # kubernetes/kubernetes#140989: AllocatePod of 1.36 and 1.37 does not look for what a pod has.
    scope, policy = (configuration.settings[f"topologyManager{name}"] for name in ("Scope", "Policy"))
    if configuration.enabled("PodLevelResourceManagers") and scope == "pod" and policy != "none":
        yield fault("NF521")
    period = configuration.settings["cpuManagerReconcilePeriod"]
    nanoseconds = parse_duration(period).nanoseconds
    if nanoseconds < _SHORTEST_RECONCILING:
        often = f"every {period}" if nanoseconds > 0 else "without a pause"
        yield fault("NF522", period=period, often=often)


def _lost_eviction_defaults(configuration: Configuration) -> _Faults:
    written = configuration.main.settings.get("evictionHard")
    if written is None or configuration.settings.get("mergeDefaultEvictionSettings"):
        return
    lost = [
        signal for signal in EVICTION_HARD if signal not in (configuration.settings.get("evictionHard") or {})
    ]
    if not lost:
        return
    consequence = ""
    if "memory.available" in lost:
        consequence = ": without memory.available the kernel's OOM killer comes before any eviction"
    merge = " or set mergeDefaultEvictionSettings: true" if configuration.minor >= 33 else ""
    yield fault("NF507", lost=", ".join(lost), consequence=consequence, merge=merge)


def _overriding_flags(configuration: Configuration) -> _Faults:
    files = [
        configuration.main.settings,
        *(setting.data for setting in configuration.drop_in_documents.values()),
    ]
    for field, flag in sorted(configuration.flags.names.items()):
        if field.startswith("featureGates."):
            continue
        value = configuration.flags.settings[field]
        path = field.split(".")
        in_files = [reduce(lambda data, step: mapping(data).get(step), path, data) for data in files]
        if any(setting not in (None, value) for setting in in_files):
            yield fault("NF509", flag=flag, field=field, value=_shown(value))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return str(value)


def _without_effect(configuration: Configuration) -> _Faults:
    settings = configuration.settings
    for field in ("kubeReserved", "systemReserved"):
        if settings.get("reservedSystemCPUs") and "cpu" in (settings.get(field) or {}):
            yield fault("NF515", field=field)
    policy = settings["topologyManagerPolicy"]
    if policy == "none" and settings.get("topologyManagerPolicyOptions"):
        yield fault("NF511")
    if settings["memoryManagerPolicy"] == "None" and settings.get("reservedMemory"):
        yield fault("NF512")
    no_hints = settings["cpuManagerPolicy"] == "none" and settings["memoryManagerPolicy"] == "None"
    if policy != "none" and no_hints:
        yield fault("NF513", policy=policy)


def _odd_values(configuration: Configuration) -> _Faults:
    settings = configuration.settings
    threshold = (settings.get("evictionHard") or {}).get("memory.available", "")
    if settings["memoryManagerPolicy"] == "Static" and threshold.endswith("%"):
        yield fault("NF524", threshold=threshold)
    if (driver := settings["cgroupDriver"]) not in ("cgroupfs", "systemd"):
        yield fault("NF526", driver=driver)


def _cpu_traps(configuration: Configuration, topology: NodeTopology, cpu: CpuManagerSetup) -> list[Fault]:
    path = "reservedSystemCPUs" if configuration.settings.get("reservedSystemCPUs") else "kubeReserved.cpu"
    free = topology.online - cpu.reserved
    if not free:
        return [fault("NF503", path=path)]
    return [
        *_uneven_threads(topology, cpu, path),
        *_partial_cores(topology, cpu, path),
        *_starved_gpus(topology, free, path),
    ]


def _uneven_threads(topology: NodeTopology, cpu: CpuManagerSetup, path: str) -> _Faults:
    # kubernetes/kubernetes#124066 and #140495: CPUs per core is rounded down, so a half-reserved core looks
    # free.
    kubelet_cores = cores_seen(topology)
    sizes = {len(core.cpus) for core in kubelet_cores}
    at_risk = _in_part(kubelet_cores, cpu.reserved)
    if len(sizes) < 2:
        return
    if cpu.options.full_pcpus_only:
        per_core = sum(len(core.cpus) for core in kubelet_cores) // len(kubelet_cores)
        shown = " or ".join(map(str, sorted(sizes)))
        yield fault("NF525", sizes=shown, per_core=per_core)
    if not at_risk:
        return
    handed_out = frozenset[int]().union(*(core.cpus & cpu.reserved for core in at_risk))
    yield fault("NF505", path=path, cpus=cpus_named(handed_out))


def _partial_cores(topology: NodeTopology, cpu: CpuManagerSetup, path: str) -> _Faults:
    partial = _in_part(whole_cores(topology), cpu.reserved)
    if not partial:
        return
    siblings = frozenset[int]().union(*(core.cpus - cpu.reserved for core in partial))
    yield fault(
        "NF506",
        FULL_PCPUS_ONLY if cpu.options.full_pcpus_only else "main",
        path=path,
        cores=counted(len(partial), "core is", "cores are"),
        siblings=cpus_named(siblings),
        whole=format_cpulist(cpu.reserved | siblings),
    )


def _in_part(cores: Iterable[Core], reserved: CpuSet) -> list[Core]:
    return [core for core in cores if core.cpus & reserved and not core.cpus <= reserved]


def _starved_gpus(topology: NodeTopology, free: CpuSet, path: str) -> _Faults:
    threads = max((len(core.cpus) for core in topology.cores), default=1)
    for node in topology.numa_nodes:
        gpus = sum(gpu.numa_node == node.id for gpu in topology.gpus)
        free_cpus = node.cpus & free
        if node.cpus and len(free_cpus) < gpus * threads:
            counts = {"gpus": counted(gpus, "GPU"), "cpus": counted(len(free_cpus), "CPU")}
            yield fault("NF508", path=path, node=node.id, **counts)


def _oversized_reservations(memory: MemoryManagerSetup) -> _Faults:
    for node, tables in sorted(memory.machine.items()):
        table = tables["memory"]
        pages = sum(size.total for name, size in tables.items() if name != "memory")
        if table.total and table.system_reserved and table.system_reserved + pages > table.total:
            sizes = {"total": table.total, "pages": pages, "reserved": table.system_reserved}
            shown = {name: Quantity.of_bytes(size) for name, size in sizes.items()}
            yield fault("NF504", node=node, **shown)


def _single_numa_node(
    configuration: Configuration, topology: NodeTopology, cpu: CpuManagerSetup | None
) -> _Faults:
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
    yield fault("NF510", scope=scope, largest=largest)


def _many_hints(configuration: Configuration, topology: NodeTopology) -> _Faults:
    settings = configuration.settings
    pages = {size for node in topology.numa_nodes for size, pool in node.hugepages.items() if pool.total}
    policies = Policies(
        settings["cpuManagerPolicy"],
        settings["memoryManagerPolicy"],
        settings["topologyManagerPolicy"],
        pages,
    )
    work = hint_work(topology, configuration.version, policies)
    if not work.slow:
        return
    consequence = "no pod is admitted in time" if work.hopeless else "every pod waits for it"
    field = "memoryManagerPolicy" if MEMORY_MANAGER in work.numa_nodes else "topologyManagerPolicy"
    remedies = work.remedies(topology)
    yield fault("NF516", field=field, work=work, consequence=consequence, remedies=remedies)
