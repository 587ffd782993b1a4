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
from numaforge.kubelet.admission.settings import CLOSEST_NUMA_PANIC, closest_numa_panic
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
from numaforge.kubelet.config.gates import aggregate
from numaforge.kubelet.config.loading import Configuration, StartError, below, load
from numaforge.kubelet.config.reservations import (
    ReservationError,
    Threshold,
    beyond_capacity,
    check_soft_thresholds,
    node_reservation,
    parse_reserved,
    parse_thresholds,
)
from numaforge.kubelet.findings import Fault, Report, fault
from numaforge.kubelet.startup.cgroups import require_enforceable_cgroups
from numaforge.kubelet.startup.managers import (
    CpuManagerSetup,
    MemoryManagerSetup,
    SetupError,
    set_up_cpu_manager,
    set_up_memory_manager,
    set_up_topology_manager,
    shown_map,
)
from numaforge.kubelet.startup.sysctls import sysctl_complaint
from numaforge.kubelet.startup.tls import tls_fault
from numaforge.kubelet.startup.traps import find_traps, unread_fields
from numaforge.kubelet.startup.validation import validate, validate_logging
from numaforge.kubelet.startup.validation.logs import FIRST_MINOR_CHECKING_FLUSHES
from numaforge.kubelet_minors.options import PREFER_CLOSEST_NUMA
from numaforge.kubelet_minors.values.cpusets import parse_cpuset
from numaforge.kubelet_minors.values.durations import parse_duration
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.values.numbers import NumberError, parse_int, truth
from numaforge.kubelet_minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import KubeletConfigError
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
_CREATE = "failed to run Kubelet: failed to create kubelet: "
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
        findings.append(fault("NF601", notice=kubelet.notice).finding())
    start = None
    refusals: list[StartError] = []
    effective: Mapping[str, Any] = {}
    try:
        inputs = (config_text, drop_ins or {}, tuple(flags), kubelet, environment or {})
        configuration, notes = load(*inputs, config_path, drop_in_dir, refusals, number)
    except StartError as unloadable:
        refusals.append(unloadable)
    else:
        findings += notes
        if not refusals:
            effective = configuration.settings
        start = _Start(configuration, topology, MachineInfo.from_topology(topology), refusals)
        start.run(refused=start.validate())
        start.start_managers(state_files or {}, root_dir)
    for index, refusal in enumerate(refusals):
        for finding in refusal.findings:
            evidence = f"what would come next: {finding.evidence}" if index else finding.evidence
            findings.append(replace(finding, evidence=evidence))
    if start is not None:
        findings += unread_fields(configuration)
        findings += find_traps(configuration, topology, start.cpu, start.memory, start.cpu_state)
    return Report(
        version=str(kubelet),
        starts=not refusals,
        error=refusals[0].error if refusals else None,
        findings=tuple(findings),
        effective=effective,
        readable=all(refusal.readable for refusal in refusals),
        reserved_cpus=start.cpu.reserved if start and start.cpu else None,
        reservation={name: str(quantity) for name, quantity in start.reservation.items()} if start else {},
        further=has_embedded(config_text, number + 1),
    )


def kubelet_report(machine: NodeTopology) -> Report | None:
    """Return the report on a machine's kubelet; None where its version or configuration is unknown."""
    installed = machine.kubelet
    if installed is None or installed.version is None or installed.config_text is None:
        return None
    folder = installed.config_dir or DROP_IN_DIR
    try:
        return check(
            installed.config_text,
            topology=machine,
            version=installed.version,
            drop_ins=below(folder, installed.drop_ins),
            flags=installed.flags,
            state_files=installed.state_files,
            config_path=installed.config_file or CONFIG_PATH,
            drop_in_dir=folder,
            root_dir=installed.root_dir,
        )
    except KubeletConfigError:  # a version older than the oldest known
        return None


@dataclass
class _Start:
    """A start in its steps, each tried although an earlier one was refused, to find what would come next."""

    configuration: Configuration
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
        except SetupError as error:
            finding = self.configuration.places.finding(error.fault, str(error))
            self.refusals.append(StartError(f"{error.prefix}{error}", finding))
        return None

    def validate(self) -> frozenset[str]:
        """Take the steps of validation; return the top-level settings that it refuses."""
        configuration = self.configuration
        of_logging = validate_logging(configuration)
        self.take(_require_valid, of_logging, configuration, "initialize logging")
        self.take(_require_flush_interval, configuration)
        refused = validate(configuration, cgroup_version=self.topology.cgroup_version or 2)
        rest = [refusal for refusal in refused if refusal not in of_logging]
        self.take(_require_valid, rest, configuration, "failed to validate kubelet configuration, error")
        return frozenset(re.split(r"[.[]", refusal.where or "")[0] for refusal in refused)

    def run(self, refused: frozenset[str]) -> None:
        """Take the steps up to the set-up of the managers; `refused` are settings that count as unknown."""
        configuration, machine = self.configuration, self.machine
        settings = configuration.settings
        self.take(_require_tls, configuration)
        self.take(_require_authorization_mode, configuration)
        cpus = None
        if "reservedSystemCPUs" not in refused:
            cpus = self.take(_reserved_cpus, configuration, machine)
        kube, system = dict(settings.get("kubeReserved") or {}), dict(settings.get("systemReserved") or {})
        if cpus or cpus is None:
            kube.pop("cpu", None)
            system["cpu"] = str(len(cpus or ()))
        of_kube = self.take(_parsed_reserved, kube, "kube", configuration)
        of_system = self.take(_parsed_reserved, system, "system", configuration)
        hard = self.take(_hard_thresholds, configuration)
        self.take(_require_qos_reserved, configuration)
        self.take(_require_option_gates, configuration)
        self.take(_require_swap, configuration, self.topology)
        self.take(set_up_topology_manager, configuration, machine)
        if of_kube is not None and of_system is not None and hard is not None:
            capacity = _capacity(machine)
            reservation = node_reservation(of_kube, of_system, hard, capacity)
            self.reservation = reservation if cpus is not None else {}
            self.cpu = self.take(
                set_up_cpu_manager, configuration, machine, reserved=cpus, reservation=reservation
            )
            has_gate = configuration.minor <= _LAST_MINOR_OF_MEMORY_MANAGER_GATE
            runs = not has_gate or configuration.enabled("MemoryManager")
            if runs and "reservedMemory" not in refused:
                parts = {
                    "kubeReserved": of_kube.get("memory"),
                    "systemReserved": of_system.get("memory"),
                    "evictionHard": node_reservation({}, {}, hard, capacity).get("memory"),
                }
                self.memory = self.take(
                    set_up_memory_manager, configuration, machine, reservation=reservation, parts=parts
                )
        self.take(_create_kubelet, configuration)

    def start_managers(self, state_files: Mapping[str, str], root_dir: str) -> None:
        """Take the steps of ContainerManager.Start."""
        configuration, machine = self.configuration, self.machine
        root = configuration.flags.outside_config.get("root-dir") or root_dir
        by_pod = configuration.enabled("PodLevelResourceManagers")
        cpu, memory = self.cpu, self.memory
        if CPU_STATE_FILE in state_files and cpu and (cpu.reserved or cpu.policy == "none"):
            path, text = f"{root}/{CPU_STATE_FILE}", state_files[CPU_STATE_FILE]
            online, strict = frozenset(machine.cpus.places), cpu.options.strict_reservation
            self.cpu_state = self.take(
                _restored,
                ("NF301", "cpu", cpu.policy, path),
                lambda: restore_cpu_state(text, cpu.policy, configuration.version, path, by_pod=by_pod),
                lambda state: check_cpu_state(state, online, cpu.reserved, strict=strict),
            )
        if MEMORY_STATE_FILE in state_files and memory:
            file, saved = f"{root}/{MEMORY_STATE_FILE}", state_files[MEMORY_STATE_FILE]
            self.take(
                _restored,
                ("NF302", "memory", memory.policy, file),
                lambda: restore_memory_state(
                    saved, memory.policy, configuration.version, file, by_pod=by_pod
                ),
                lambda state: check_memory_state(state, memory.machine, configuration.minor),
            )
        self.take(_require_capacity, machine, self.reservation)
        self.take(require_enforceable_cgroups, configuration)
        self.take(_require_distances_by_id, configuration, machine)


def _require_valid(refused: Sequence[Fault], configuration: Configuration, prefix: str) -> None:
    if refused:
        texts = aggregate(tuple(refusal.evidence for refusal in refused))
        findings = []
        for refusal in refused:
            evidence = refusal.evidence.removeprefix("invalid configuration: ")
            findings.append(
                configuration.places.finding(refusal._replace(evidence=evidence), refusal.evidence)
            )
        raise StartError(f"{prefix}: {texts}", *findings)


def _require_flush_interval(configuration: Configuration) -> None:
    flush = configuration.settings["logging"]["flushFrequency"]
    if configuration.minor < FIRST_MINOR_CHECKING_FLUSHES and parse_duration(flush).nanoseconds < 0:
        raise SetupError(fault("NF118", "flush", flush=flush), prefix="")


def _require_tls(configuration: Configuration) -> None:
    if refused := tls_fault(configuration.settings, configuration.minor):
        raise SetupError(refused, "failed to construct kubelet dependencies: ")


def _require_authorization_mode(configuration: Configuration) -> None:
    mode = configuration.settings["authorization"]["mode"]
    if mode not in ("AlwaysAllow", "Webhook"):
        raise SetupError(fault("NF219", "authorization", mode=mode))


def _reserved_cpus(configuration: Configuration, machine: MachineInfo) -> frozenset[int]:
    text = configuration.settings.get("reservedSystemCPUs") or ""
    reserved = parse_cpuset(text)
    online = frozenset(machine.cpus.places)
    if reserved <= online:
        return reserved
    absent = format_cpulist(reserved - online)
    raise SetupError(fault("NF201", text=text, online=format_cpulist(online), absent=absent))


def _parsed_reserved(
    reserved: Mapping[str, str], side: str, configuration: Configuration
) -> dict[str, Quantity]:
    try:
        return parse_reserved(reserved, configuration.minor)
    except ReservationError as error:
        raise SetupError(fault("NF202", side=side, key=error.key, error=error)) from error


def _hard_thresholds(configuration: Configuration) -> dict[str, Threshold]:
    if configuration.flags.outside_config.get("experimental-allocatable-ignore-eviction"):
        return {}
    try:
        return parse_thresholds(configuration.settings.get("evictionHard") or {}, configuration.minor)
    except ReservationError as error:
        refused = fault("NF203", field="evictionHard", key=error.key, error=error)
        raise SetupError(refused) from error


def _require_qos_reserved(configuration: Configuration) -> None:
    for name, share in sorted((configuration.settings.get("qosReserved") or {}).items()):
        if complaint := _qos_complaint(name, share):
            raise SetupError(fault("NF219", "QoS", name=name, complaint=complaint))


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


def _require_option_gates(configuration: Configuration) -> None:
    for field_name, manager, gates, last_minor in _OPTION_GATES:
        options, gate = configuration.settings.get(field_name), gates[-1]
        if options is None or configuration.minor > last_minor:
            continue
        if not configuration.enabled(gate):
            needed = ", ".join(map(quoted, gates))
            values = {"field": field_name, "manager": manager, "needed": needed, "gate": gate}
            raise SetupError(fault("NF207", "options", options=shown_map(options), **values))


def _require_swap(configuration: Configuration, topology: NodeTopology) -> None:
    settings = configuration.settings
    limited = (settings.get("memorySwap") or {}).get("swapBehavior") == "LimitedSwap"
    on_cgroup_v1 = topology.cgroup_version == 1
    if configuration.minor >= 30 and limited and on_cgroup_v1 and configuration.enabled("NodeSwap"):
        raise SetupError(fault("NF204", "cgroup v1"))
    if not topology.swap_bytes or not settings.get("failSwapOn"):
        return
    mark, end = ("!", ".") if configuration.minor < _FIRST_MINOR_OF_SHORT_SWAP_TEXT else ("", "")
    raise SetupError(fault("NF204", mark=mark, end=end))


def _capacity(machine: MachineInfo) -> dict[str, Quantity]:
    capacity = {
        "cpu": Quantity(Fraction(machine.cpus.num_cpus), "DecimalSI", -3),
        "memory": Quantity.of_bytes(machine.memory_bytes),
    }
    for node in machine.nodes:
        for name, size in node.hugepages.items():
            capacity[name] = Quantity.of_bytes(size).plus(capacity.get(name, Quantity.of_bytes(0)))
    return capacity


def _create_kubelet(configuration: Configuration) -> None:
    settings = configuration.settings
    nanoseconds = parse_duration(settings["syncFrequency"]).nanoseconds
    if nanoseconds <= 0:
        raise SetupError(fault("NF219", "sync", nanoseconds=nanoseconds), _CREATE)
    soft, grace = settings.get("evictionSoft") or {}, settings.get("evictionSoftGracePeriod") or {}
    reclaims = settings.get("evictionMinimumReclaim") or {}
    try:
        check_soft_thresholds(soft, grace, reclaims, configuration.minor)
    except ReservationError as error:
        fields = {
            "evictionSoft": soft,
            "evictionSoftGracePeriod": grace,
            "evictionMinimumReclaim": [error.key],
        }
        name = next(name for name, keys in fields.items() if error.key in keys)
        refused = fault("NF203", field=name, key=error.key, error=error)
        raise SetupError(refused, _CREATE) from error
    if creation_fault := _creation_fault(settings, configuration.minor):
        raise SetupError(creation_fault, _CREATE)


def _creation_fault(settings: Mapping[str, Any], minor: int) -> Fault | None:
    strategy = settings["configMapAndSecretChangeDetectionStrategy"]
    if strategy not in _WATCH_STRATEGIES:
        return fault("NF219", "watch", strategy=strategy)
    files, size = settings["containerLogMaxFiles"], settings["containerLogMaxSize"]
    if files <= 1:
        return fault("NF219", "log files", files=files)
    try:
        unreadable = "invalid max log size" if Quantity.parse(size).as_int64() is None else ""
    except QuantityError as error:
        unreadable = str(error)
    if unreadable:
        return fault("NF219", "log size", size=quoted(size), complaint=unreadable)
    patterns = settings.get("allowedUnsafeSysctls") or []
    complaint = next(filter(None, (sysctl_complaint(pattern, minor) for pattern in patterns)), None)
    return fault("NF219", "sysctl", complaint=complaint) if complaint else None


def _require_capacity(machine: MachineInfo, reserved: Mapping[str, Quantity]) -> None:
    reservation = dict(reserved)
    if not machine.memory_bytes:  # unknown: every machine has memory
        reservation.pop("memory", None)
    if beyond := beyond_capacity(reservation, _capacity(machine)):
        name, text = beyond
        raise SetupError(fault("NF218", name=name, text=text), "")


def _require_distances_by_id(configuration: Configuration, machine: MachineInfo) -> None:
    """Refuse what makes the kubelet panic when it compares NUMA nodes for a pod."""
    settings = configuration.settings
    options = settings.get("topologyManagerPolicyOptions") or {}
    text = closest_numa_panic(settings["topologyManagerPolicy"], machine)
    if truth(options.get(PREFER_CLOSEST_NUMA)) and text:
        finding = configuration.places.finding(fault("NF210", "distances by id", reason=text))
        raise StartError(CLOSEST_NUMA_PANIC, finding)


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
    raise StartError(text, fault(rule, path=path, reason=reason).finding(text, path))
