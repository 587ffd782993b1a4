"""Take nodes out of service within the budget, change them, prove them, and put them back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import click

from numaforge.commands.rollout.drive import driven, fleet, save_report, show_nothing, show_report
from numaforge.commands.rollout.options import fleet_command
from numaforge.commands.rollout.preflight import (
    asked,
    common_options,
    members_of,
    preflight,
    require_readable,
    waiting,
)
from numaforge.errors import ExitCode, NumaforgeError
from numaforge.rollout.fleet import FleetReport
from numaforge.rollout.launch import Pyinfra, Survey
from numaforge.rollout.lead import Lead, take_lead
from numaforge.rollout.runner import this_runner


@click.command()
@fleet_command
def run(program: Pyinfra, output: str, verbose: bool) -> int:
    """Take nodes out of service within the budget, change them, prove them, and put them back."""
    return roll_out(program, output, verbose=verbose, go_on=False)


def roll_out(program: Pyinfra, output: str, *, verbose: bool, go_on: bool) -> int:
    """Roll out over an inventory, show how it ended, and return the exit code."""
    survey = asked(program)
    if survey.is_empty:
        return show_nothing(program, output)
    options = common_options(survey)
    state = {"inventory": program.inventory, "deploy": program.deploy, "begun": _now()}
    with options.cluster() as cluster:
        nodes = preflight(cluster, options, survey)
        members, refused = members_of(nodes, survey)
        require_readable(cluster, survey)
        taking = take_lead(
            cluster,
            program.part.name,
            this_runner(),
            state,
            go_on=go_on,
            clock=time.monotonic,
            once=program.shard is not None,
        )
        lead = waiting(taking, "making sure that no other process leads this roll-out")
        rolled = driven(fleet(cluster, program, members, options, lead, survey.shards), program, output)
        report = replace(rolled, outcomes={**refused, **rolled.outcomes}, unreachable=survey.silent)
        # From here on something may have been changed: what is known is shown, whatever else fails.
        save_report(report, program)
        notes: list[str] = []
        try:
            notes += _given_back(lead, report)
            report = _with_the_others(report, rolled, program, survey)
        finally:
            show_report(report, program, output=output, verbose=verbose, notes=notes)
    return report.exit_code


def _with_the_others(
    report: FleetReport, rolled: FleetReport, program: Pyinfra, survey: Survey
) -> FleetReport:
    """Change the hosts whose kubelets need no restart, unless the roll-out has stopped or a node failed."""
    answered = [*(each.host for each in survey.outlooks), *survey.without_kubelet]
    begun = {*report.outcomes, *report.not_begun, *report.under_way}
    others = [host for host in answered if host not in begun]
    if rolled.stopped or rolled.exit_code is not ExitCode.YES:
        why = "needs no restart; left as it is, as the roll-out did not succeed"
        return replace(report, not_begun={**report.not_begun, **dict.fromkeys(others, why)})
    failed = _change_the_others(program, others)
    changed = tuple(host for host in others if host not in failed)
    return replace(report, failed=failed, without_restart=changed)


def _given_back(lead: Lead, report: FleetReport) -> list[str]:
    """Give the lead back with how the roll-out ended, and return what could not be written down."""
    end = {"ended": _now(), "exit_code": int(report.exit_code), "stopped": report.stopped}
    try:
        lead.end({**lead.state, **end})
    except (NumaforgeError, OSError, KeyboardInterrupt) as trouble:
        why = str(trouble) or "interrupted"
        return [f"the cluster does not know that it has ended ({why}): the next one is a `rollout resume`"]
    return []


def _change_the_others(program: Pyinfra, others: Sequence[str]) -> dict[str, str]:
    """Bring the hosts whose kubelets need no restart to their plans: nothing of theirs is interrupted.

    Returns why it failed, by host.
    """
    if not others:
        return {}
    try:
        return waiting(program.apply(others), f"changing {len(others)} hosts that need no restart")
    except (NumaforgeError, OSError, KeyboardInterrupt) as trouble:
        return dict.fromkeys(others, str(trouble) or "interrupted, and left to itself")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
