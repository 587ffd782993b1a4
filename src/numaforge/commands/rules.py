"""The options and output of commands that judge machines by a table of rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from numaforge.commands.machine import (
    OfMachines,
    answers_of,
    each_named,
    machine_of,
    machines_argument,
    root_option,
)
from numaforge.commands.options import Command, offered, output_option
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import echo_lines, show, show_json

if TYPE_CHECKING:
    from numaforge.findings.engine import MachineRule
    from numaforge.machine.topology.model import NodeTopology


def judging_options(verbose: str) -> Callable[[Command], Command]:
    """Take the machines, `-v` and `-o`; `verbose` is the help of `-v`."""
    return offered(
        machines_argument,
        root_option,
        click.option("-v", "--verbose", is_flag=True, help=verbose),
        output_option("table", "json"),
    )


@dataclass(frozen=True)
class Note:
    """What a command prints about one machine besides the verdicts of its rules.

    `lines` stand above the verdicts, `document` has more keys of the JSON document, `doubt` names unknowns,
    and `cell` is the machine's cell in the extra column of a fleet's table.
    """

    lines: Sequence[str] = ()
    doubt: str | None = None
    document: Mapping[str, Any] = field(default_factory=dict)
    cell: str | None = None


def say_judgements(
    sources: Sequence[str],
    root: str | None,
    rules: Sequence[MachineRule],
    *,
    verbose: bool,
    output: str,
    note_of: Callable[[NodeTopology], Note] = lambda _: Note(),
    column: str | None = None,
) -> int:
    """Print the verdicts of rules on machines, as a table or as JSON; return NO for an error.

    Several machines make a fleet's table, in which `column` is the heading of the cells of `note_of`.
    """
    from numaforge.findings.engine import check
    from numaforge.report import findings as report
    from numaforge.report.machines import judgements_table

    names = each_named(sources)
    if len(names) > 1 and root is not None:
        raise click.UsageError("give either MACHINE or --root, not both")
    if len(names) > 1:
        machines = answers_of(names, lambda name: machine_of(name, None))
    else:
        machine = machine_of(names[0] if names else None, root)
        machines = OfMachines([(machine.hostname or "this machine", machine)], {}, ExitCode.YES)
    judged = [(name, machine, check(rules, machine), note_of(machine)) for name, machine in machines.read]
    if output == "json":
        documents = [
            report.to_document(machine.hostname, verdicts, note.document)
            for _, machine, verdicts, note in judged
        ]
        several = {"schema": 1, "machines": documents, "failed": machines.failed}
        show_json(several if len(names) > 1 else documents[0])
    else:
        for name, _, verdicts, note in judged if verbose or len(names) <= 1 else ():
            lines = report.judgement_lines(name, verdicts, verbose=verbose, doubt=note.doubt)
            echo_lines([*note.lines, *lines])
        if len(names) > 1:
            rows = [(name, note.cell, verdicts) for name, _, verdicts, note in judged]
            show(judgements_table(rows, machines.failed, column))
    wrong = any(report.has_errors(report.all_findings(verdicts)) for _, _, verdicts, _ in judged)
    return ExitCode.NO if wrong else machines.code
