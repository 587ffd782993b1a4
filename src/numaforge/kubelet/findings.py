"""What `check` reports: findings with stable ids, collected in a report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numaforge.findings import Finding, Rule, Severity
from numaforge.lib.errors import KubeletConfigError

_SOURCE = "the kubelet's rules"


@dataclass(frozen=True)
class Report:
    """Whether a kubelet would start, and everything found on the way.

    `error` is the message with which the kubelet exits, None where it starts. `effective` is the
    configuration it runs with: defaults, drop-ins and flags applied; empty where it does not get that far.
    `readable` is False where the input is not a kubelet configuration at all. `reserved_cpus` are the CPUs
    that the static policy reserves, None where they were not determined. `further`: the text embeds another
    configuration behind this one.
    """

    version: str
    starts: bool
    error: str | None
    findings: tuple[Finding, ...]
    effective: Mapping[str, Any] = field(default_factory=dict)
    readable: bool = True
    reserved_cpus: frozenset[int] | None = None
    reservation: Mapping[str, str] = field(
        default_factory=dict
    )  # Node Allocatable: "cpu", "memory" -> quantity
    further: bool = False


def words(report: Report) -> str:
    """Return the kubelet's error, truncated where it quotes a long file."""
    error = report.error or ""
    return error if len(error) <= _MOST_WORDS else f"{error[:_MOST_WORDS]}..."


def require_start(report: Report, where: str | None = None) -> None:
    """Raise KubeletConfigError with the kubelet's message where it would not start.

    `where` is the host or the file; None means the place of the finding.
    """
    if report.starts:
        return
    finding = next(finding for finding in report.findings if finding.severity is Severity.ERROR)
    raise KubeletConfigError(
        f"kubelet {report.version} would not start: {words(report)}",
        where=where or finding.where,
        remedy=f"{finding.remedy}; `numaforge kubelet check` explains it",
    )


_MOST_WORDS = 500
_ERROR, _WARNING, _NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE

RULES: Mapping[str, Rule] = {
    rule.id: rule
    for rule in (
        Rule("NF001", _ERROR, "the configuration file is not YAML"),
        Rule("NF002", _ERROR, "the file is not a KubeletConfiguration that this kubelet knows"),
        Rule("NF003", _ERROR, "the file is empty"),
        Rule("NF004", _ERROR, "a value has the wrong type or cannot be parsed"),
        Rule("NF005", _ERROR, "a drop-in file cannot be loaded"),
        Rule("NF006", _ERROR, "a command-line flag cannot be parsed"),
        Rule("NF007", _ERROR, "--config-dir is not available in this kubelet"),
        Rule("NF101", _ERROR, "a feature gate is unknown to this kubelet"),
        Rule("NF102", _ERROR, "a feature gate is locked to the other value"),
        Rule("NF103", _ERROR, "a feature gate needs another one that is off"),
        Rule("NF110", _ERROR, "a number or duration is out of range"),
        Rule("NF111", _ERROR, "a setting has a value that does not exist"),
        Rule("NF112", _ERROR, "enforceNodeAllocatable does not fit the cgroup settings"),
        Rule("NF113", _ERROR, "reservedSystemCPUs cannot be used as it is"),
        Rule("NF114", _ERROR, "reservedMemory is not well-formed"),
        Rule("NF115", _ERROR, "a setting needs a feature gate"),
        Rule("NF116", _ERROR, "settings contradict each other"),
        Rule("NF117", _ERROR, "the host's cgroup version is refused"),
        Rule("NF118", _ERROR, "the logging configuration is invalid"),
        Rule("NF119", _ERROR, "a taint is invalid"),
        Rule("NF201", _ERROR, "reserved CPUs are not all online"),
        Rule("NF202", _ERROR, "kubeReserved or systemReserved cannot be parsed"),
        Rule("NF203", _ERROR, "an eviction threshold is invalid"),
        Rule("NF204", _ERROR, "swap is on"),
        Rule("NF205", _ERROR, "a policy does not exist"),
        Rule("NF206", _ERROR, "a policy option is unknown"),
        Rule("NF207", _ERROR, "a policy option needs a feature gate"),
        Rule("NF208", _ERROR, "a policy option has an invalid value"),
        Rule("NF209", _ERROR, "policy options exclude each other"),
        Rule("NF210", _ERROR, "a policy option does not fit this machine or the other managers"),
        Rule("NF211", _ERROR, "the machine has more NUMA nodes than the topology manager accepts"),
        Rule("NF212", _ERROR, "the static policy has no reserved CPUs"),
        Rule("NF213", _ERROR, "more CPUs are reserved than the machine has"),
        Rule("NF214", _ERROR, "reservedMemory names a NUMA node that does not exist"),
        Rule("NF215", _ERROR, "reservedMemory does not sum up to the reservation"),
        Rule("NF216", _ERROR, "reservedMemory reserves hugepages, which can never add up"),
        Rule("NF217", _ERROR, "the Static memory policy has no reserved memory"),
        Rule("NF218", _ERROR, "more is reserved than the node has"),
        Rule("NF219", _ERROR, "the kubelet's own set-up refuses a setting"),
        Rule("NF301", _ERROR, "cpu_manager_state cannot be restored"),
        Rule("NF302", _ERROR, "memory_manager_state cannot be restored"),
        Rule("NF501", _WARNING, "an unknown field is dropped silently"),
        Rule("NF502", _WARNING, "a key appears twice, and the last one wins"),
        Rule("NF503", _WARNING, "every CPU is reserved"),
        Rule("NF504", _WARNING, "a NUMA node's reservation is larger than its memory"),
        Rule("NF505", _WARNING, "uneven threads per core hand out reserved CPUs"),
        Rule("NF506", _WARNING, "cores are reserved in part"),
        Rule("NF507", _WARNING, "evictionHard loses the default thresholds"),
        Rule("NF508", _WARNING, "a NUMA node with GPUs is short of CPUs"),
        Rule("NF509", _WARNING, "a flag overrides the file"),
        Rule("NF510", _WARNING, "single-numa-node refuses what does not fit one NUMA node"),
        Rule("NF511", _WARNING, "topologyManagerPolicyOptions are not read under policy none"),
        Rule("NF512", _WARNING, "reservedMemory is not read under memory policy None"),
        Rule("NF513", _WARNING, "the topology manager has no manager that gives hints"),
        Rule("NF514", _WARNING, "a drop-in is not read"),
        Rule("NF515", _WARNING, "kubeReserved.cpu and systemReserved.cpu are overwritten"),
        Rule("NF516", _WARNING, "hints take long on a machine with many NUMA nodes"),
        Rule("NF517", _WARNING, "the next kubelet does not know a feature gate"),
        Rule("NF518", _WARNING, "memoryThrottlingFactor takes effect without naming MemoryQoS"),
        Rule("NF519", _WARNING, "eventRecordQPS: 0 means something else from 1.37 on"),
        Rule("NF520", _WARNING, "containers hold halves of cores under full-pcpus-only"),
        Rule("NF521", _WARNING, "a restart moves pods that are managed as units"),
        Rule("NF522", _WARNING, "the CPU manager reconciles almost without a pause"),
        Rule("NF523", _WARNING, "the kernel isolates CPUs that pods share"),
        Rule("NF524", _WARNING, "a percentage in evictionHard moves the sum of reservedMemory"),
        Rule("NF525", _WARNING, "full-pcpus-only does not keep cores whole on uneven cores"),
        Rule("NF526", _WARNING, "a cgroup driver does not exist, and cgroupfs takes its place"),
        Rule("NF527", _WARNING, "a second document is not read"),
        Rule("NF601", _NOTE, "the kubelet is newer than the rules"),
        Rule("NF602", _NOTE, "the configuration is part of another document"),
        Rule("NF603", _NOTE, "a cgroup must be there before the kubelet starts"),
    )
}


def finding_of(
    rule_id: str,
    message: str,
    remedy: str,
    *,
    path: str | None = None,
    text: str | None = None,
    file: str | None = None,
    line: int | None = None,
) -> Finding:
    """Return a finding of a rule, with the rule's severity; `text` is the kubelet's own message."""
    return Finding(rule_id, RULES[rule_id].severity, message, remedy, path, _SOURCE, text, file, line)


def dotted(path: tuple[str | int, ...]) -> str:
    """Return a path in dotted notation: `reservedMemory[0].limits`, `evictionHard["memory.available"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif "." in step:
            text += f'["{step}"]'
        else:
            text += f".{step}" if text else step
    return text
