"""Show roll-outs as the cluster has them."""

from typing import Any

import click

from numaforge.commands.options import output_option
from numaforge.commands.rollout.options import LOGIN, options_of, rollout_options
from numaforge.lib.errors import ExitCode
from numaforge.report.rollout import situation_document, situation_tables
from numaforge.report.terminal import show_answer
from numaforge.rollout.orders import situation


@click.command()
@rollout_options(LOGIN)
@click.option("--verbose", is_flag=True, help="Print every node; no grouping.")
@output_option("table", "json")
def status(output: str, verbose: bool, **login: Any) -> int:
    """Show roll-outs, slots and nodes from the cluster; asks no host."""
    with options_of(login).cluster() as cluster:
        state = situation(cluster)
    show_answer(output, lambda: situation_document(state), lambda: situation_tables(state, verbose=verbose))
    return ExitCode.YES
