"""Findings for a terminal, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from numaforge.findings import Finding

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def label(severity: str, identity: str) -> str:
    """Return the head of a finding: `error NF213`."""
    return click.style(f"{severity} {identity}", fg=_COLOURS[severity], bold=True)


def finding_lines(
    findings: Iterable[Finding], speaker: str, place: Callable[[Finding], str | None]
) -> list[str]:
    """Return findings, errors first, each with its place and what `speaker` says of it in its own words."""
    lines = []
    for finding in sorted(findings, key=lambda each: list(_COLOURS).index(each.severity)):
        lines.append("  ".join(filter(None, (label(finding.severity, finding.id), place(finding)))))
        lines.append(f"  {finding.evidence}")
        if finding.text and finding.evidence not in finding.text:
            lines.append(click.style(f"  {speaker}: {finding.text}", dim=True))
        lines += [f"  -> {finding.remedy}", ""]
    return lines
