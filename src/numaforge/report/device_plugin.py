"""What is wrong with a configuration of the device plugin, and what comes of it, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from numaforge.findings import Finding, Severity
from numaforge.report.findings import finding_lines


def as_text(findings: Sequence[Finding], counts: Mapping[str, int] | None) -> str:
    """Return the findings, errors first, and what is advertised; `counts` are None without a machine."""
    lines = finding_lines(findings, "device plugin", lambda finding: finding.where)
    return "\n".join([*lines, _verdict(findings, counts)])


def to_document(findings: Sequence[Finding], counts: Mapping[str, int] | None) -> dict[str, Any]:
    """Return the same as JSON data, schema 1."""
    return {
        "schema": 1,
        "starts": not _errors(findings),
        "advertised": None if counts is None else dict(counts),
        "findings": [
            {key: value for key, value in asdict(one).items() if key not in ("file", "line")}
            for one in findings
        ],
    }


def _verdict(findings: Sequence[Finding], counts: Mapping[str, int] | None) -> str:
    if _errors(findings):
        return click.style("the device plugin does not start", fg="red", bold=True)
    if counts is None:
        return click.style("the device plugin takes it", fg="green", bold=True)
    return "\n".join(["advertised:", *(f"  {count:>3} {name}" for name, count in counts.items())])


def _errors(findings: Sequence[Finding]) -> bool:
    return any(one.severity is Severity.ERROR for one in findings)
