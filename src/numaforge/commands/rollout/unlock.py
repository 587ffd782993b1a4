"""`numaforge rollout unlock`: release a node's slot."""

import time
from typing import Any

import click

from numaforge.commands.rollout.options import LOGIN, options_of, rollout_options
from numaforge.commands.rollout.preflight import waiting
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import echo
from numaforge.rollout import orders


@click.command(hidden=True)
@click.argument("node")
@click.option(
    "--force", is_flag=True, help="Also for a node in the middle of a roll-out; the node stays as it is."
)
@rollout_options(LOGIN)
def unlock(node: str, force: bool, **login: Any) -> int:
    """Release the slot of NODE, its name in the cluster, once no process works on the node."""
    with options_of(login).cluster() as cluster:
        steps = orders.unlock(cluster, node, force=force, clock=time.monotonic)
        slot = waiting(steps, "making sure that no process is at work on it")
    echo(f"{node} released {slot.lease.name}, which {slot.runner} held")
    return ExitCode.YES
