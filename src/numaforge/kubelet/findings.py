"""What `check` reports: findings with stable ids, collected in a report."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

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
_TABLE = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

RULES: Mapping[str, Rule] = {
    rule_id: Rule(rule_id, Severity(row["severity"]), row["title"]) for rule_id, row in _TABLE.items()
}


class Fault(NamedTuple):
    """What is wrong with a setting: the rule, the setting, the evidence in one sentence, and the remedy."""

    rule: str
    where: str | None
    evidence: str
    remedy: str

    def finding(self, text: str | None = None, file: str | None = None, line: int | None = None) -> Finding:
        """Return the finding with the rule's severity; `text` is the kubelet's own message."""
        severity = RULES[self.rule].severity
        return Finding(self.rule, severity, self.evidence, self.remedy, self.where, _SOURCE, text, file, line)


def fault(rule: str, name: str = "main", /, **values: object) -> Fault:
    """Return a text of a rule in findings.json with its values filled in."""
    text = _TABLE[rule]["texts"][name]
    where, evidence, remedy = (text[key].format(**values) for key in ("where", "evidence", "remedy"))
    return Fault(rule, where or None, evidence, remedy)


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
