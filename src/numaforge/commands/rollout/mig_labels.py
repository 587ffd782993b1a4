"""`numaforge rollout mig-labels`: repair labels that a MIG manager left behind."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click

from numaforge.commands.options import output_option
from numaforge.commands.rollout.options import LOGIN, options_of, rollout_options
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import echo_lines, show_json
from numaforge.rollout.mig_labels import mig_changes, repair_labels


@click.command("mig-labels", hidden=True)
@click.argument("nodes", metavar="[NODE...]", nargs=-1)
@click.option("--repair", is_flag=True, help="Repair the labels where no MIG manager is at work.")
@rollout_options(LOGIN)
@output_option("text", "json")
def mig_labels(nodes: tuple[str, ...], repair: bool, output: str, **login: Any) -> int:
    """Find nodes that the GPU operator's MIG manager left in the middle of a change.

    Their operands are paused, so they advertise no GPU. NODE is a name in the cluster [default: all nodes].
    Repairs no node where a MIG manager may be at work.

    Exit codes: 1 a node is not repaired.
    """
    moment = datetime.now(UTC)
    with options_of(login).cluster() as cluster:
        changes = mig_changes(cluster, nodes, moment)
        repaired = {change.node for change in changes if repair and not change.at_work}
        for name in sorted(repaired):
            repair_labels(cluster, name, moment)
    if output == "json":
        document = [{**asdict(change), "repaired": change.node in repaired} for change in changes]
        show_json({"schema": 1, "nodes": document})
    else:
        for change in changes:
            verdict = "a MIG manager may be at work" if change.at_work else "left behind"
            verdict = "repaired" if change.node in repaired else verdict
            echo_lines([f"{change.node}: {verdict}", *(f"  {line}" for line in change.evidence)])
        if not changes:
            echo_lines(["no node is in the middle of a MIG change"])
    return ExitCode.NO if len(changes) > len(repaired) else ExitCode.YES
