"""An audit for programs: JSON and reading it back, SARIF, JUnit's XML, and Prometheus' text."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from numaforge.findings import Severity
from numaforge.fleet.audit.fleet import (
    AuditFinding,
    Changes,
    Earlier,
    EarlierMachine,
    FleetAudit,
    fact_texts,
    gravest,
)
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import read_json
from numaforge.lib.mistakes import shown
from numaforge.lib.ordering import grouped
from numaforge.report.hostnames import unfolded
from numaforge.report.printable import plain
from numaforge.report.sarif import sarif_log

_MOST_MIB = 256  # 5,000 machines with their facts
_REMEDY = "give what `numaforge audit -o json` has written"


def audit_document(audit: FleetAudit, changed: Changes | None) -> dict[str, Any]:
    """Return an audit as JSON data, schema 1."""
    findings_of = audit.by_machine
    make_of = {name: str(make) for make, names in audit.makes.items() for name in names}
    document: dict[str, Any] = {
        "schema": 1,
        "sound": gravest(audit.open) is not Severity.ERROR,
        "counts": state_counts(audit),
        "makes": [{"make": str(make), "machines": list(names)} for make, names in audit.makes.items()],
        "racks": [{"cluster": cluster, "machines": list(names)} for cluster, names in audit.racks.items()],
        "machines": [
            {
                "name": name,
                "make": make_of.get(name),
                "read": name in audit.machines,
                "findings": [_finding(finding) for finding in findings_of.get(name, ())],
                "unknown": list(audit.machines[name].unknown) if name in audit.machines else [],
                "facts": fact_texts(audit.machines[name]) if name in audit.machines else {},
            }
            for name in (*audit.machines, *audit.failed)
        ],
    }
    return document if changed is None else {**document, "changes": _changes(changed)}


def state_counts(audit: FleetAudit) -> dict[str, int]:
    """Return the number of machines in each state, by the gravest finding that no baseline has."""
    counts = Counter(state_of(audit).values())
    return {state: counts[state] for state in STATES}


STATES = ("not read", "error", "warning", "note", "sound")
"""The states of a machine, the gravest first."""


def state_of(audit: FleetAudit) -> dict[str, str]:
    worst: dict[str, str] = {}
    for finding in audit.open:  # the gravest first
        worst.setdefault(finding.machine, str(finding.finding.severity))
    states = {name: worst.get(name, "sound") for name in audit.machines}
    return {**states, **dict.fromkeys(audit.failed, "not read")}


def _finding(entry: AuditFinding) -> dict[str, Any]:
    finding = entry.finding
    document: dict[str, Any] = {
        "id": finding.id,
        "severity": str(finding.severity),
        "title": entry.rule.title,
        "where": finding.where,
        "evidence": finding.evidence,
        "source": finding.source,
        "remedy": finding.remedy,
        "accepted": entry.accepted,
        "key": entry.key,
    }
    if entry.unusual:
        document["unusual"] = [asdict(one) for one in entry.unusual]
    return document


def _changes(changed: Changes) -> dict[str, Any]:
    return {
        "findings_new": [{"machine": entry.machine, "key": entry.key} for entry in changed.new],
        "findings_gone": [
            {"machine": name, "key": key} for name, keys in changed.gone.items() for key in keys
        ],
        "facts": [
            {"machine": fact.machine, "fact": fact.what, "before": fact.before, "after": fact.after}
            for fact in changed.facts
        ],
        "machines_new": list(changed.machines_new),
        "machines_gone": list(changed.machines_gone),
    }


# ---- reading JSON back ----


def earlier(path: str) -> Earlier:
    """Return an earlier audit by machine; a name may be a range (`gpu-[01-32]`).

    An entry of `findings` with an `id` and no `key` means the whole rule. Raises NumaforgeError for a file
    that is not an audit.
    """
    document = read_json(path, most_mib=_MOST_MIB, remedy=_REMEDY)
    if not isinstance(document, dict) or not isinstance(document.get("machines"), list):
        raise NumaforgeError("is not an audit: it has no list `machines`", where=path, remedy=_REMEDY)
    if document.get("schema") != 1:
        raise NumaforgeError(
            f"an audit of schema {shown(document.get('schema'))}, and this numaforge reads schema 1",
            where=path,
        )
    machines: dict[str, EarlierMachine] = {}
    for number, entry in enumerate(document["machines"]):
        names, machine = _machine(entry, f"{path}: machines[{number}]")
        for name in names:
            earlier = machines.get(name, EarlierMachine())
            machines[name] = EarlierMachine(
                earlier.keys | machine.keys, earlier.rules | machine.rules, machine.facts or earlier.facts
            )
    return machines


def _machine(entry: object, where: str) -> tuple[list[str], EarlierMachine]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
        raise NumaforgeError(f"{shown(entry)} is not a machine with a name", where=where, remedy=_REMEDY)
    findings, facts = entry.get("findings", []), entry.get("facts", {})
    if not isinstance(findings, list) or not all(isinstance(finding, Mapping) for finding in findings):
        raise NumaforgeError(f"{shown(findings)} is not a list of findings", where=f"{where}.findings")
    if not isinstance(facts, Mapping) or not all(_is_fact(fact) for fact in facts.values()):
        raise NumaforgeError(f"{shown(facts)} are not facts by rule", where=f"{where}.facts", remedy=_REMEDY)
    try:
        names = unfolded(entry["name"])
    except ValueError as error:
        raise NumaforgeError(str(error), where=f"{where}.name") from error
    keys, rules = set(), set()
    for number, finding in enumerate(findings):
        key, rule = finding.get("key"), finding.get("id")
        if isinstance(key, str):
            keys.add(key)
        elif key is None and isinstance(rule, str):
            rules.add(rule)
        else:
            raise NumaforgeError(
                f"{shown(finding)} has neither a key nor an id",
                where=f"{where}.findings[{number}]",
                remedy='write {"id": "NH307"} for a whole rule, or keep the key of an audit',
            )
    return names, EarlierMachine(frozenset(keys), frozenset(rules), facts)


def _is_fact(values: object) -> bool:
    return isinstance(values, Mapping) and all(isinstance(value, str) for value in values.values())


# ---- SARIF ----


def sarif(audit: FleetAudit, changed: Changes | None) -> dict[str, Any]:
    """Return an audit as a SARIF 2.1.0 log; what a baseline accepts is suppressed."""
    rules = {entry.finding.id: entry.rule for entry in audit.findings}
    order = {rule: number for number, rule in enumerate(sorted(rules))}
    states = _baseline_states(audit, changed) if changed is not None else {}
    return sarif_log(
        "numaforge audit",
        [(rule_id, rules[rule_id].title, rules[rule_id].severity) for rule_id in order],
        [_result(entry, order, states.get((entry.machine, entry.key))) for entry in audit.findings],
    )


def _baseline_states(audit: FleetAudit, changed: Changes) -> dict[tuple[str, str], str]:
    """Return SARIF's baselineState of each finding by machine and key: new or unchanged."""
    new = {(entry.machine, entry.key) for entry in changed.new}
    keys = {(entry.machine, entry.key) for entry in audit.findings}
    return {
        (name, key): "new" if (name, key) in new or name in changed.machines_new else "unchanged"
        for name, key in keys
    }


def _result(entry: AuditFinding, order: Mapping[str, int], state: str | None) -> dict[str, Any]:
    finding = entry.finding
    full_name = f"{entry.machine}/{finding.where}" if finding.where else entry.machine
    result: dict[str, Any] = {
        "ruleId": finding.id,
        "ruleIndex": order[finding.id],
        "level": str(finding.severity),
        "message": {"text": f"{entry.machine}: {finding.evidence}. Remedy: {finding.remedy}"},
        "locations": [
            {
                "logicalLocations": [
                    {"name": entry.machine, "fullyQualifiedName": full_name, "kind": "resource"}
                ]
            }
        ],
        "partialFingerprints": {"numaforgeAudit/v1": f"{entry.machine} {entry.key}"},
    }
    if state is not None:
        result["baselineState"] = state
    if entry.accepted:
        result["suppressions"] = [{"kind": "external", "justification": "the baseline has it"}]
    return result


# ---- JUnit ----


def junit(audit: FleetAudit, fail_on: str) -> str:
    """Return an audit as JUnit XML: a suite per machine, a case per rule with findings.

    Findings of severity `fail_on` or graver are failures; accepted ones are skipped.
    """
    severities = list(Severity)[: list(Severity).index(Severity(fail_on)) + 1]
    suites = ET.Element("testsuites", name="numaforge audit")
    for name in _names(audit):
        suite = ET.SubElement(suites, "testsuite", name=_in_one_line(name))
        by_rule = grouped((entry.finding.id, entry) for entry in audit.by_machine.get(name, []))
        for several in by_rule.values():
            _add_case(suite, several, severities)
        if not by_rule:
            ET.SubElement(suite, "testcase", classname=_in_one_line(name), name="nothing found")
    for element in (suites, *suites):
        for count, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
            element.set(count, str(sum(1 for _ in element.iter(tag))))
    ET.indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suites, encoding="unicode")}\n'


def _names(audit: FleetAudit) -> tuple[str, ...]:
    return (*audit.machines, *audit.failed)


def _add_case(suite: ET.Element, several: Sequence[AuditFinding], severities: Sequence[Severity]) -> None:
    first = several[0]
    title = _in_one_line(f"{first.finding.id} {first.rule.title}")
    case = ET.SubElement(suite, "testcase", classname=_in_one_line(first.machine), name=title)
    open_ones = [entry for entry in several if not entry.accepted]
    if not open_ones:
        ET.SubElement(case, "skipped", message="the baseline has it")
        return
    finding = open_ones[0].finding
    if finding.severity in severities:
        message = _in_one_line(finding.evidence)
        output = ET.SubElement(case, "failure", type=str(finding.severity), message=message)
    else:
        output = ET.SubElement(case, "system-out")
    output.text = plain("\n".join(map(_entry_text, open_ones)))


def _entry_text(entry: AuditFinding) -> str:
    where = f"{entry.finding.where}: " if entry.finding.where else ""
    return f"{entry.finding.severity}: {where}{entry.finding.evidence}\n  {entry.finding.remedy}"


def _in_one_line(text: str) -> str:
    return plain(text).replace("\n", " ")


# ---- Prometheus ----


def prometheus(audit: FleetAudit) -> str:
    """Return an audit as Prometheus' text format, for node_exporter's textfile collector or a gateway."""
    return "\n".join(_samples(audit)) + "\n"


def _samples(audit: FleetAudit) -> Iterator[str]:
    yield "# HELP numaforge_audit_machines Machines by the gravest finding that no baseline has."
    yield "# TYPE numaforge_audit_machines gauge"
    for state, count in state_counts(audit).items():
        yield f"numaforge_audit_machines{{state={_label(state)}}} {count}"
    yield "# HELP numaforge_audit_machine_read Whether a machine could be read."
    yield "# TYPE numaforge_audit_machine_read gauge"
    for name in _names(audit):
        yield f"numaforge_audit_machine_read{{machine={_label(name)}}} {int(name in audit.machines)}"
    yield "# HELP numaforge_audit_findings Findings of a rule on a machine."
    yield "# TYPE numaforge_audit_findings gauge"
    counts = Counter(
        (entry.machine, entry.finding.id, str(entry.finding.severity), entry.accepted)
        for entry in audit.findings
    )
    for (name, rule, severity, accepted), count in counts.items():
        labels = {"machine": name, "rule": rule, "severity": severity, "accepted": str(accepted).lower()}
        pairs = ",".join(f"{label}={_label(value)}" for label, value in labels.items())
        yield f"numaforge_audit_findings{{{pairs}}} {count}"


def _label(value: str) -> str:
    escaped = plain(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
