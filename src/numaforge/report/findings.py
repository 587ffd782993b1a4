"""Findings of any origin, and the verdicts of rules on a machine, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from numaforge.findings import Finding, Rule, Severity
from numaforge.findings.engine import Judgement, Verdict
from numaforge.report.terminal import plain
from numaforge.report.wording import counted

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_OTHERS = {
    Verdict.PASSED: "Looked for, and not found",
    Verdict.NOT_APPLICABLE: "Does not apply",
    Verdict.UNKNOWN: "Unknown",
}


def finding_lines(
    findings: Iterable[Finding], speaker: str, place: Callable[[Finding], str | None]
) -> list[str]:
    """Return findings, errors first, each with its place and the original message of `speaker`."""
    lines = []
    for finding in sorted(findings, key=lambda each: list(_COLOURS).index(each.severity)):
        lines.append("  ".join(filter(None, (_label(finding), place(finding)))))
        lines.append(f"  {finding.evidence}")
        if finding.text and finding.evidence not in finding.text:
            lines.append(click.style(f"  {speaker}: {finding.text}", dim=True))
        lines += [f"  -> {finding.remedy}", ""]
    return lines


def as_text(
    hostname: str | None, judgements: Sequence[Judgement], *, verbose: bool = False, doubt: str | None = None
) -> str:
    """Return what was found, errors first; `verbose` adds the verdict of every other rule.

    `doubt` replaces "nothing found" where the answer is not known.
    """
    lines = []
    for severity in Severity:
        for judgement in judgements:
            if judgement.findings and judgement.rule.severity is severity:
                lines += [*_found(judgement), ""]
    if verbose:
        for verdict, heading in _OTHERS.items():
            others = [each for each in judgements if each.verdict is verdict]
            if others:
                lines += [click.style(heading, bold=True), *map(_one_line, others), ""]
    return "\n".join([*lines, _summary(hostname, judgements, doubt)])


def to_document(
    hostname: str | None, judgements: Sequence[Judgement], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the findings and the verdict of each rule as JSON data, schema 1; `more` stands before them."""
    return {
        "schema": 1,
        "hostname": hostname,
        **more,
        "sound": not has_errors(all_findings(judgements)),
        "findings": [_finding(finding) for finding in all_findings(judgements)],
        "rules": [
            {
                "id": each.rule.id,
                "severity": str(each.rule.severity),
                "title": each.rule.title,
                "verdict": str(each.verdict),
                "reason": each.reason,
            }
            for each in judgements
        ],
    }


def plugin_document(
    sound: str, findings: Sequence[Finding], advertised: Mapping[str, int] | None
) -> dict[str, Any]:
    """Return the findings on a plugin's configuration, and what the node advertises, as JSON data, schema 1.

    `sound` names the field that says whether the configuration has no error.
    """
    return {
        "schema": 1,
        sound: not has_errors(findings),
        "advertised": None if advertised is None else dict(advertised),
        "findings": [
            {key: value for key, value in asdict(each).items() if key not in ("file", "line")}
            for each in findings
        ],
    }


def plugin_text(
    plugin: str, findings: Sequence[Finding], advertised: Mapping[str, int] | None, refusal: str
) -> str:
    """Return the same for a terminal, errors first; `refusal` is added where errors leave nothing advertised.

    `advertised` is None where what the node advertises is not known.
    """
    lines = finding_lines(findings, "the plugin", lambda finding: finding.where)
    if has_errors(findings) and not advertised:
        lines.append(click.style(refusal, fg="red", bold=True))
    elif advertised is None:
        lines.append(click.style(f"{plugin} takes it", fg="green", bold=True))
    else:
        lines += [
            "advertised:" if advertised else "advertised: nothing",
            *(f"  {count:>4} {name}" for name, count in advertised.items()),
        ]
    return "\n".join(lines)


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether one of the findings is an error."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def all_findings(judgements: Iterable[Judgement]) -> list[Finding]:
    """Return what all rules found, in their order."""
    return [finding for each in judgements for finding in each.findings]


def _finding(finding: Finding) -> dict[str, Any]:
    names = ("id", "severity", "where", "evidence", "source", "remedy")
    return {name: asdict(finding)[name] for name in names}


def _label(of: Rule | Finding) -> str:
    """Return the head of a finding: `error NF213`."""
    return click.style(f"{of.severity} {of.id}", fg=_COLOURS[of.severity], bold=True)


def _found(judgement: Judgement) -> Iterator[str]:
    """Yield a rule's findings: the places of equal evidence in one line."""
    rule = judgement.rule
    yield f"{_label(rule)}  {rule.title}"
    places: dict[str, list[str]] = {}
    for finding in judgement.findings:
        places.setdefault(finding.evidence, []).extend(filter(None, [finding.where]))
    for evidence, where in places.items():
        yield "  " + plain(f"{', '.join(where)}: {evidence}" if where else evidence)
    first = judgement.findings[0]
    yield click.style(f"  source: {first.source}", dim=True)
    yield f"  -> {first.remedy}"


def _one_line(judgement: Judgement) -> str:
    reason = f": {plain(judgement.reason)}" if judgement.reason else ""
    return f"  {judgement.rule.id}  {judgement.rule.title}{reason}"


def _summary(hostname: str | None, judgements: Sequence[Judgement], doubt: str | None) -> str:
    counts = [
        counted(count, str(severity))
        for severity in Severity
        if (count := sum(each.severity is severity for each in all_findings(judgements)))
    ]
    rest = {verdict: sum(each.verdict is verdict for each in judgements) for verdict in Verdict}
    rules = (
        f"{counted(rest[Verdict.PASSED], 'rule')} passed, {rest[Verdict.NOT_APPLICABLE]} do not apply, "
        f"{rest[Verdict.UNKNOWN]} unknown"
    )
    said = [*counts, doubt] if doubt else counts
    found = ", ".join(said) or "nothing found"
    colour = "red" if has_errors(all_findings(judgements)) else "yellow" if said else "green"
    return f"{plain(hostname or 'this machine')}: {click.style(found, fg=colour, bold=True)}; {rules}"
