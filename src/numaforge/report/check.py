"""Whether a kubelet would start: the verdict and the findings as text, JSON and SARIF."""

from typing import Any

from numaforge.findings import Finding
from numaforge.kubelet.findings import RULES, Report
from numaforge.lib.cpulist import format_cpulist
from numaforge.report.findings import finding_lines, sarif_log
from numaforge.report.terminal import line_of, style


def report_lines(report: Report) -> list[str]:
    """Return the verdict and the findings for a terminal, errors first."""
    lines = finding_lines(report.findings, "kubelet", _place_in_file)
    if report.starts:
        return [*lines, style(f"kubelet {report.version} starts", fg="green", bold=True)]
    verdict = style(f"kubelet {report.version} does not start", fg="red", bold=True)
    return [*lines, line_of(verdict, "; it dies with"), f"  {report.error}"]


def to_document(report: Report) -> dict[str, Any]:
    """Return the report as JSON data, schema 1."""
    return {
        "schema": 1,
        "kubelet": report.version,
        "starts": report.starts,
        "error": report.error,
        "findings": [
            {
                "id": finding.id,
                "severity": str(finding.severity),
                "path": finding.where,
                "file": finding.file,
                "line": finding.line,
                "message": finding.evidence,
                "text": finding.text,
                "remedy": finding.remedy,
            }
            for finding in report.findings
        ],
        "reserved_cpus": None if report.reserved_cpus is None else format_cpulist(report.reserved_cpus),
        "reservation": dict(report.reservation),
        "effective": dict(report.effective),
    }


def to_sarif(report: Report) -> dict[str, Any]:
    """Return the report as a SARIF 2.1.0 log, which code hosts show beside the changed lines."""
    rules = {finding.id: RULES[finding.id] for finding in report.findings}
    results = ((finding, "", _properties(finding)) for finding in report.findings)
    return sarif_log("numaforge kubelet check", rules, results)


def _properties(finding: Finding) -> dict[str, Any]:
    properties = {"path": finding.where, "kubelet": finding.text}
    result: dict[str, Any] = {
        "properties": {name: value for name, value in properties.items() if value is not None}
    }
    if finding.file:
        location: dict[str, Any] = {"artifactLocation": {"uri": finding.file}}
        if finding.line:
            location["region"] = {"startLine": finding.line}
        result["locations"] = [{"physicalLocation": location}]
    return result


def _place_in_file(finding: Finding) -> str:
    file = f"{finding.file or ''}:{finding.line}" if finding.line else finding.file
    return "  ".join(filter(None, (file, finding.where if finding.where != finding.file else None)))


DOCUMENTS = {"json": to_document, "sarif": to_sarif}
