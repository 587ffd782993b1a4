"""`numaforge rollout plan`: what a roll-out would do."""

import click

from numaforge.commands.rollout.drive import show_nothing
from numaforge.commands.rollout.options import fleet_command
from numaforge.commands.rollout.preflight import common_options, preflight, refused_hosts, surveyed
from numaforge.lib.errors import ExitCode
from numaforge.report.rollout import outlook_document, outlook_tables
from numaforge.report.terminal import show_answer
from numaforge.rollout.launch import Pyinfra
from numaforge.rollout.outlook import look_ahead, look_further
from numaforge.rollout.refusals import disagreeing
from numaforge.rollout.self_planned import plan_themselves


@click.command()
@fleet_command()
def plan(program: Pyinfra, output: str, verbose: bool) -> int:
    """Show which hosts would change in which order, which pods leave, and what blocks.

    Changes nothing, on hosts or in the cluster.
    """
    survey = surveyed(program)
    if survey.is_empty:
        return show_nothing(program, output)
    options = common_options(survey)
    with options.cluster() as cluster:
        nodes, leases = preflight(cluster, options, survey)
        refused = refused_hosts(cluster, options, nodes, leases, survey)
        ahead = look_ahead(cluster, nodes, leases, survey, options, refused)
        undrained = look_further(nodes, leases, survey, options, refused)
    own = plan_themselves(nodes.values(), {need.node for need in survey.needs})
    racks = disagreeing(survey)
    show_answer(
        output,
        lambda: outlook_document(ahead, survey, undrained, refused, own, racks),
        lambda: outlook_tables(ahead, survey, options, undrained, refused, own, racks, verbose=verbose),
    )
    return ExitCode.YES
