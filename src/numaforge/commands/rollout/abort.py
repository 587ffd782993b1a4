"""`numaforge rollout abort`: undo a roll-out."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

import click

from numaforge.commands.options import GroupedOption
from numaforge.commands.rollout.drive import driven, fleet, show_nothing, show_report
from numaforge.commands.rollout.options import LOGIN, WAITING, fleet_command
from numaforge.commands.rollout.preflight import agreed, asked, did_not_answer, surveyed, waiting
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.report.terminal import complain
from numaforge.rollout.abort import Abort
from numaforge.rollout.cluster import Cluster
from numaforge.rollout.fleet import FleetReport, Member
from numaforge.rollout.launch import Pyinfra, Survey
from numaforge.rollout.options import RolloutOptions, read_options
from numaforge.rollout.outcome import Outcome
from numaforge.rollout.record import Ending
from numaforge.rollout.runner import owner_of, this_runner

_SLOT_SECONDS = 120.0
_OWN = (*LOGIN, "unreachable_timeout", "ready_timeout", "settle_seconds", "verify")
_UNDONE = (Ending.ABORTED, Ending.DONE, Ending.UNCHANGED)


@click.command()
@fleet_command(_OWN)
@click.option(
    "--timeout",
    cls=GroupedOption,
    heading=WAITING,
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    help="Seconds to wait for processes at work on a node.",
)
def abort(program: Pyinfra, output: str, verbose: bool, timeout: float) -> int:
    """Undo the nodes in the middle of a roll-out, and begin no further ones.

    Stops the process that leads the roll-out first, through the cluster. A process at work on a node undoes
    that node itself; this command undoes the nodes of processes that have died.
    """
    program = replace(
        program,
        role=replace(program.role, begins=False),
        options={**program.options, "slot_timeout": _SLOT_SECONDS},
    )
    options = _login(program)
    if options is None:
        return show_nothing(program, output)
    with options.cluster() as cluster:
        order = Abort(
            cluster, program.role.name, owner_of(this_runner()), time.monotonic, options.unreachable_timeout
        )
        report = _undone(order, cluster, program, options, output, timeout)
    outcomes = report.outcomes.items()
    amiss = {name: outcome for name, outcome in outcomes if outcome.ending not in _UNDONE}
    exit_code = replace(report, outcomes=amiss, not_begun={}, unreachable={}).exit_code
    if report.stopped and exit_code is ExitCode.YES:
        exit_code = ExitCode.BLOCKED
    nothing = "no node is in the middle of this roll-out"
    show_report(report, program, output=output, verbose=verbose, exit_code=exit_code, nothing=nothing)
    return exit_code


def _login(program: Pyinfra) -> RolloutOptions | None:
    """Return how to reach the cluster, by options and inventory; None for a shard without hosts."""
    chosen = {*LOGIN, "unreachable_timeout"}
    login = {name: value for name, value in program.options.items() if name in chosen}
    try:
        settings = asked(program, program.settings(), "reading the inventory")
    except NumaforgeError as error:
        if "kubeconfig" in login:
            return read_options(login)
        raise NumaforgeError(error.message, where=error.where, remedy="or give --kubeconfig") from error
    if not settings:
        return None
    mappings = {host: of_host for host, of_host in settings.items() if isinstance(of_host, Mapping)}
    return read_options(agreed(mappings, [name for name in LOGIN if name not in login]), login)


def _undone(
    order: Abort,
    cluster: Cluster,
    program: Pyinfra,
    options: RolloutOptions,
    output: str,
    wait_seconds: float,
) -> FleetReport:
    """Undo a roll-out, and report how far that went, even after an error or an interrupt."""
    survey: Survey | None = None
    stopped = None
    try:
        waiting(order.tell(), "asking the runners in progress to abort")
        leader = f"{order.leader} was asked to stop" if order.leader else "no process leads it any more"
        complain(f"{leader}; in progress, undo requested: {', '.join(order.asked) or 'none'}")
        while unfinished := waiting(order.undone(wait_seconds), "waiting until the nodes are as they were"):
            survey = survey or surveyed(program)
            _take_up(order, cluster, program, options, output, survey, unfinished)
        if order.leader:
            stopped = f"{order.leader} still leads the roll-out; stop requested"
    except (NumaforgeError, OSError, KeyboardInterrupt) as trouble:
        if not (order.leader or order.asked or order.outcomes):
            raise  # no runner was told yet: nothing to report
        stopped = str(trouble) or "interrupted"
    under_way = dict.fromkeys(order.asked, "surveyed to be undone, and not known to be: abort again")
    refused, silent = (survey.refused, survey.silent) if survey else ({}, {})
    return FleetReport(order.outcomes, refused, stopped, under_way, unreachable=silent)


def _take_up(
    order: Abort,
    cluster: Cluster,
    program: Pyinfra,
    options: RolloutOptions,
    output: str,
    survey: Survey,
    unfinished: Iterable[str],
) -> None:
    """Undo the nodes without a process; hold one whose host is unreachable."""
    members_by_node = {need.node: Member(need.host, need.node) for need in survey.needs if need.joined}
    members = [members_by_node[name] for name in unfinished if name in members_by_node]
    reasons = {host.lower(): why for host, why in {**did_not_answer(survey), **survey.refused}.items()}
    for name in unfinished:
        if name not in members_by_node:
            why = f"{name}: {reasons[name]}" if name in reasons else "no host of this inventory is this node"
            left = f"it is left in the middle, and cannot be undone: {why}. Abort again once its host answers"
            order.end(name, Outcome(Ending.HELD, left))
    if not members:
        return
    report = driven(fleet(cluster, program, members, options, None), program, output)
    for member in members:
        if member.host in report.outcomes:
            order.end(member.name, report.outcomes[member.host])
        elif member.host in report.not_begun:
            order.end(member.name, Outcome(Ending.HELD, f"not undone: {report.not_begun[member.host]}"))
    if report.under_way:
        raise KeyboardInterrupt
