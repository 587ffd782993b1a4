"""Take nodes out of service within the budget, change them, prove them, and put them back."""

import time
from dataclasses import replace
from datetime import UTC, datetime

import click

from numaforge.commands.rollout.drive import driven, fleet, save_report, show_nothing, show_report
from numaforge.commands.rollout.options import fleet_command
from numaforge.commands.rollout.preflight import (
    common_options,
    preflight,
    refused_hosts,
    sort_hosts,
    surveyed,
    waiting,
)
from numaforge.lib.errors import NumaforgeError
from numaforge.rollout.launch import Pyinfra
from numaforge.rollout.lead import take_lead
from numaforge.rollout.runner import this_runner


@click.command()
@fleet_command()
def run(program: Pyinfra, output: str, verbose: bool) -> int:
    """Take nodes out of service within the budget, change them, prove them, and put them back."""
    return roll_out(program, output, verbose=verbose, go_on=False)


def roll_out(program: Pyinfra, output: str, *, verbose: bool, go_on: bool) -> int:
    """Roll out over an inventory, show how it ended, and return the exit code."""
    survey = surveyed(program)
    if survey.is_empty:
        return show_nothing(program, output)
    options = common_options(survey)
    state = {"inventory": program.inventory, "deploy": program.deploy, "begun": _timestamp()}
    with options.cluster() as cluster:
        nodes, leases = preflight(cluster, options, survey)
        refused = refused_hosts(cluster, options, nodes, leases, survey)
        hosts = sort_hosts(cluster, nodes, leases, survey, refused)
        name, once = program.role.name, program.shard is not None
        taking = take_lead(cluster, name, this_runner(), state, go_on=go_on, clock=time.monotonic, once=once)
        lead = waiting(taking, "making sure that no other process leads this roll-out")
        rollout = fleet(cluster, program, hosts.members, options, lead, survey, refused)
        rolled = driven(rollout, program, output)
        report = replace(
            rolled,
            outcomes={**hosts.blocked, **rolled.outcomes},
            unreachable=survey.silent,
            refused=refused,
            as_planned=hosts.as_planned,
        )
        # Hosts may have been changed by now: show what is known, whatever else fails.
        save_report(report, program)
        notes: list[str] = []
        end = {"ended": _timestamp(), "exit_code": int(report.exit_code), "stopped": report.stopped}
        try:
            lead.end({**lead.state, **end})
        except (NumaforgeError, OSError, KeyboardInterrupt) as trouble:
            unknown = f"the cluster does not know that it has ended ({str(trouble) or 'interrupted'})"
            notes.append(f"{unknown}: the next one is a `rollout resume`")
        finally:
            show_report(report, program, output=output, verbose=verbose, notes=notes)
    return report.exit_code


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
