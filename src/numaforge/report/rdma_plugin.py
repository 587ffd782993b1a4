"""What is wrong with a configuration of the shared RDMA device plugin, and what it advertises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from numaforge.report.findings import finding_lines, has_errors

if TYPE_CHECKING:
    from numaforge.findings import Finding


def as_text(findings: Sequence[Finding], counts: Mapping[str, int] | None) -> str:
    """Return the findings, errors first, and what is advertised; `counts` are None where it is not known."""
    lines = finding_lines(findings, "the plugin", lambda finding: finding.where)
    if counts is not None:
        lines += ["advertised:", *(f"  {count:>4} {name}" for name, count in counts.items())]
    elif not has_errors(findings):
        lines.append(click.style("the shared RDMA device plugin takes it", fg="green", bold=True))
    else:
        lines.append(click.style("not a configuration to deploy", fg="red", bold=True))
    return "\n".join(lines)
