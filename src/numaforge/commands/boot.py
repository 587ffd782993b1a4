"""`numaforge boot`: what a node of an image does before its kubelet starts."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from numaforge.commands.options import output_option
from numaforge.errors import ExitCode, HostError
from numaforge.report.terminal import complain, echo, show_json


@click.command()
@click.option("--dry", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--replan", is_flag=True, help="Plan anew also where the image says to hold a changed machine.")
@click.option(
    "--report",
    "reports",
    is_flag=True,
    help="Verify this node when it has joined, and tell its Node.",
)
@output_option("table", "json")
def boot(dry: bool, replan: bool, reports: bool, output: str) -> int:
    """Plan this node by its image's profile, and bring it to its plan before its kubelet starts.

    An image's units run it at the first boot, and again when the machine, its driver or its profile has
    changed. Exits with 0 when the kubelet may start, 1 or more when it must not, and says why.
    """
    if os.geteuid() != 0:
        raise HostError("this changes the machine that it runs on, and needs root", remedy="run it with sudo")
    if reports and (dry or replan):
        raise click.UsageError("--report changes nothing, and goes with no other option")
    from dataclasses import asdict

    from numaforge.first_boot import run

    if reports:
        return _report(complain, output)

    if dry:
        found = run.foresee(complain, replan=replan, ends_what_was_left=False)
        if output == "json":
            show_json(
                {
                    "profile": found.goal.plan.profile,
                    "named_by": found.chosen.by,
                    "changed": list(found.changed),
                    "does": list(found.does),
                }
            )
            return ExitCode.YES
        echo(f"profile {found.goal.plan.profile}, by {found.chosen.by}")
        for sentence in found.does or ("the node is as planned",):
            echo(sentence)
        return ExitCode.YES
    record = run.prepare(complain, replan=replan)
    if output == "json":
        show_json(asdict(record))
    else:
        did = record.did or "nothing had to change"
        echo(f"planned by profile {record.profile}, which {record.named_by} names: {did}")
    return ExitCode.YES


def _report(tell: Callable[[str], None], output: str) -> int:
    from dataclasses import asdict

    from numaforge.first_boot.report import report
    from numaforge.first_boot.settings import read_settings

    if not read_settings().report:
        echo("boot.yaml says that this node tells nothing")
        return ExitCode.YES
    told = report(tell)
    if told is None:
        echo("the node has joined no cluster: there is none to be told")
    elif output == "json":
        show_json(asdict(told))
    else:
        echo(f"the Node is told: {told.verdict}")
    return ExitCode.YES
