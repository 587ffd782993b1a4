"""A fleet as a whole: the findings of all machines, which are accepted, and what has changed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from numaforge.findings import Finding, Rule, Severity
from numaforge.fleet.audit.facts import PEER_RULE, PEER_RULES, text_of
from numaforge.fleet.audit.machine import MACHINE_RULES, AuditedMachine
from numaforge.fleet.audit.makes import Make, with_lost
from numaforge.fleet.audit.peers import Unusual, unusual_of
from numaforge.fleet.audit.racks import RACK_RULES, rack_findings, racks_of
from numaforge.kubelet import findings as kubelet
from numaforge.lib.ordering import grouped

UNREACHABLE = Rule("NA001", Severity.ERROR, "the host does not answer")
UNREAD = Rule("NA002", Severity.ERROR, "the machine cannot be read")

AUDIT_RULES: Mapping[str, Rule] = {
    rule.id: rule
    for rule in (UNREACHABLE, UNREAD, *PEER_RULES, *RACK_RULES, *MACHINE_RULES, *kubelet.RULES.values())
}
"""Every rule that an audit may name, by id."""


class AuditFinding(NamedTuple):
    """A finding on a machine; `unusual` is how it differs from siblings; `accepted`: a baseline has it."""

    machine: str
    finding: Finding
    unusual: tuple[Unusual, ...] = ()
    accepted: bool = False

    @property
    def rule(self) -> Rule:
        return AUDIT_RULES[self.finding.id]

    @property
    def key(self) -> str:
        """The identity of the finding across audits: its rule and place, and an unusual value."""
        values = (f"{deviation.place}={deviation.value}" for deviation in self.unusual)
        return " ".join(filter(None, (self.finding.id, self.finding.where, *values)))


class FleetAudit(NamedTuple):
    """All machines by display name, with their makes, racks and findings; the gravest first."""

    machines: Mapping[str, AuditedMachine]
    failed: Mapping[str, str]
    makes: Mapping[Make, tuple[str, ...]]
    racks: Mapping[str, Sequence[str]]
    findings: tuple[AuditFinding, ...]

    @property
    def by_machine(self) -> dict[str, list[AuditFinding]]:
        return grouped((finding.machine, finding) for finding in self.findings)

    @property
    def open(self) -> list[AuditFinding]:
        return [finding for finding in self.findings if not finding.accepted]


class Failed(NamedTuple):
    """Why a machine could not be read, and whether it is a host that does not answer."""

    reason: str
    unreachable: bool = False


def fleet_audit(machines: Mapping[str, AuditedMachine], failed: Mapping[str, Failed]) -> FleetAudit:
    """Return the findings on each machine by itself, against its siblings, and in its rack."""
    makes = grouped(
        (make, name)
        for name, make in zip(
            machines, with_lost([machine.make for machine in machines.values()]), strict=True
        )
    )
    findings = [
        AuditFinding(name, finding) for name, machine in machines.items() for finding in machine.findings
    ]
    findings += [AuditFinding(name, finding) for name, finding in rack_findings(machines)]
    for names in makes.values():
        findings += _beside_siblings({name: machines[name] for name in names})
    findings += [AuditFinding(name, _failure(failure)) for name, failure in failed.items()]
    gravity, order = list(Severity), list(AUDIT_RULES)
    return FleetAudit(
        machines,
        {name: failure.reason for name, failure in failed.items()},
        {make: tuple(names) for make, names in sorted(makes.items(), key=lambda each: -len(each[1]))},
        racks_of(machines),
        tuple(
            sorted(
                findings,
                key=lambda each: (gravity.index(each.finding.severity), order.index(each.finding.id)),
            )
        ),
    )


def with_rules(audit: FleetAudit, rules: Iterable[Rule]) -> FleetAudit:
    """Return the audit by these rules alone, with the machines that could not be read."""
    ids = {UNREACHABLE.id, UNREAD.id, *(rule.id for rule in rules)}
    return audit._replace(
        machines={
            name: replace(
                machine,
                findings=tuple(finding for finding in machine.findings if finding.id in ids),
                unknown=tuple(rule for rule in machine.unknown if rule in ids),
            )
            for name, machine in audit.machines.items()
        },
        findings=tuple(finding for finding in audit.findings if finding.finding.id in ids),
    )


def _beside_siblings(machines: Mapping[str, AuditedMachine]) -> Iterator[AuditFinding]:
    for name, unusual in unusual_of({name: machine.facts for name, machine in machines.items()}).items():
        for rule_id, several in unusual.items():
            rule = PEER_RULE[rule_id]
            evidence = f"{rule.what}: {', '.join(map(str, several))}"
            finding = Finding(rule_id, rule.severity, evidence, rule.remedy, None, "its siblings")
            yield AuditFinding(name, finding, several)


def _failure(failed: Failed) -> Finding:
    rule = UNREACHABLE if failed.unreachable else UNREAD
    message, _, remedy = failed.reason.partition("\n")
    return Finding(
        rule.id, rule.severity, message, " ".join(remedy.split()) or "look at the host, and audit it again"
    )


# ---- what is known already ----


@dataclass(frozen=True)
class EarlierMachine:
    """An earlier audit of a machine: the keys of its findings, whole rules that are accepted, facts."""

    keys: frozenset[str] = frozenset()
    rules: frozenset[str] = frozenset()
    facts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


Earlier = Mapping[str, EarlierMachine]
"""An earlier audit, by machine."""


def with_baseline(audit: FleetAudit, baseline: Earlier) -> FleetAudit:
    """Return the audit with those findings accepted that an earlier one has."""
    nothing = EarlierMachine()
    findings = tuple(
        finding._replace(accepted=finding.key in accepted.keys or finding.finding.id in accepted.rules)
        for finding in audit.findings
        for accepted in (baseline.get(finding.machine, nothing),)
    )
    return audit._replace(findings=findings)


class MovedFact(NamedTuple):
    """A changed fact of one machine; None where it was, or is, unknown."""

    machine: str
    what: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class Changes:
    """What has changed since an earlier audit."""

    new: tuple[AuditFinding, ...] = ()
    gone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # keys of findings, by machine
    facts: tuple[MovedFact, ...] = ()
    machines_new: tuple[str, ...] = ()
    machines_gone: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.new or self.gone or self.facts or self.machines_new or self.machines_gone)


def changes(audit: FleetAudit, earlier_audit: Earlier) -> Changes:
    """Return what has changed: findings and facts only of machines that both audits have read."""
    present = {*audit.machines, *audit.failed}
    keys = {name: {finding.key for finding in of_machine} for name, of_machine in audit.by_machine.items()}
    lost = {
        name: tuple(sorted(earlier.keys - keys.get(name, set())))
        for name, earlier in earlier_audit.items()
        if name in audit.machines
    }
    return Changes(
        new=tuple(
            finding
            for finding in audit.findings
            if finding.machine in earlier_audit and finding.key not in earlier_audit[finding.machine].keys
        ),
        gone={name: several for name, several in lost.items() if several},
        facts=tuple(_moved(audit.machines, earlier_audit)),
        machines_new=tuple(sorted(present - earlier_audit.keys())),
        machines_gone=tuple(sorted(earlier_audit.keys() - present)),
    )


def _moved(machines: Mapping[str, AuditedMachine], earlier_audit: Earlier) -> Iterator[MovedFact]:
    for name in machines.keys() & earlier_audit.keys():
        current, then = fact_texts(machines[name]), earlier_audit[name].facts
        for rule in PEER_RULES:
            values_now, earlier = current.get(rule.id, {}), then.get(rule.id, {})
            for location in {**earlier, **values_now} if earlier else ():
                old, new = earlier.get(location), values_now.get(location)
                if old != new and (old is None or new is None or not rule.alike(old, new)):
                    yield MovedFact(name, f"{rule.what}{f', {location}' if location else ''}", old, new)


def fact_texts(machine: AuditedMachine) -> dict[str, dict[str, str]]:
    """Return the facts of a machine as texts, by rule and place."""
    return {
        rule: {location: text_of(value) for location, value in values.items()}
        for rule, values in machine.facts.items()
    }


def gravest(findings: Iterable[AuditFinding]) -> Severity | None:
    """Return the gravest severity among findings; None without findings."""
    severities = {finding.finding.severity for finding in findings}
    return next((severity for severity in Severity if severity in severities), None)
