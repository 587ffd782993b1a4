"""Findings of any origin, and the verdicts of rules on a machine, for people and for programs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from numaforge import __version__
from numaforge.findings import Finding, Rule, Severity
from numaforge.findings.engine import Judgement, Verdict
from numaforge.lib.quantity import counted
from numaforge.report.terminal import line_of, style

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_OTHERS = {
    Verdict.PASSED: "Looked for, and not found",
    Verdict.NOT_APPLICABLE: "Does not apply",
    Verdict.UNKNOWN: "Unknown",
}


def finding_lines(
    findings: Iterable[Finding], speaker: str, where_of: Callable[[Finding], str | None]
) -> list[str]:
    """Return findings, errors first, each with its place and the original message of `speaker`."""
    lines = []
    for finding in sorted(findings, key=lambda each: list(_COLOURS).index(each.severity)):
        where = where_of(finding)
        lines.append(line_of(_label(finding), f"  {where}" if where else ""))
        lines.append(f"  {finding.evidence}")
        if finding.text and finding.evidence not in finding.text:
            lines.append(style(f"  {speaker}: {finding.text}", dim=True))
        lines += [f"  -> {finding.remedy}", ""]
    return lines


def judgement_lines(
    hostname: str | None, judgements: Sequence[Judgement], *, verbose: bool = False, doubt: str | None = None
) -> list[str]:
    """Return the findings, errors first; `verbose` adds other verdicts, `doubt` replaces "nothing found"."""
    lines = []
    for judgement in sorted(judgements, key=lambda one: [*Severity].index(one.rule.severity)):
        if judgement.findings:
            lines += [*_finding_lines(judgement), ""]
    if verbose:
        for verdict, heading in _OTHERS.items():
            matching = [
                f"  {one.rule.id}  {one.rule.title}{f': {one.reason}' if one.reason else ''}"
                for one in judgements
                if one.verdict is verdict
            ]
            if matching:
                lines += [style(heading, bold=True), *matching, ""]
    return [*lines, _summary(hostname, judgements, doubt)]


def to_document(
    hostname: str | None, judgements: Sequence[Judgement], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return findings and verdicts as JSON data, schema 1; `more` comes first."""
    return {
        "schema": 1,
        "hostname": hostname,
        **more,
        "sound": not has_errors(all_findings(judgements)),
        "findings": [_finding(finding) for finding in all_findings(judgements)],
        "rules": [
            {
                "id": judgement.rule.id,
                "severity": str(judgement.rule.severity),
                "title": judgement.rule.title,
                "verdict": str(judgement.verdict),
                "reason": judgement.reason,
            }
            for judgement in judgements
        ],
    }


def plugin_document(
    sound: str, findings: Sequence[Finding], advertised: Mapping[str, int] | None
) -> dict[str, Any]:
    """Return findings on a plugin's configuration as JSON; field `sound`: it has no errors."""
    documents = [asdict(finding) for finding in findings]
    return {
        "schema": 1,
        sound: not has_errors(findings),
        "advertised": None if advertised is None else dict(advertised),
        "findings": [
            {key: value for key, value in one.items() if key not in ("file", "line")} for one in documents
        ],
    }


def plugin_lines(
    plugin: str, findings: Sequence[Finding], advertised: Mapping[str, int] | None, refusal: str
) -> list[str]:
    """Return the same for a terminal; `refusal` is for errors, `advertised` None where unknown."""
    lines = finding_lines(findings, "the plugin", lambda finding: finding.where)
    if has_errors(findings) and not advertised:
        lines.append(style(refusal, fg="red", bold=True))
    elif advertised is None:
        lines.append(style(f"{plugin} takes it", fg="green", bold=True))
    else:
        lines += [
            "advertised:" if advertised else "advertised: nothing",
            *(f"  {count:>4} {name}" for name, count in advertised.items()),
        ]
    return lines


def sarif_log(
    tool: str, rules: Mapping[str, Rule], results: Iterable[tuple[Finding, str, Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return a SARIF 2.1.0 log; `results` are findings, what precedes their message, further properties."""
    order = sorted(rules)
    described = [
        {
            "id": rule,
            "shortDescription": {"text": rules[rule].title},
            "defaultConfiguration": {"level": str(rules[rule].severity)},
        }
        for rule in order
    ]
    listed = [
        {
            "ruleId": finding.id,
            "ruleIndex": order.index(finding.id),
            "level": str(finding.severity),
            "message": {"text": f"{before}{finding.evidence}. Remedy: {finding.remedy}"},
            **more,
        }
        for finding, before, more in results
    ]
    driver = {"name": tool, "version": __version__, "rules": described}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": listed}],
    }


def located(finding: Finding) -> str:
    """Return the evidence of a finding, with its place before it."""
    return f"{finding.where}: {finding.evidence}" if finding.where else finding.evidence


def has_errors(findings: Iterable[Finding]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in findings)


def all_findings(judgements: Iterable[Judgement]) -> list[Finding]:
    """Return what all rules found, in their order."""
    return [finding for judgement in judgements for finding in judgement.findings]


def _finding(finding: Finding) -> dict[str, Any]:
    names = ("id", "severity", "where", "evidence", "source", "remedy")
    return {name: asdict(finding)[name] for name in names}


def _label(of: Rule | Finding) -> str:
    """Return the head of a finding: `error NF213`."""
    return style(f"{of.severity} {of.id}", fg=_COLOURS[of.severity], bold=True)


def _finding_lines(judgement: Judgement) -> Iterator[str]:
    """Yield a rule's findings: the places of equal evidence in one line."""
    rule = judgement.rule
    yield line_of(_label(rule), f"  {rule.title}")
    places: dict[str, list[str]] = {}
    for finding in judgement.findings:
        places.setdefault(finding.evidence, []).extend(filter(None, [finding.where]))
    for evidence, where in places.items():
        yield f"  {', '.join(where)}: {evidence}" if where else f"  {evidence}"
    first = judgement.findings[0]
    yield style(f"  source: {first.source}", dim=True)
    yield f"  -> {first.remedy}"


def _summary(hostname: str | None, judgements: Sequence[Judgement], doubt: str | None) -> str:
    counts = [
        counted(count, str(severity))
        for severity in Severity
        if (count := sum(finding.severity is severity for finding in all_findings(judgements)))
    ]
    rest = {verdict: sum(judgement.verdict is verdict for judgement in judgements) for verdict in Verdict}
    rules = (
        f"{counted(rest[Verdict.PASSED], 'rule')} passed, {rest[Verdict.NOT_APPLICABLE]} do not apply, "
        f"{rest[Verdict.UNKNOWN]} unknown"
    )
    if rest[Verdict.UNKNOWN] and not rest[Verdict.PASSED]:
        doubt = doubt or "nothing could be judged"
    parts = [*counts, doubt] if doubt else counts
    summary = ", ".join(parts) or "nothing found"
    colour = "red" if has_errors(all_findings(judgements)) else "yellow" if parts else "green"
    return line_of(f"{hostname or 'this machine'}: ", style(summary, fg=colour, bold=True), f"; {rules}")
