"""Whether a kubelet would start with a configuration on a machine, in the kubelet's own order and words.

Source: run and RunKubelet in cmd/kubelet/app/server.go, NewContainerManager and Start in
pkg/kubelet/cm/container_manager_linux.go, NewMainKubelet in pkg/kubelet/kubelet.go. Assumes that the kubelet
reaches its API server and its container runtime.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ParamSpec, TypeVar

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
from numaforge.kubelet.config.documents import has_embedded
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
from numaforge.kubelet_minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.kubelet_paths import CONFIG_PATH, DROP_IN_DIR, ROOT_DIR
from numaforge.lib.quantity import Quantity, QuantityError
from numaforge.machine.topology.model import NodeTopology

_OPTION_GATES = (
    ("cpuManagerPolicyOptions", "CPU Manager", ("CPUManager", "CPUManagerPolicyOptions"), 32),
    ("topologyManagerPolicyOptions", "topology manager", ("TopologyManagerPolicyOptions",), LATEST_MINOR),
)
"""The options, their manager, the gates in its message, and the last minor that looks at them."""
_LAST_MINOR_OF_MEMORY_MANAGER_GATE = 31
_FIRST_MINOR_OF_SHORT_SWAP_TEXT = 31
_RUN = "failed to run Kubelet: "
_CREATE = f"{_RUN}failed to create kubelet: "
Given = ParamSpec("Given")
T = TypeVar("T")
_WATCH_STRATEGIES = ("Get", "Cache", "Watch")


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
    number: int = 0,
) -> Report:
    """Return a report on whether this kubelet would start, with every finding on the way.

    `drop_ins` maps names below `drop_in_dir` to texts, `flags` are the kubelet's arguments, `state_files`
    maps names below `root_dir` (`cpu_manager_state`) to texts. The three paths only appear in the kubelet's
    messages; `number` chooses among configurations that the text embeds. Raises KubeletConfigError for an
    invalid version, or one older than the oldest known, and for flags that kubeadm does not decode.
    """
    kubelet = version if isinstance(version, KubeletVersion) else KubeletVersion.parse(version)
    findings: list[Finding] = []
    if kubelet.notice:
        findings.append(finding_of("NF601", kubelet.notice, "check again with a newer numaforge"))
    start = None
    try:
        inputs = (config_text, drop_ins or {}, tuple(flags), kubelet, environment or {})
        configuration, notes = load(*inputs, config_path, drop_in_dir, number)
    except StartError as unloadable:
        refusals = [unloadable]
    else:
        findings += notes
        refusals = [*configuration.refusals]
        start = _Start(configuration, kubelet, topology, MachineInfo.from_topology(topology), refusals)
        start.run(refused=start.validate())
        start.start_managers(state_files or {}, root_dir)
    for index, refusal in enumerate(refusals):
        for finding in refusal.findings:
            evidence = f"what would come next: {finding.evidence}" if index else finding.evidence
            findings.append(replace(finding, evidence=evidence))
    if start is not None:
        findings += unread_fields(configuration, kubelet)
        findings += find_traps(configuration, topology, kubelet, start.cpu, start.memory, start.cpu_state)
    return Report(
        version=str(kubelet),
        starts=not refusals,
        error=refusals[0].error if refusals else None,
        findings=tuple(findings),
        effective={} if start is None or configuration.refusals else configuration.settings,
        readable=not refusals or refusals[0].readable,
        reserved_cpus=start.cpu.reserved if start and start.cpu else None,
        reservation={name: str(quantity) for name, quantity in start.reservation.items()} if start else {},
        further=has_embedded(config_text, number + 1),
    )


@dataclass
class _Start:
    """A start in its steps, each tried although an earlier one was refused, to find what would come next."""

    configuration: Configuration
    version: KubeletVersion
    topology: NodeTopology
    machine: MachineInfo
    refusals: list[StartError]
    cpu: CpuManagerSetup | None = None
    cpu_state: CpuState | None = None
    memory: MemoryManagerSetup | None = None
    reservation: Mapping[str, Quantity] = field(default_factory=dict)

    def take(self, step: Callable[Given, T], *args: Given.args, **options: Given.kwargs) -> T | None:
        """Return what a step returns, None where it is refused."""
        try:
            return step(*args, **options)
        except StartError as refusal:
            self.refusals.append(refusal)
        except ManagerError as error:
            self.refusals.append(
                _refusal(self.configuration, error.rule, error.path, str(error), error.remedy)
            )
        return None

    def validate(self) -> frozenset[str]:
        """Take the steps of validation; return the top-level settings that it refuses."""
        configuration, version = self.configuration, self.version
        settings, gates = configuration.settings, configuration.gates
        of_logging = validate_logging(settings, version, gates)
        self.take(_require_valid, of_logging, configuration, "initialize logging")
        self.take(_require_flush_interval, configuration, version)
        refused = validate(settings, version, gates, cgroup_version=self.topology.cgroup_version or 2)
        rest = [refusal for refusal in refused if refusal not in of_logging]
        self.take(_require_valid, rest, configuration, "failed to validate kubelet configuration, error")
        return frozenset(re.split(r"[.[]", refusal.path)[0] for refusal in refused)

    def run(self, refused: frozenset[str]) -> None:
        """Take the steps up to the set-up of the managers; `refused` are settings that count as unknown."""
        configuration, version, machine = self.configuration, self.version, self.machine
        settings, gates = configuration.settings, configuration.gates
        self.take(_require_tls, configuration, version)
        self.take(_require_authorization_mode, configuration)
        cpus = None
        if "reservedSystemCPUs" not in refused:
            cpus = self.take(_reserved_cpus, configuration, machine)
        kube, system = dict(settings.get("kubeReserved") or {}), dict(settings.get("systemReserved") or {})
        if cpus or cpus is None:
            kube.pop("cpu", None)
            system["cpu"] = str(len(cpus or ()))
        places = configuration.places
        of_kube = self.take(_parsed_reserved, kube, "kube", places, version)
        of_system = self.take(_parsed_reserved, system, "system", places, version)
        hard = self.take(_hard_thresholds, configuration, version)
        self.take(_require_qos_reserved, configuration)
        self.take(_require_option_gates, configuration, version)
        self.take(_require_swap, configuration, version, self.topology)
        self.take(set_up_topology_manager, settings, machine, version, gates)
        if of_kube is not None and of_system is not None and hard is not None:
            capacity = _capacity(machine)
            reservation = node_reservation(of_kube, of_system, hard, capacity)
            self.reservation = reservation if cpus is not None else {}
            self.cpu = self.take(
                set_up_cpu_manager, settings, machine, version, gates, reserved=cpus, reservation=reservation
            )
            has_gate = version.rules_minor <= _LAST_MINOR_OF_MEMORY_MANAGER_GATE
            runs = not has_gate or enabled(version, gates, "MemoryManager")
            if runs and "reservedMemory" not in refused:
                parts = {
                    "kubeReserved": of_kube.get("memory"),
                    "systemReserved": of_system.get("memory"),
                    "evictionHard": node_reservation({}, {}, hard, capacity).get("memory"),
                }
                self.memory = self.take(
                    set_up_memory_manager, settings, machine, version, reservation=reservation, parts=parts
                )
        self.take(_create_kubelet, configuration, version)

    def start_managers(self, state_files: Mapping[str, str], root_dir: str) -> None:
        """Take the steps of ContainerManager.Start."""
        configuration, version, machine = self.configuration, self.version, self.machine
        root = configuration.flags.outside_config.get("root-dir") or root_dir
        by_pod = enabled(version, configuration.gates, "PodLevelResourceManagers")
        cpu, memory = self.cpu, self.memory
        if CPU_STATE_FILE in state_files and cpu and (cpu.reserved or cpu.policy == "none"):
            path, text = f"{root}/{CPU_STATE_FILE}", state_files[CPU_STATE_FILE]
            online, strict = frozenset(machine.cpus.places), cpu.options.get(STRICT_CPU_RESERVATION, False)
            self.cpu_state = self.take(
                _restored,
                ("NF301", "cpu", cpu.policy, path),
                lambda: restore_cpu_state(text, cpu.policy, version, path, by_pod=by_pod),
                lambda state: check_cpu_state(state, online, cpu.reserved, strict=strict),
            )
        if MEMORY_STATE_FILE in state_files and memory:
            file, saved = f"{root}/{MEMORY_STATE_FILE}", state_files[MEMORY_STATE_FILE]
            self.take(
                _restored,
                ("NF302", "memory", memory.policy, file),
                lambda: restore_memory_state(saved, memory.policy, version, file, by_pod=by_pod),
                lambda state: check_memory_state(state, memory.machine, version.rules_minor),
            )
        self.take(_require_capacity, configuration, machine, self.reservation)
        self.take(require_enforceable_cgroups, configuration)
        self.take(_require_distances_by_id, configuration, machine)


def _require_valid(refused: Sequence[InvalidSetting], configuration: Configuration, prefix: str) -> None:
    if refused:
        texts = aggregate(tuple(refusal.text for refusal in refused))
        findings = [
            configuration.places.finding(
                rule, text.removeprefix("invalid configuration: "), remedy, path, text
            )
            for rule, path, text, remedy in refused
        ]
        raise StartError(f"{prefix}: {texts}", *findings)


def _require_flush_interval(configuration: Configuration, version: KubeletVersion) -> None:
    flush = configuration.settings["logging"]["flushFrequency"]
    if version.rules_minor < FIRST_MINOR_CHECKING_FLUSHES and parse_duration(flush).nanoseconds < 0:
        path, text = "logging.flushFrequency", "panic: non-positive interval for NewTicker"
        remedy = f"leave {path} out (5s), or set a positive duration: {flush} is none"
        raise _refusal(configuration, "NF118", path, text, remedy, prefix="")


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
    reserved: Mapping[str, str], side: str, places: Places, version: KubeletVersion
) -> dict[str, Quantity]:
    try:
        return parse_reserved(reserved, version.rules_minor)
    except ReservationError as error:
        text = f"--{side}-reserved value failed to parse: {error}"
        remedy = "reserve cpu, memory, ephemeral-storage or pid, as quantities such as 500m, 2Gi, 1000"
        raise StartError(
            f"{_RUN}{text}", places.finding("NF202", text, remedy, f"{side}Reserved.{error.key}", text)
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
    for field_name, manager, gates, last_minor in _OPTION_GATES:
        options, gate = configuration.settings.get(field_name), gates[-1]
        if options is None or version.rules_minor > last_minor:
            continue
        if not enabled(version, configuration.gates, gate):
            needed = ", ".join(map(quoted, gates))
            text = f"{manager} policy options {shown_map(options)} require feature gates {needed} enabled"
            remedy = f"do not switch the feature gate {gate} off"
            raise _refusal(configuration, "NF207", field_name, text, remedy)


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
    mark, end = ("!", ".") if version.rules_minor < _FIRST_MINOR_OF_SHORT_SWAP_TEXT else ("", "")
    text = f"running with swap on is not supported, please disable swap{mark} or set --fail-swap-on flag to "
    text += f"false{end}"
    remedy = "switch swap off (swapoff -a, and in /etc/fstab), or set failSwapOn: false"
    raise _refusal(configuration, "NF204", "failSwapOn", text, remedy)


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
        fields = {
            "evictionSoft": soft,
            "evictionSoftGracePeriod": grace,
            "evictionMinimumReclaim": [error.key],
        }
        name = next(name for name, keys in fields.items() if error.key in keys)
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


def _require_capacity(
    configuration: Configuration, machine: MachineInfo, reserved: Mapping[str, Quantity]
) -> None:
    reservation = dict(reserved)
    if not machine.memory_bytes:  # unknown: every machine has memory
        reservation.pop("memory", None)
    beyond = beyond_capacity(reservation, _capacity(machine))
    if beyond:
        name, text = beyond
        remedy = (
            f"more {name} is reserved than the node has: lower kubeReserved, systemReserved or evictionHard"
        )
        raise _refusal(configuration, "NF218", f"kubeReserved.{name}", text, remedy, "")


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


def _restored(
    about: tuple[str, str, str, str], restore: Callable[[], T], complaint: Callable[[T], str | None]
) -> T:
    """Return the state in a manager's file, or raise StartError where the manager does not take it.

    `about` are the rule, the manager, its policy and the file.
    """
    rule, manager, policy, path = about
    try:
        state = restore()
        error = complaint(state) if policy.lower() == "static" else None
    except CheckpointError as corrupt:
        error = str(corrupt)
    if not error:
        return state
    text = f"start {manager} manager error: {error}"
    reason = error.removeprefix("could not restore state from checkpoint: ").partition(", please drain")[0]
    message = f"{path} does not fit the configuration: {reason}"
    remedy = f"drain the node, stop the kubelet, delete {path}, then start it"
    raise StartError(text, finding_of(rule, message, remedy, path=path, text=text, file=path))
