"""Let pods onto nodes that have planned and verified themselves."""

from typing import Any

import click

from numaforge.commands.options import output_option
from numaforge.commands.rollout.options import LOGIN, options_of, rollout_options
from numaforge.lib.errors import ExitCode
from numaforge.report.hostnames import grouped_by_reason, in_short
from numaforge.report.terminal import echo, show_json
from numaforge.rollout.self_planned import UNVERIFIED, release_verified


@click.command(hidden=True)
@rollout_options(LOGIN)
@output_option("table", "json")
def release(output: str, **login: Any) -> int:
    """Lift the taint numaforge.io/unverified of nodes that have verified themselves since they booted.

    A node of an image joins with that taint where its profile says so (kubelet.register_with_taints).

    Exit codes: 0 no node keeps the taint, 3 some do.
    """
    with options_of(login).cluster() as cluster:
        released, kept = release_verified(cluster)
    if output == "json":
        show_json({"released": released, "kept": kept})
    else:
        if released:
            echo(f"{in_short(released)}: verified, {UNVERIFIED} is lifted")
        for why, nodes in grouped_by_reason(kept):
            echo(f"{in_short(nodes)} kept: {why}")
        if not released and not kept:
            echo(f"no node has the taint {UNVERIFIED}")
    return ExitCode.BLOCKED if kept else ExitCode.YES
