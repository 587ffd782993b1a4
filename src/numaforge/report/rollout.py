"""The `rollout` commands: plan, run, resume, status, abort, unlock."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar, get_args

import click

from numaforge.errors import ExitCode, NumaforgeError
from numaforge.report.rollout_tables import (
    LiveView,
    outlook_document,
    outlook_tables,
    report_document,
    report_tables,
    situation_document,
    situation_tables,
)
from numaforge.report.terminal import progress, show, show_json
from numaforge.rollout.cluster import Cluster, ClusterNode
from numaforge.rollout.configz import refuse_unreadable
from numaforge.rollout.fleet import Fleet, FleetReport, Member
from numaforge.rollout.kubectl import permissions
from numaforge.rollout.launch import Pyinfra, Survey, tail
from numaforge.rollout.lead import end_lead, stop_lead, take_lead
from numaforge.rollout.options import RolloutOptions, read_options
from numaforge.rollout.orders import silent, situation, unlock
from numaforge.rollout.outlook import look_ahead
from numaforge.rollout.record import Ending, Phase, ask_to_abort, read_record
from numaforge.rollout.runner import owner_of, this_runner
from numaforge.rollout.slots import held_slots
from numaforge.rollout.steps import Steps, run

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

_LOGIN = ("kubeconfig", "context", "namespace", "kubectl")
_NOT_HERE = ("without_drain",)  # a roll-out that asks no cluster is none
_FOR_THE_FLEET = {*RolloutOptions.model_fields} - {*_NOT_HERE, "verify"}


@click.group()
def rollout() -> None:
    """Hold the commands; numaforge.cli shows them."""


def _options(names: Iterable[str]) -> Callable[[Command], Command]:
    """Offer fields of RolloutOptions as options, with their own descriptions."""

    def decorate(command: Command) -> Command:
        for name in reversed([*names]):
            field = RolloutOptions.model_fields[name]
            flag = "--" + ("canary" if name == "canary_hosts" else name.replace("_", "-"))
            settings: dict[str, Any] = {"help": field.description, "default": None}
            if field.annotation is bool:
                settings["is_flag"] = True
                flag = f"{flag}/--no-{flag[2:]}" if field.default else flag
            elif name in ("canary_hosts", "wait_for"):
                settings |= {"multiple": True, "metavar": "KEY=VALUE" if name == "wait_for" else "HOST"}
            else:
                kinds = (field.annotation, *get_args(field.annotation))
                settings["metavar"] = (
                    "SECONDS" if name.endswith("_seconds") else "N" if int in kinds else "TEXT"
                )
            command = click.option(flag, name, **settings)(command)
        return command

    return decorate


def _fleet_command(command: Command) -> Command:
    """Give a command what every look at an inventory needs."""
    for decorator in (
        _options(name for name in RolloutOptions.model_fields if name not in _NOT_HERE),
        click.option("--name", default="default", show_default=True, help="The roll-out's name."),
        click.option("--limit", "limits", multiple=True, metavar="HOST|GROUP", help="As pyinfra's --limit."),
        click.option(
            "--deploy", metavar="FILE", type=click.Path(), help="What to run on a node; else deploys/site.py."
        ),
        _output,
        click.argument("inventory", type=click.Path()),
    ):
        command = decorator(command)
    return command


def _output(command: Command) -> Command:
    return click.option(
        "-o",
        "--output",
        type=click.Choice(("table", "json")),
        default="table",
        show_default=True,
        help="What to print; json is one object a line while it runs.",
    )(command)


@rollout.command()
@_fleet_command
def plan(
    inventory: str, deploy: str | None, limits: tuple[str, ...], name: str, output: str, **given: Any
) -> int:
    """Show which nodes would be taken out of service in which order, and what is in the way.

    Nothing is changed, on hosts or in the cluster.
    """
    program = _program(inventory, deploy, limits, name, given)
    survey = _waiting(program.survey(), "asking every host what it needs")
    options = _common_options(survey)
    with options.cluster() as cluster:
        nodes = _preflight(cluster, options, survey)
        _require_readable(cluster, survey)
        ahead = look_ahead(cluster, nodes, survey, options)
    if output == "json":
        show_json(outlook_document(ahead, survey))
    else:
        show(outlook_tables(ahead, survey, options))
    return ExitCode.YES


@rollout.command(name="run")
@_fleet_command
def run_(
    inventory: str, deploy: str | None, limits: tuple[str, ...], name: str, output: str, **given: Any
) -> int:
    """Take nodes out of service within the budget, change them, prove them, and put them back."""
    return _roll_out(_program(inventory, deploy, limits, name, given), name, output, go_on=False)


@rollout.command()
@_fleet_command
def resume(
    inventory: str, deploy: str | None, limits: tuple[str, ...], name: str, output: str, **given: Any
) -> int:
    """Go on where a roll-out was left: first the nodes that stand in the middle, then the others."""
    return _roll_out(_program(inventory, deploy, limits, name, given), name, output, go_on=True)


@rollout.command()
@_options(_LOGIN)
@_output
def status(output: str, **given: Any) -> int:
    """Show roll-outs, slots and nodes as the cluster has them; no host is asked."""
    with read_options(_said(given)).cluster() as cluster:
        found = situation(cluster)
    if output == "json":
        show_json(situation_document(found))
    else:
        show(situation_tables(found))
    return ExitCode.YES


@rollout.command()
@_fleet_command
def abort(
    inventory: str, deploy: str | None, limits: tuple[str, ...], name: str, output: str, **given: Any
) -> int:
    """Undo the nodes that stand in the middle of a roll-out, and begin no further ones.

    A process that is at work on a node undoes it itself; for one that has died this command does it.
    """
    program = _program(inventory, deploy, limits, name, given | {"slot_seconds": 120.0})
    survey = _waiting(program.survey(), "asking every host where it stands")
    options = _common_options(survey)
    with options.cluster() as cluster:
        _preflight(cluster, options, survey)
        members = {each.node: Member(each.host, each.node) for each in survey.outlooks if each.joined}
        who = owner_of(this_runner())
        stop_lead(cluster, name, who)
        asked = [node for node in members if ask_to_abort(cluster, node, who)]
        ending = end_lead(cluster, name, "aborted", time.monotonic)
        if not asked:
            _waiting(ending, "waiting until nobody leads the roll-out")
            click.echo("no node of this inventory is in a roll-out", err=True)
            return ExitCode.YES
        slots = [slot for slot in held_slots(cluster.leases()) if slot.node in asked]
        dead = _waiting(silent(cluster, slots, time.monotonic), "finding out who is still at work")
        left = [members[slot.node] for slot in dead]
        fleet = _fleet(cluster, program, left, options, None)
        report = _driven(fleet, program, output)
        _waiting(_until_free(cluster, asked), "waiting until the nodes are as they were")
        _waiting(ending, "waiting until nobody leads the roll-out")
    _show_report(report, output)
    aborted = all(outcome.ending in (Ending.ABORTED, Ending.DONE) for outcome in report.outcomes.values())
    return ExitCode.YES if aborted else report.exit_code


@rollout.command(name="unlock")
@click.argument("node")
@click.option("--force", is_flag=True, help="Also for a node in the middle of a roll-out; it stays as it is.")
@_options(_LOGIN)
def unlock_(node: str, force: bool, **given: Any) -> int:
    """Take its slot from NODE, the name in the cluster, when nobody is at work on it any more."""
    with read_options(_said(given)).cluster() as cluster:
        steps = unlock(cluster, node, force=force, clock=time.monotonic)
        slot = _waiting(steps, "making sure that nobody is at work on it")
    click.echo(f"{node} holds {slot.lease.name} no more; it was {slot.runner}'s")
    return ExitCode.YES


def _roll_out(program: Pyinfra, name: str, output: str, *, go_on: bool) -> int:
    survey = _waiting(program.survey(), "asking every host what it needs")
    options = _common_options(survey)
    state = {"inventory": program.inventory, "deploy": program.deploy, "begun": _now()}
    with options.cluster() as cluster:
        members = _members(_preflight(cluster, options, survey), survey)
        _require_readable(cluster, survey)
        taking = take_lead(cluster, name, this_runner(), state, go_on=go_on, clock=time.monotonic)
        lead = _waiting(taking, "making sure that nobody else leads this roll-out")
        fleet = _fleet(cluster, program, members, options, lead)
        report = _driven(fleet, program, output, survey.silent)
        lead.end({**state, "ended": _now(), "exit_code": int(report.exit_code), "stopped": report.stopped})
    _show_report(report, output)
    if report.stopped or report.exit_code is not ExitCode.YES:
        return report.exit_code
    return _change_the_others(program, survey, members)


def _change_the_others(program: Pyinfra, survey: Survey, members: Iterable[Member]) -> int:
    """Bring the hosts whose kubelets need no restart to their plans: nothing of theirs is interrupted."""
    rolled = {member.host for member in members}
    asked = [*(each.host for each in survey.outlooks), *survey.without_kubelet]
    others = [host for host in asked if host not in rolled]
    if not others:
        return ExitCode.YES
    code, log = _waiting(program.apply(others), f"changing {len(others)} hosts that need no restart")
    if code:
        raise NumaforgeError(
            "hosts that need no restart could not all be changed:\n  " + "\n  ".join(tail(log)),
            where=program.inventory,
            remedy=f"the whole log is {log}",
        )
    return ExitCode.YES


def _members(nodes: Mapping[str, ClusterNode], survey: Survey) -> list[Member]:
    """Return who needs a restart, or stands in the middle of a roll-out."""
    return [
        Member(each.host, each.node)
        for each in survey.outlooks
        if each.joined and (each.restarts or read_record(nodes[each.node]) is not None)
    ]


def _fleet(
    cluster: Cluster, program: Pyinfra, members: list[Member], options: RolloutOptions, lead: Any
) -> Fleet:
    return Fleet(
        cluster=cluster,
        members=members,
        settings=options.for_fleet(),
        launch=lambda member: program.launch(member, cluster),
        clock=time.monotonic,
        tell=lambda _reason: None,
        lead=lead,
    )


def _driven(fleet: Fleet, program: Pyinfra, output: str, silent_hosts: Iterable[str] = ()) -> FleetReport:
    """Run a fleet to its end, and show where it is all the time."""
    view = LiveView(fleet, program, as_json=output == "json")
    with _interrupted(fleet), view:

        def sleep(seconds: float) -> None:
            view.refresh()
            time.sleep(seconds)

        report = run(fleet.run(), sleep)
        view.refresh()
    unasked = dict.fromkeys(silent_hosts, "did not answer")
    return FleetReport(report.outcomes, {**report.not_begun, **unasked}, report.stopped)


@contextmanager
def _interrupted(fleet: Fleet) -> Iterator[None]:
    """Let the first interrupt stop the fleet and the second leave it: what has begun goes on by itself."""

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (a signal handler's signature)
        if fleet.stopped:
            raise KeyboardInterrupt
        fleet.stop("interrupted")
        click.echo(
            "no further node is begun; once more, and those under way are left to themselves", err=True
        )

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _until_free(cluster: Cluster, nodes: Iterable[str]) -> Steps[None]:
    """Wait until nobody is in the middle of a roll-out on these nodes, or they are held."""
    names = {*nodes}
    while any(
        node.name in names and (record := read_record(node)) is not None and record.phase is not Phase.HELD
        for node in cluster.nodes()
    ):
        yield 2.0


def _program(
    inventory: str, deploy: str | None, limits: tuple[str, ...], name: str, given: Mapping[str, Any]
) -> Pyinfra:
    """Return how to run pyinfra here.

    Raises NumaforgeError for options that say nothing acceptable, and for files that do not exist.
    """
    said = _said(given)
    read_options(said, where="the command line")
    place = Path(inventory)
    if place.is_dir():
        place = place / "inventory.py"
    if place.suffix == ".py" and not place.exists():
        raise NumaforgeError("there is no such inventory", where=str(place))
    deploy_file = Path(deploy) if deploy else _site()
    if not deploy_file.exists():
        raise NumaforgeError("there is no such deploy", where=str(deploy_file))
    state = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser())
    folder = state / "numaforge" / "rollouts" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{name}-{os.getpid()}"
    return Pyinfra(str(place) if place.suffix == ".py" else inventory, str(deploy_file), limits, said, folder)


def _site() -> Path:
    here = Path("deploys/site.py")
    if here.exists():
        return here
    import deploys

    return Path(str(deploys.__file__)).with_name("site.py")


def _said(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was said on the command line, in the words of RolloutOptions."""
    said = {name: value for name, value in given.items() if value not in (None, ())}
    if pairs := said.get("wait_for"):
        wrong = next((pair for pair in pairs if "=" not in pair), None)
        if wrong is not None:
            raise click.BadParameter(f"{wrong!r} is not KEY=VALUE", param_hint="--wait-for")
        said["wait_for"] = dict(pair.split("=", 1) for pair in pairs)
    return said


def _common_options(survey: Survey) -> RolloutOptions:
    """Return the options that all hosts agree on.

    Raises NumaforgeError for hosts that cannot be planned, and for hosts that disagree.
    """
    if survey.refused:
        lines = [f"{host}: {message}" for host, message in sorted(survey.refused.items())]
        raise NumaforgeError("nothing was begun:\n" + "\n".join(lines))
    if not survey.outlooks:
        hosts = ", ".join((*survey.silent, *survey.without_kubelet))
        raise NumaforgeError(
            "\n  ".join(["no host with a kubelet said what it needs:", *tail(survey.log)]),
            where=hosts,
            remedy=f"the whole log is {survey.log}",
        )
    common: dict[str, Any] = {}
    said_by: dict[str, str] = {}
    for each in survey.outlooks:
        for name in _FOR_THE_FLEET:
            value = each.options[name]
            if common.setdefault(name, value) != value:
                raise NumaforgeError(
                    f"{each.host} says {value!r}, {said_by[name]} says {common[name]!r}",
                    where=f"numaforge_rollout.{name}",
                    remedy="say the same for all hosts of a roll-out, or say it on the command line",
                )
            said_by.setdefault(name, each.host)
    return read_options(common)


def _preflight(cluster: Cluster, options: RolloutOptions, survey: Survey) -> dict[str, ClusterNode]:
    """Refuse what would fail later: missing permissions, hosts that the cluster does not know.

    Returns the cluster's nodes by name.
    """
    missing = [str(each) for each in permissions(options.namespace) if not cluster.may(each)]
    if missing:
        raise NumaforgeError(
            f"this login lacks permissions: {', '.join(missing)}",
            where=options.kubeconfig or "the kubeconfig",
            remedy="docs/rollout-rbac.yaml has exactly those that a roll-out needs",
        )
    known = {node.name: node for node in cluster.nodes()}
    for each in survey.outlooks:
        if each.joined and each.node not in known:
            raise NumaforgeError(
                f"the cluster knows no node {each.node}; it has {len(known)} others",
                where=each.host,
                remedy="check kubeconfig and context; the node has the host's name, or what the kubelet's "
                "--hostname-override says",
            )
    return known


def _require_readable(cluster: Cluster, survey: Survey) -> None:
    """Refuse hosts whose kubelets could not be proved to run with the new configuration."""
    refuse_unreadable(cluster, {each.host: each.unreadable for each in survey.outlooks if each.unreadable})


def _waiting(steps: Steps[T], what: str) -> T:
    """Do work that takes more than a moment, with a sign of life on a terminal."""
    with progress(what):
        return run(steps)


def _show_report(report: FleetReport, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(report_document(report)))
    else:
        show(report_tables(report))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
