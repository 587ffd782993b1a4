"""The engine of findings: rules, the machines that they apply to, and their findings."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from numaforge.findings.finding import Finding, Rule
from numaforge.machine.topology.model import NodeTopology


class Verdict(StrEnum):
    """The outcome of a rule on a machine. Unknown raises no alarm."""

    FOUND = "found"
    PASSED = "passed"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not-applicable"


class Applicability(NamedTuple):
    """Whether a rule applies to a machine, None where that is unknown, and why."""

    applies: bool | None
    reason: str


Scope = Callable[[NodeTopology], Applicability]
"""Whether a rule applies to a machine."""


def within(outer: Scope) -> Callable[[Callable[[NodeTopology], Applicability | None]], Scope]:
    """Make a scope of a function that is called where `outer` applies; None keeps the answer of `outer`."""

    def scope(narrower: Callable[[NodeTopology], Applicability | None]) -> Scope:
        def decide(machine: NodeTopology) -> Applicability:
            answer = outer(machine)
            return narrower(machine) or answer if answer.applies else answer

        return decide

    return scope


class Seen(NamedTuple):
    """A rule's observation of one thing: `evidence` of a fault, or why that is `unknown`."""

    evidence: str | None = None
    where: str | None = None
    unknown: str | None = None


Look = Callable[[NodeTopology], Iterable[Seen]]


@dataclass(frozen=True)
class MachineRule(Rule):
    """A rule about `machines`, a phrase for its scope; `look` yields nothing for what is sound."""

    machines: str
    scope: Scope
    source: str
    remedy: str
    look: Look


class Judgement(NamedTuple):
    """A rule's verdict on a machine: the reason for no findings, and the findings."""

    rule: Rule
    verdict: Verdict
    reason: str | None = None
    findings: tuple[Finding, ...] = ()


def judge(rule: MachineRule, machine: NodeTopology) -> Judgement:
    """Return a rule's verdict: one fault is a finding even among unknowns; passed, if nothing was unknown."""
    where = rule.scope(machine)
    if where.applies is None:
        return Judgement(rule, Verdict.UNKNOWN, where.reason)
    if not where.applies:
        return Judgement(rule, Verdict.NOT_APPLICABLE, where.reason)
    observations = list(rule.look(machine))
    findings = tuple(
        Finding(rule.id, rule.severity, observation.evidence, rule.remedy, observation.where, rule.source)
        for observation in observations
        if observation.evidence is not None
    )
    if findings:
        return Judgement(rule, Verdict.FOUND, where.reason, findings)
    unknown = dict.fromkeys(
        observation.unknown for observation in observations if observation.unknown is not None
    )
    if unknown:
        return Judgement(rule, Verdict.UNKNOWN, "; ".join(unknown))
    return Judgement(rule, Verdict.PASSED, where.reason)


def check(rules: Iterable[MachineRule], machine: NodeTopology) -> tuple[Judgement, ...]:
    """Return the verdict of each rule of a table, in its order."""
    return tuple(judge(rule, machine) for rule in rules)
