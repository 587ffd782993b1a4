"""Whether a kubelet would start with a configuration on a machine, in the kubelet's own order and words.

Source: run and RunKubelet in cmd/kubelet/app/server.go, NewContainerManager and Start in
pkg/kubelet/cm/container_manager_linux.go, NewMainKubelet in pkg/kubelet/kubelet.go. Assumes that the kubelet
reaches its API server and its container runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeVar

from numaforge.findings import Finding
from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.settings import CLOSEST_NUMA_PANIC, CLOSEST_NUMA_REMEDY, closest_numa_panic
from numaforge.kubelet.checkpoints import (
    CPU_STATE_FILE,
    MEMORY_STATE_FILE,
    CheckpointError,
    CpuState,
    check_cpu_state,
    check_memory_state,
    restore_cpu_state,
    restore_memory_state,
)
from numaforge.kubelet.config.gates import aggregate, enabled
from numaforge.kubelet.config.loading import Configuration, StartError, load
from numaforge.kubelet.config.places import Places
from numaforge.kubelet.config.reservations import (
    ReservationError,
    Threshold,
    beyond_capacity,
    check_soft_thresholds,
    node_reservation,
    parse_reserved,
    parse_thresholds,
)
from numaforge.kubelet.findings import Report, finding_of
from numaforge.kubelet.startup.cgroups import require_enforceable_cgroups
from numaforge.kubelet.startup.managers import (
    CpuManagerSetup,
    ManagerError,
    MemoryManagerSetup,
    set_up_cpu_manager,
    set_up_memory_manager,
    set_up_topology_manager,
    shown_map,
)
from numaforge.kubelet.startup.sysctls import sysctl_complaint
from numaforge.kubelet.startup.tls import tls_complaint
from numaforge.kubelet.startup.traps import find_traps, unread_fields
from numaforge.kubelet.startup.validation import (
    FIRST_MINOR_CHECKING_FLUSHES,
    InvalidSetting,
    validate,
    validate_logging,
)
from numaforge.kubelet_minors.options import PREFER_CLOSEST_NUMA, STRICT_CPU_RESERVATION
from numaforge.kubelet_minors.values.booleans import truth
from numaforge.kubelet_minors.values.cpusets import parse_cpuset
from numaforge.kubelet_minors.values.durations import parse_duration
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.values.numbers import NumberError, parse_int
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.kubelet_paths import CONFIG_PATH, DROP_IN_DIR, ROOT_DIR
from numaforge.lib.quantity import Quantity, QuantityError
from numaforge.machine.topology.model import NodeTopology

_LAST_MINOR_OF_CPU_OPTIONS_GATE = 32
_LAST_MINOR_OF_MEMORY_MANAGER_GATE = 31
_FIRST_MINOR_OF_SHORT_SWAP_TEXT = 31
_RUN = "failed to run Kubelet: "
_CREATE = f"{_RUN}failed to create kubelet: "
T = TypeVar("T")
_WATCH_STRATEGIES = ("Get", "Cache", "Watch")


@dataclass
class _Managers:
    """The set-up of the managers, as far as the start got."""

    cpu: CpuManagerSetup | None = None
    cpu_state: CpuState | None = None
    memory: MemoryManagerSetup | None = None
    reservation: Mapping[str, Quantity] = field(default_factory=dict)


def check(
    config_text: str,
    *,
    topology: NodeTopology,
    version: KubeletVersion | str,
    drop_ins: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    state_files: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    config_path: str = CONFIG_PATH,
    drop_in_dir: str = DROP_IN_DIR,
    root_dir: str = ROOT_DIR,
) -> Report:
    """Return a report on whether this kubelet would start, with every finding on the way.

    `drop_ins` maps names below `drop_in_dir` to texts, `flags` are the kubelet's arguments, `state_files`
    maps names below `root_dir` (`cpu_manager_state`) to texts. The three paths only appear in the kubelet's
    messages. Raises KubeletConfigError for an invalid version, or one older than the oldest known, and for
    flags that kubeadm does not decode.
    """
    kubelet = version if isinstance(version, KubeletVersion) else KubeletVersion.parse(version)
    findings: list[Finding] = []
    if kubelet.notice:
        findings.append(finding_of("NF601", kubelet.notice, "check again with a newer numaforge"))
    configuration = None
    managers = _Managers()
    error, readable = None, True
    try:
        configuration, notes = load(
            config_text, drop_ins or {}, tuple(flags), kubelet, environment or {}, config_path, drop_in_dir
        )
        findings += notes
        machine = MachineInfo.from_topology(topology)
        _validate(configuration, kubelet, topology)
        _run(configuration, kubelet, topology, machine, managers)
        _start(configuration, kubelet, machine, managers, state_files or {}, root_dir)
    except StartError as refusal:
        error, readable = refusal.error, refusal.readable
        findings += refusal.findings
    if configuration is not None:
        findings += unread_fields(configuration, kubelet)
        findings += find_traps(
            configuration, topology, kubelet, managers.cpu, managers.memory, managers.cpu_state
        )
    return Report(
        version=str(kubelet),
        starts=error is None,
        error=error,
        findings=tuple(findings),
        effective={} if configuration is None else configuration.settings,
        readable=readable,
        reserved_cpus=managers.cpu.reserved if managers.cpu else None,
        reservation={name: str(quantity) for name, quantity in managers.reservation.items()},
    )


def _validate(configuration: Configuration, version: KubeletVersion, topology: NodeTopology) -> None:
    settings, gates = configuration.settings, configuration.gates
    refused = validate_logging(settings, version, gates)
    if refused:
        texts = aggregate(tuple(refusal.text for refusal in refused))
        raise StartError(f"initialize logging: {texts}", *_refusal_findings(refused, configuration.places))
    _require_flush_interval(configuration, version)
    cgroup_version = topology.cgroup_version or 2
    refused = validate(settings, version, gates, cgroup_version=cgroup_version)
    if refused:
        texts = aggregate(tuple(refusal.text for refusal in refused))
        raise StartError(
            f"failed to validate kubelet configuration, error: {texts}",
            *_refusal_findings(refused, configuration.places),
        )


def _require_flush_interval(configuration: Configuration, version: KubeletVersion) -> None:
    flush = configuration.settings["logging"]["flushFrequency"]
    if version.rules_minor < FIRST_MINOR_CHECKING_FLUSHES and parse_duration(flush).nanoseconds < 0:
        text = "panic: non-positive interval for NewTicker"
        finding = configuration.places.finding(
            "NF118",
            f"the kubelet panics when it starts to flush its log every {flush}",
            "leave logging.flushFrequency out (5s), or set a positive duration",
            "logging.flushFrequency",
            text,
        )
        raise StartError(text, finding)


def _refusal_findings(refusals: Sequence[InvalidSetting], places: Places) -> list[Finding]:
    return [
        places.finding(
            refusal.rule,
            refusal.text.removeprefix("invalid configuration: "),
            refusal.remedy,
            refusal.path,
            refusal.text,
        )
        for refusal in refusals
    ]


@dataclass
class _Steps:
    """Steps of a start, each tried although an earlier one was refused, to find what would come next."""

    refusals: list[StartError] = field(default_factory=list)

    def take(self, step: Callable[[], T], otherwise: T) -> T:
        """Return what a step returns, `otherwise` where it is refused."""
        try:
            return step()
        except StartError as refusal:
            self.refusals.append(refusal)
            return otherwise

    def manager(self, places: Places, set_up: Callable[[], T]) -> T | None:
        """Return a manager's set-up, None where it is refused."""
        try:
            return set_up()
        except ManagerError as error:
            finding = places.finding(error.rule, str(error), error.remedy, error.path, str(error))
            self.refusals.append(StartError(f"{_RUN}{error}", finding))
            return None

    def end(self) -> None:
        """Raise the first refusal, with the findings of those that would come next marked so."""
        if not self.refusals:
            return
        first, *later = self.refusals
        following = (finding for refusal in later for finding in refusal.findings)
        later_findings = [
            replace(finding, evidence=f"what would come next: {finding.evidence}") for finding in following
        ]
        raise StartError(first.error, *first.findings, *later_findings, readable=first.readable)


def _run(
    configuration: Configuration,
    version: KubeletVersion,
    topology: NodeTopology,
    machine: MachineInfo,
    managers: _Managers,
) -> None:
    settings, places = configuration.settings, configuration.places
    steps = _Steps()
    steps.take(lambda: _require_tls(configuration, version), None)
    steps.take(lambda: _require_authorization_mode(configuration), None)
    reserved_cpus = steps.take(lambda: _reserved_cpus(configuration, machine), None)
    kube, system = dict(settings.get("kubeReserved") or {}), dict(settings.get("systemReserved") or {})
    if reserved_cpus or reserved_cpus is None:
        kube.pop("cpu", None)
        system["cpu"] = str(len(reserved_cpus or ()))
    kube_reserved = steps.take(
        lambda: _parsed_reserved(kube, "kubeReserved", "--kube-reserved", places, version), None
    )
    system_reserved = steps.take(
        lambda: _parsed_reserved(system, "systemReserved", "--system-reserved", places, version), None
    )
    hard = steps.take(lambda: _hard_thresholds(configuration, version), None)
    steps.take(lambda: _require_qos_reserved(configuration), None)
    steps.take(lambda: _require_option_gates(configuration, version), None)
    steps.take(lambda: _require_swap(configuration, version, topology), None)
    gates = configuration.gates
    steps.manager(places, lambda: set_up_topology_manager(settings, machine, version, gates))
    if kube_reserved is not None and system_reserved is not None and hard is not None:
        capacity = _capacity(machine)
        reservation = node_reservation(kube_reserved, system_reserved, hard, capacity)
        managers.reservation = reservation if reserved_cpus is not None else {}
        managers.cpu = steps.manager(
            places,
            lambda: set_up_cpu_manager(
                settings, machine, version, gates, reserved=reserved_cpus, reservation=reservation
            ),
        )
        if _runs_memory_manager(configuration, version):
            parts = {
                "kubeReserved": kube_reserved.get("memory"),
                "systemReserved": system_reserved.get("memory"),
                "evictionHard": node_reservation({}, {}, hard, capacity).get("memory"),
            }
            managers.memory = steps.manager(
                places,
                lambda: set_up_memory_manager(
                    settings, machine, version, reservation=reservation, parts=parts
                ),
            )
    steps.take(lambda: _create_kubelet(configuration, version), None)
    steps.end()


def _refusal(
    configuration: Configuration, rule: str, path: str, text: str, remedy: str, prefix: str = _RUN
) -> StartError:
    """Return a StartError; its message without the `prefix` is the finding's evidence."""
    return StartError(f"{prefix}{text}", configuration.places.finding(rule, text, remedy, path, text))


def _require_tls(configuration: Configuration, version: KubeletVersion) -> None:
    complaint = tls_complaint(configuration.settings, version)
    if complaint:
        prefix = "failed to construct kubelet dependencies: "
        raise _refusal(configuration, "NF219", complaint.path, complaint.text, complaint.remedy, prefix)


def _require_authorization_mode(configuration: Configuration) -> None:
    mode = configuration.settings["authorization"]["mode"]
    if mode not in ("AlwaysAllow", "Webhook"):
        text = f"unknown authorization mode {mode}"
        raise _refusal(configuration, "NF219", "authorization.mode", text, "use Webhook or AlwaysAllow")


def _reserved_cpus(configuration: Configuration, machine: MachineInfo) -> frozenset[int]:
    text = configuration.settings.get("reservedSystemCPUs") or ""
    reserved = parse_cpuset(text)
    online = frozenset(machine.cpus.places)
    if reserved <= online:
        return reserved
    error = f"reserved-cpus: {text} is not a subset of online-cpus: {format_cpulist(online)}"
    absent = format_cpulist(reserved - online)
    remedy = f"remove {absent}, or bring these CPUs online before the kubelet starts"
    raise _refusal(configuration, "NF201", "reservedSystemCPUs", error, remedy)


def _parsed_reserved(
    reserved: Mapping[str, str], field_name: str, flag: str, places: Places, version: KubeletVersion
) -> dict[str, Quantity]:
    try:
        return parse_reserved(reserved, version.rules_minor)
    except ReservationError as error:
        text = f"{flag} value failed to parse: {error}"
        remedy = "reserve cpu, memory, ephemeral-storage or pid, as quantities such as 500m, 2Gi, 1000"
        raise StartError(
            f"{_RUN}{text}", places.finding("NF202", text, remedy, f"{field_name}.{error.key}", text)
        ) from error


def _hard_thresholds(configuration: Configuration, version: KubeletVersion) -> dict[str, Threshold]:
    if configuration.flags.outside_config.get("experimental-allocatable-ignore-eviction"):
        return {}
    try:
        return parse_thresholds(configuration.settings.get("evictionHard") or {}, version.rules_minor)
    except ReservationError as error:
        raise StartError(
            f"{_RUN}{error}", _eviction_finding(error, "evictionHard", configuration.places)
        ) from error


def _eviction_finding(error: ReservationError, field_name: str, places: Places) -> Finding:
    return places.finding(
        "NF203",
        str(error),
        "use memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree or "
        "pid.available with a quantity (500Mi) or a percentage (5%)",
        f'{field_name}["{error.key}"]',
        str(error),
    )


def _require_qos_reserved(configuration: Configuration) -> None:
    for name, share in sorted((configuration.settings.get("qosReserved") or {}).items()):
        complaint = _qos_complaint(name, share)
        if complaint:
            text = f"--qos-reserved value failed to parse: {complaint}"
            remedy = 'reserve memory only, as a percentage: "50%"'
            raise _refusal(configuration, "NF219", f"qosReserved.{name}", text, remedy)


def _qos_complaint(name: str, share: str) -> str | None:
    if name != "memory":
        return f"cannot reserve {quoted(name)} resource"
    prefix = f"failed to parse percentage {quoted(share)} for {quoted(name)} resource: "
    if not share.endswith("%"):
        return f"{prefix}percentage expected, got '{share}'"
    try:
        percentage = parse_int(share.rstrip("%"), base=10)
    except NumberError:
        return f"{prefix}invalid number in percentage '{share}'"
    return None if 0 <= percentage <= 100 else f"{prefix}percentage must be between 0 and 100"


def _require_option_gates(configuration: Configuration, version: KubeletVersion) -> None:
    settings, gates = configuration.settings, configuration.gates
    cpu, topology = settings.get("cpuManagerPolicyOptions"), settings.get("topologyManagerPolicyOptions")
    if (
        version.rules_minor <= _LAST_MINOR_OF_CPU_OPTIONS_GATE
        and cpu is not None
        and not enabled(version, gates, "CPUManagerPolicyOptions")
    ):
        text = (
            f"CPU Manager policy options {shown_map(cpu)} require feature gates "
            '"CPUManager", "CPUManagerPolicyOptions" enabled'
        )
        remedy = "do not switch the feature gate CPUManagerPolicyOptions off"
        raise _refusal(configuration, "NF207", "cpuManagerPolicyOptions", text, remedy)
    if topology is not None and not enabled(version, gates, "TopologyManagerPolicyOptions"):
        text = (
            f"topology manager policy options {shown_map(topology)} require feature gates "
            '"TopologyManagerPolicyOptions" enabled'
        )
        remedy = "do not switch the feature gate TopologyManagerPolicyOptions off"
        raise _refusal(configuration, "NF207", "topologyManagerPolicyOptions", text, remedy)


def _require_swap(configuration: Configuration, version: KubeletVersion, topology: NodeTopology) -> None:
    settings = configuration.settings
    limited = (settings.get("memorySwap") or {}).get("swapBehavior") == "LimitedSwap"
    on_cgroup_v1 = topology.cgroup_version == 1
    if (
        version.rules_minor >= 30
        and limited
        and on_cgroup_v1
        and enabled(version, configuration.gates, "NodeSwap")
    ):
        text = "swap feature is enabled and LimitedSwap but it is only supported with cgroupv2"
        remedy = "boot the host with cgroup v2, or use NoSwap"
        raise _refusal(configuration, "NF204", "memorySwap.swapBehavior", text, remedy)
    if not topology.swap_bytes or not settings.get("failSwapOn"):
        return
    text = "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"
    if version.rules_minor < _FIRST_MINOR_OF_SHORT_SWAP_TEXT:
        text = (
            "running with swap on is not supported, please disable swap! or set --fail-swap-on flag to false."
        )
    remedy = "switch swap off (swapoff -a, and in /etc/fstab), or set failSwapOn: false"
    raise _refusal(configuration, "NF204", "failSwapOn", text, remedy)


def _runs_memory_manager(configuration: Configuration, version: KubeletVersion) -> bool:
    if version.rules_minor > _LAST_MINOR_OF_MEMORY_MANAGER_GATE:
        return True
    return enabled(version, configuration.gates, "MemoryManager")


def _capacity(machine: MachineInfo) -> dict[str, Quantity]:
    capacity = {
        "cpu": Quantity(Fraction(machine.cpus.num_cpus), "DecimalSI", -3),
        "memory": Quantity.of_bytes(machine.memory_bytes),
    }
    for node in machine.nodes:
        for name, size in node.hugepages.items():
            capacity[name] = Quantity.of_bytes(size).plus(capacity.get(name, Quantity.of_bytes(0)))
    return capacity


def _create_kubelet(configuration: Configuration, version: KubeletVersion) -> None:
    settings, places = configuration.settings, configuration.places
    if parse_duration(settings["syncFrequency"]).nanoseconds <= 0:
        text = f"invalid sync frequency {parse_duration(settings['syncFrequency']).nanoseconds}"
        remedy = "set a positive duration, such as 1m"
        raise _refusal(configuration, "NF219", "syncFrequency", text, remedy, _CREATE)
    soft, grace = settings.get("evictionSoft") or {}, settings.get("evictionSoftGracePeriod") or {}
    reclaims = settings.get("evictionMinimumReclaim") or {}
    try:
        check_soft_thresholds(soft, grace, reclaims, version.rules_minor)
    except ReservationError as error:
        name = next(
            (
                name
                for name, keys in (("evictionSoft", soft), ("evictionSoftGracePeriod", grace))
                if error.key in keys
            ),
            "evictionMinimumReclaim",
        )
        raise StartError(f"{_CREATE}{error}", _eviction_finding(error, name, places)) from error
    complaint = _creation_complaint(settings, version.rules_minor)
    if complaint:
        raise _refusal(configuration, "NF219", *complaint, _CREATE)


def _creation_complaint(settings: Mapping[str, Any], minor: int) -> tuple[str, str, str] | None:
    strategy = settings["configMapAndSecretChangeDetectionStrategy"]
    if strategy not in _WATCH_STRATEGIES:
        return (
            "configMapAndSecretChangeDetectionStrategy",
            f"unknown configmap and secret manager mode: {strategy}",
            f"use one of {', '.join(_WATCH_STRATEGIES)}",
        )
    files, size = settings["containerLogMaxFiles"], settings["containerLogMaxSize"]
    failed = "failed to initialize container log manager: "
    if files <= 1:
        return "containerLogMaxFiles", f"{failed}invalid MaxFiles {files}, must be > 1", "set 2 or more"
    unreadable = _size_complaint(size)
    if unreadable:
        text = f"{failed}failed to parse container log max size {quoted(size)}: {unreadable}"
        return "containerLogMaxSize", text, "write a whole quantity such as 10Mi"
    patterns = settings.get("allowedUnsafeSysctls") or []
    sysctl = next(filter(None, (sysctl_complaint(pattern, minor) for pattern in patterns)), None)
    if sysctl:
        remedy = "name sysctls of a namespace: kernel.shm*, kernel.msg*, kernel.sem, fs.mqueue.*, net.*"
        return "allowedUnsafeSysctls", sysctl, remedy
    return None


def _size_complaint(size: str) -> str | None:
    try:
        quantity = Quantity.parse(size)
    except QuantityError as error:
        return str(error)
    return "invalid max log size" if quantity.as_int64() is None else None


def _start(
    configuration: Configuration,
    version: KubeletVersion,
    machine: MachineInfo,
    managers: _Managers,
    state_files: Mapping[str, str],
    root_dir: str,
) -> None:
    root = configuration.flags.outside_config.get("root-dir") or root_dir
    by_pod = enabled(version, configuration.gates, "PodLevelResourceManagers")
    if managers.cpu and CPU_STATE_FILE in state_files:
        path, text = f"{root}/{CPU_STATE_FILE}", state_files[CPU_STATE_FILE]
        managers.cpu_state = _restored_cpus(managers.cpu, text, version, machine, path, by_pod=by_pod)
    if managers.memory and MEMORY_STATE_FILE in state_files:
        path, text = f"{root}/{MEMORY_STATE_FILE}", state_files[MEMORY_STATE_FILE]
        _restore_memory(managers.memory, text, version, path, by_pod=by_pod)
    reservation = dict(managers.reservation)
    if not machine.memory_bytes:  # unknown: every machine has memory
        reservation.pop("memory", None)
    beyond = beyond_capacity(reservation, _capacity(machine))
    if beyond:
        name, text = beyond
        finding = configuration.places.finding(
            "NF218",
            f"more {name} is reserved than the node has",
            "lower kubeReserved, systemReserved or the hard eviction threshold",
            f"kubeReserved.{name}",
            text,
        )
        raise StartError(text, finding)
    require_enforceable_cgroups(configuration)
    _require_distances_by_id(configuration, machine)


def _require_distances_by_id(configuration: Configuration, machine: MachineInfo) -> None:
    """Refuse what makes the kubelet panic when it compares NUMA nodes for a pod."""
    settings = configuration.settings
    options = settings.get("topologyManagerPolicyOptions") or {}
    text = closest_numa_panic(settings["topologyManagerPolicy"], machine)
    if truth(options.get(PREFER_CLOSEST_NUMA)) and text:
        path = f"topologyManagerPolicyOptions.{PREFER_CLOSEST_NUMA}"
        message = f"the kubelet starts, and panics when it compares NUMA nodes for a pod: {text}"
        raise StartError(
            CLOSEST_NUMA_PANIC, configuration.places.finding("NF210", message, CLOSEST_NUMA_REMEDY, path)
        )


def _restored_cpus(
    manager: CpuManagerSetup,
    text: str,
    version: KubeletVersion,
    machine: MachineInfo,
    path: str,
    *,
    by_pod: bool,
) -> CpuState:
    try:
        state = restore_cpu_state(text, manager.policy, version, path, by_pod=by_pod)
    except CheckpointError as error:
        raise _unrestorable("NF301", f"start cpu manager error: {error}", path) from error
    if manager.policy != "static":
        return state
    strict = manager.options.get(STRICT_CPU_RESERVATION, False)
    refusal = check_cpu_state(state, frozenset(machine.cpus.places), manager.reserved, strict=strict)
    if refusal:
        raise _unrestorable("NF301", f"start cpu manager error: {refusal}", path)
    return state


def _restore_memory(
    manager: MemoryManagerSetup, text: str, version: KubeletVersion, path: str, *, by_pod: bool
) -> None:
    try:
        state = restore_memory_state(text, manager.policy, version, path, by_pod=by_pod)
    except CheckpointError as error:
        raise _unrestorable("NF302", f"start memory manager error: {error}", path) from error
    if manager.policy != "Static":
        return
    refusal = check_memory_state(state, manager.machine, version.rules_minor)
    if refusal:
        raise _unrestorable("NF302", f"start memory manager error: {refusal}", path)


def _unrestorable(rule: str, text: str, path: str) -> StartError:
    reason = text.partition("error: ")[2].removeprefix("could not restore state from checkpoint: ")
    finding = finding_of(
        rule,
        f"{path} does not fit the configuration: {reason.partition(', please drain')[0]}",
        f"drain the node, stop the kubelet, delete {path}, then start it",
        path=path,
        text=text,
        file=path,
    )
    return StartError(text, finding)
