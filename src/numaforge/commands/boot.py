"""`numaforge boot`: what a node of an image does before its kubelet starts."""

import os
from collections.abc import Callable

import click

from numaforge.commands.options import output_option
from numaforge.lib.errors import ExitCode, HostError
from numaforge.report.terminal import complain, echo, show_answer


@click.command(hidden=True)
@click.option("--dry", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--replan", is_flag=True, help="Plan again: after a hardware change, or after a failed plan.")
@click.option("--confirm", is_flag=True, help="Confirm the plan on trial, even without a cluster.")
@click.option(
    "--report",
    "reports",
    is_flag=True,
    help="After the kubelet has joined: confirm the plan on trial, verify, report on the Node.",
)
@output_option("table", "json")
def boot(dry: bool, replan: bool, confirm: bool, reports: bool, output: str) -> int:
    """Plan this node, and apply the plan before its kubelet.

    Uses the profile of the node's image, whose units run this at the first boot, and after a change of
    hardware, driver or profile.

    Exit codes: 0 the kubelet may start, 1 or more it must not.
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

    from numaforge.image.first_boot import run

    record = run.confirm() if confirm else run.prepare(complain, replan=replan)
    did = record.did or "nothing had to change"
    words = f"planned by profile {record.profile}, which {record.named_by} names: {did}"
    show_answer(output, lambda: asdict(record), lambda: [words])
    return ExitCode.YES


def _dry(replan: bool, output: str) -> int:
    from numaforge.image.first_boot import run

    why = "" if replan else run.why_not_planned()
    forecast = run.foresee(complain, replan=replan, ends_what_was_left=False) if not why else None
    profile, by = (forecast.goal.plan.profile, forecast.chosen.by) if forecast else (None, None)
    changed, does = (forecast.changed, forecast.does) if forecast else ((), ())
    lines = [f"profile {profile}, by {by}", *(does or ["the node is as planned"])] if forecast else [why]
    document = {"profile": profile, "named_by": by, "changed": changed, "does": does, "why_not": why}
    show_answer(output, lambda: document, lambda: lines)
    return ExitCode.YES


def _report_to_node(say_line: Callable[[str], None], output: str) -> int:
    from dataclasses import asdict

    from numaforge.image.first_boot.report import report
    from numaforge.image.first_boot.settings import read_settings
    from numaforge.image.first_boot.stamp import TRIAL, BootRecord

    if not read_settings().report:
        if BootRecord.saved(TRIAL):
            report(say_line, only_confirms=True)
        echo("boot.yaml turns reports off for this node")
        return ExitCode.YES
    if (answer := report(say_line)) is None:
        echo("this machine has joined no cluster: nothing to report to")
    else:
        show_answer(output, lambda: asdict(answer), lambda: [f"reported on the Node: {answer.verdict}"])
    return ExitCode.YES
