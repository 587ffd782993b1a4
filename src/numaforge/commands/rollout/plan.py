"""Show what a roll-out would do."""

from __future__ import annotations

import click

from numaforge.commands.rollout.drive import show_nothing
from numaforge.commands.rollout.options import fleet_command
from numaforge.commands.rollout.preflight import asked, common_options, preflight, require_readable
from numaforge.errors import ExitCode
from numaforge.report.rollout import outlook_document, outlook_tables
from numaforge.report.terminal import show, show_json
from numaforge.rollout.launch import Pyinfra
from numaforge.rollout.outlook import look_ahead


@click.command()
@fleet_command
def plan(program: Pyinfra, output: str, verbose: bool) -> int:
    """Show which nodes would be taken out of service in which order, and what is in the way.

    Nothing is changed, on hosts or in the cluster.
    """
    survey = asked(program)
    if survey.is_empty:
        return show_nothing(program, output)
    options = common_options(survey)
    with options.cluster() as cluster:
        nodes = preflight(cluster, options, survey)
        require_readable(cluster, survey)
        ahead = look_ahead(cluster, nodes, survey, options)
    if output == "json":
        show_json(outlook_document(ahead, survey))
    else:
        show(outlook_tables(ahead, survey, options, verbose=verbose))
    return ExitCode.YES
