"""`numaforge boot`: what a node of an image does before its kubelet starts."""

from __future__ import annotations

import os
from collections.abc import Callable

import click

from numaforge.commands.options import output_option
from numaforge.lib.errors import ExitCode, HostError
from numaforge.report.terminal import complain, echo, show_json


@click.command()
@click.option("--dry", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    "--replan", is_flag=True, help="Plan again what is held: a changed machine, or a plan that has failed."
)
@click.option("--confirm", is_flag=True, help="Keep the plan on trial, whether or not a cluster is reached.")
@click.option(
    "--report",
    "reports",
    is_flag=True,
    help="When the kubelet has joined: keep the plan on trial, verify this node, tell its Node.",
)
@output_option("table", "json")
def boot(dry: bool, replan: bool, confirm: bool, reports: bool, output: str) -> int:
    """Plan this node by its image's profile, and bring it to its plan before its kubelet starts.

    An image's units run it at the first boot, and again when the machine, its driver or its profile has
    changed. Exits with 0 when the kubelet may start, 1 or more when it must not, and says why.
    """
    if os.geteuid() != 0:
        raise HostError("this changes the machine that it runs on, and needs root", remedy="run it with sudo")
    if (reports or confirm) and sum((dry, replan, confirm, reports)) > 1:
        raise click.UsageError("--report and --confirm go with no other option")
    if reports:
        return _report_to_node(complain, output)
    if dry:
        return _dry(replan, output)
    from dataclasses import asdict

    from numaforge.first_boot import run

    record = run.confirm() if confirm else run.prepare(complain, replan=replan)
    if output == "json":
        show_json(asdict(record))
    else:
        did = record.did or "nothing had to change"
        echo(f"planned by profile {record.profile}, which {record.named_by} names: {did}")
    return ExitCode.YES


def _dry(replan: bool, output: str) -> int:
    from numaforge.first_boot import run

    why = "" if replan else run.why_not_planned()
    forecast = run.foresee(complain, replan=replan, ends_what_was_left=False) if not why else None
    if output == "json":
        show_json(
            {
                "profile": forecast.goal.plan.profile if forecast else None,
                "named_by": forecast.chosen.by if forecast else None,
                "changed": list(forecast.changed) if forecast else [],
                "does": list(forecast.does) if forecast else [],
                "why_not": why,
            }
        )
        return ExitCode.YES
    if forecast is None:
        echo(why)
        return ExitCode.YES
    echo(f"profile {forecast.goal.plan.profile}, by {forecast.chosen.by}")
    for sentence in forecast.does or ("the node is as planned",):
        echo(sentence)
    return ExitCode.YES


def _report_to_node(say_line: Callable[[str], None], output: str) -> int:
    from dataclasses import asdict

    from numaforge.first_boot.report import report
    from numaforge.first_boot.settings import read_settings
    from numaforge.first_boot.stamp import TRIAL, BootRecord

    if not read_settings().report:
        if BootRecord.saved(TRIAL):
            report(say_line, only_confirms=True)
        echo("boot.yaml says that this node tells nothing")
        return ExitCode.YES
    answer = report(say_line)
    if answer is None:
        echo("the node has joined no cluster: there is none to be told")
    elif output == "json":
        show_json(asdict(answer))
    else:
        echo(f"the Node is told: {answer.verdict}")
    return ExitCode.YES
