"""An audit for programs: JSON and reading it back, SARIF, JUnit's XML, and Prometheus' text."""

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
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
from numaforge.report.findings import located, sarif_log
from numaforge.report.hostnames import unfolded
from numaforge.report.printable import plain

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
IN_WORDS = {"error": "with errors", "warning": "with warnings", "note": "with notes"}


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
    """Return an earlier audit by machine; an entry with an `id` and no `key` means the whole rule."""
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
    by_rule = list(facts.values()) if isinstance(facts, Mapping) else [None]
    texts = [text for one in by_rule for text in (one.values() if isinstance(one, Mapping) else [None])]
    if not all(isinstance(text, str) for text in texts):
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


# ---- SARIF ----


def sarif(audit: FleetAudit, changed: Changes | None) -> dict[str, Any]:
    """Return an audit as a SARIF 2.1.0 log; what a baseline accepts is suppressed."""
    new = {(entry.machine, entry.key) for entry in changed.new} if changed is not None else set()

    def properties(entry: AuditFinding) -> dict[str, Any]:
        full_name = f"{entry.machine}/{entry.finding.where}" if entry.finding.where else entry.machine
        location = {"name": entry.machine, "fullyQualifiedName": full_name, "kind": "resource"}
        result: dict[str, Any] = {
            "locations": [{"logicalLocations": [location]}],
            "partialFingerprints": {"numaforgeAudit/v1": f"{entry.machine} {entry.key}"},
        }
        if changed is not None:
            is_new = (entry.machine, entry.key) in new or entry.machine in changed.machines_new
            result["baselineState"] = "new" if is_new else "unchanged"
        if entry.accepted:
            result["suppressions"] = [{"kind": "external", "justification": "the baseline has it"}]
        return result

    return sarif_log(
        "numaforge audit",
        {entry.finding.id: entry.rule for entry in audit.findings},
        ((entry.finding, f"{entry.machine}: ", properties(entry)) for entry in audit.findings),
    )


# ---- JUnit ----


def junit(audit: FleetAudit, fail_on: str) -> str:
    """Return JUnit XML: a suite per machine, a case per rule, which fails from severity `fail_on` on."""
    severities = list(Severity)[: list(Severity).index(Severity(fail_on)) + 1]
    suites = ET.Element("testsuites", name="numaforge audit")
    for name in (*audit.machines, *audit.failed):
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
    open_findings = [entry.finding for entry in open_ones]
    texts = [f"{one.severity}: {located(one)}\n  {one.remedy}" for one in open_findings]
    output.text = plain("\n".join(texts))


def _in_one_line(text: str) -> str:
    return plain(text).replace("\n", " ")


# ---- Prometheus ----


def prometheus(audit: FleetAudit) -> str:
    """Return an audit as Prometheus' text format, for node_exporter's textfile collector or a gateway."""
    labels = ("machine", "rule", "severity", "accepted")
    counts = Counter(
        (entry.machine, entry.finding.id, str(entry.finding.severity), str(entry.accepted).lower())
        for entry in audit.findings
    )
    lines = [
        *_help("machines", "Machines by the gravest finding that no baseline has."),
        *(_sample("machines", count, state=state) for state, count in state_counts(audit).items()),
        *_help("machine_read", "Whether a machine could be read."),
        *(_sample("machine_read", 1, machine=name) for name in audit.machines),
        *(_sample("machine_read", 0, machine=name) for name in audit.failed),
        *_help("findings", "Findings of a rule on a machine."),
        *(_sample("findings", count, **dict(zip(labels, key, strict=True))) for key, count in counts.items()),
    ]
    return "".join(f"{line}\n" for line in lines)


def _help(name: str, words: str) -> tuple[str, str]:
    return f"# HELP numaforge_audit_{name} {words}", f"# TYPE numaforge_audit_{name} gauge"


def _sample(name: str, value: int, **labels: str) -> str:
    escaped = {
        label: plain(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for label, text in labels.items()
    }
    pairs = ",".join(f'{label}="{text}"' for label, text in escaped.items())
    return f"numaforge_audit_{name}{{{pairs}}} {value}"
