"""Findings, wherever they come from: their one form, and rules that say on which machines they apply."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

Subject = TypeVar("Subject")


class Severity(StrEnum):
    """An error keeps the node from its work, a warning is what works and should not be so."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Rule:
    """A kind of finding. `id` never changes its meaning; `title` is one clause."""

    id: str
    severity: Severity
    title: str


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: `evidence` is what was seen, in one sentence, `remedy` the way out.

    `where` is a setting (`reservedMemory[0].limits.memory`), a flag (`--reserved-cpus`), a file or a device;
    `file` and `line` (from 1) say where a setting stands. `source` is who says so, `text` its own words where
    they are more than the evidence.
    """

    id: str
    severity: Severity
    evidence: str
    remedy: str
    where: str | None = None
    source: str | None = None
    text: str | None = None
    file: str | None = None
    line: int | None = None


class Verdict(StrEnum):
    """What a rule came to on a machine. What is unknown is no alarm."""

    FOUND = "found"
    PASSED = "passed"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not-applicable"


@dataclass(frozen=True)
class Applicability:
    """Whether a rule applies to a machine, None where that cannot be told, and why."""

    applies: bool | None
    reason: str


@dataclass(frozen=True)
class Seen:
    """What a rule sees of one thing: `evidence` that it is wrong, or why that is `unknown`."""

    evidence: str | None = None
    where: str | None = None
    unknown: str | None = None


@dataclass(frozen=True)
class MachineRule(Rule, Generic[Subject]):
    """A rule about machines: where it applies, what it looks at, and what helps.

    `look` yields nothing of what is sound. `machines` says in one phrase for which machines it is made.
    """

    machines: str
    source: str
    remedy: str
    applies: Callable[[Subject], Applicability]
    look: Callable[[Subject], Iterable[Seen]]


@dataclass(frozen=True)
class Judgement:
    """A rule's verdict on a machine, why where nothing was found, and what was found."""

    rule: Rule
    verdict: Verdict
    reason: str | None = None
    findings: tuple[Finding, ...] = ()


def judge(rule: MachineRule[Subject], machine: Subject) -> Judgement:
    """Return what a rule comes to on a machine.

    One thing that is wrong is found whatever is unknown of others; passed means that nothing was unknown.
    """
    where = rule.applies(machine)
    if where.applies is None:
        return Judgement(rule, Verdict.UNKNOWN, where.reason)
    if not where.applies:
        return Judgement(rule, Verdict.NOT_APPLICABLE, where.reason)
    seen = list(rule.look(machine))
    findings = tuple(
        Finding(rule.id, rule.severity, each.evidence, rule.remedy, each.where, rule.source)
        for each in seen
        if each.evidence is not None
    )
    if findings:
        return Judgement(rule, Verdict.FOUND, where.reason, findings)
    unknown = dict.fromkeys(each.unknown for each in seen if each.unknown is not None)
    if unknown:
        return Judgement(rule, Verdict.UNKNOWN, "; ".join(unknown))
    return Judgement(rule, Verdict.PASSED, where.reason)
