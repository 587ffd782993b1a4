"""What the commands share that judge a machine by a table of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from numaforge.commands.machine import root_option, snapshot_argument
from numaforge.commands.options import output_option
from numaforge.errors import ExitCode
from numaforge.report.terminal import show_json

if TYPE_CHECKING:
    from numaforge.findings.engine import MachineRule
    from numaforge.topology.model import NodeTopology

Command = TypeVar("Command", bound=Callable[..., Any])


def judging_options(verbose: str) -> Callable[[Command], Command]:
    """Take the machine, `-v` and `-o`; `verbose` is the help of `-v`."""

    def offer(command: Command) -> Command:
        shown = output_option("table", "json")(command)
        shown = click.option("-v", "--verbose", is_flag=True, help=verbose)(shown)
        return snapshot_argument(root_option(shown))

    return offer


def say_judgements(
    machine: NodeTopology,
    rules: Sequence[MachineRule],
    *,
    verbose: bool,
    output: str,
    before: Sequence[str] = (),
    more: Mapping[str, Any] | None = None,
    doubt: str | None = None,
) -> int:
    """Print the verdicts of rules, as a table or as JSON; NO where one of the findings is an error.

    `before` are lines above the table, `more` are keys of the JSON document, and `doubt` says what of the
    question is not known.
    """
    from numaforge.findings.engine import check
    from numaforge.report import findings as report

    judgements = check(rules, machine)
    if output == "json":
        show_json(report.to_document(machine.hostname, judgements, more or {}))
    else:
        text = report.as_text(machine.hostname, judgements, verbose=verbose, doubt=doubt)
        click.echo("\n".join([*before, text]))
    return ExitCode.NO if report.has_errors(report.all_findings(judgements)) else ExitCode.YES
