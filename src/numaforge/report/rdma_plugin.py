"""What is wrong with a configuration of the shared RDMA device plugin, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from numaforge.findings import Finding, Severity
from numaforge.report.findings import finding_lines


def as_text(findings: Sequence[Finding], counts: Mapping[str, int] | None) -> str:
    """Return the findings, errors first, and what is advertised; `counts` are None where it is not known."""
    lines = finding_lines(findings, "the plugin", lambda finding: finding.where)
    if counts is not None:
        lines += ["advertised:", *(f"  {count:>4} {name}" for name, count in counts.items())]
    elif _right(findings):
        lines.append(click.style("the shared RDMA device plugin takes it", fg="green", bold=True))
    else:
        lines.append(click.style("not a configuration to deploy", fg="red", bold=True))
    return "\n".join(lines)


def to_document(findings: Sequence[Finding], counts: Mapping[str, int] | None) -> dict[str, Any]:
    """Return the same as JSON data, schema 1."""
    return {
        "schema": 1,
        "right": _right(findings),
        "advertised": None if counts is None else dict(counts),
        "findings": [
            {key: value for key, value in asdict(one).items() if key not in ("file", "line")}
            for one in findings
        ],
    }


def _right(findings: Sequence[Finding]) -> bool:
    return not any(one.severity is Severity.ERROR for one in findings)
