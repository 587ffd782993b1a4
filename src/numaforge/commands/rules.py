"""The end of the commands that judge a machine by rules."""

from __future__ import annotations

from collections.abc import Sequence

import click

from numaforge.errors import ExitCode
from numaforge.findings import Judgement
from numaforge.report.terminal import show_json


def say_judgements(
    hostname: str | None, judgements: Sequence[Judgement], *, verbose: bool, output: str
) -> int:
    """Print what the rules came to, as a table or as JSON; NO where one of the findings is an error."""
    from numaforge.report import rule_findings as report

    if output == "json":
        show_json(report.to_document(hostname, judgements))
    else:
        click.echo(report.as_text(hostname, judgements, verbose=verbose))
    return ExitCode.NO if report.has_errors(judgements) else ExitCode.YES
