"""What is wrong with a configuration of the device plugin, and what it advertises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from numaforge.report.findings import finding_lines, has_errors

if TYPE_CHECKING:
    from numaforge.findings import Finding


def as_text(findings: Sequence[Finding], counts: Mapping[str, int] | None) -> str:
    """Return the findings, errors first, and what is advertised; `counts` are None without a machine."""
    lines = finding_lines(findings, "device plugin", lambda finding: finding.where)
    return "\n".join([*lines, _verdict(findings, counts)])


def _verdict(findings: Sequence[Finding], counts: Mapping[str, int] | None) -> str:
    if has_errors(findings):
        return click.style("the device plugin does not start", fg="red", bold=True)
    if counts is None:
        return click.style("the device plugin takes it", fg="green", bold=True)
    return "\n".join(["advertised:", *(f"  {count:>3} {name}" for name, count in counts.items())])
