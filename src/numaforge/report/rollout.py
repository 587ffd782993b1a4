"""The `rollout` commands: plan, run, resume, status, abort, unlock."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
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
from numaforge.report.terminal import plain, progress, show, show_json
from numaforge.rollout.abort import Abort
from numaforge.rollout.cluster import Cluster, ClusterNode
from numaforge.rollout.configz import refuse_unreadable
from numaforge.rollout.fleet import Fleet, FleetReport, Member
from numaforge.rollout.kubectl import permissions
from numaforge.rollout.launch import Pyinfra, Survey, tail
from numaforge.rollout.lead import Lead, take_lead
from numaforge.rollout.options import PLACE, Part, RolloutOptions, read_options
from numaforge.rollout.orders import situation, unlock
from numaforge.rollout.outcome import Outcome
from numaforge.rollout.outlook import look_ahead
from numaforge.rollout.record import DEFAULT_NAME, RECORD, Ending, unreadable
from numaforge.rollout.runner import owner_of, this_runner
from numaforge.rollout.steps import Steps, run

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

_LOGIN = ("kubeconfig", "context", "namespace", "kubectl")
_NOT_HERE = ("without_drain",)  # a roll-out that asks no cluster is none
_UNDONE = (Ending.ABORTED, Ending.DONE, Ending.UNCHANGED)
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
        click.option("--name", default=DEFAULT_NAME, show_default=True, help="The roll-out's name."),
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
    program = _program(inventory, deploy, limits, Part(name), given)
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
    return _roll_out(_program(inventory, deploy, limits, Part(name), given), output, go_on=False)


@rollout.command()
@_fleet_command
def resume(
    inventory: str, deploy: str | None, limits: tuple[str, ...], name: str, output: str, **given: Any
) -> int:
    """Go on where a roll-out was left: first the nodes that stand in the middle, then the others."""
    return _roll_out(_program(inventory, deploy, limits, Part(name), given), output, go_on=True)


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
@click.option(
    "--wait-seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    help="How long to wait for processes that are at work on a node.",
)
def abort(
    inventory: str,
    deploy: str | None,
    limits: tuple[str, ...],
    name: str,
    output: str,
    wait_seconds: float,
    **given: Any,
) -> int:
    """Undo the nodes that stand in the middle of a roll-out, and begin no further ones.

    Whoever leads it is told first, which needs no host. A process that is at work on a node undoes it itself;
    for one that has died this command does it.
    """
    program = _program(inventory, deploy, limits, Part(name, begins=False), given | {"slot_seconds": 120.0})
    options = _login(program)
    with options.cluster() as cluster:
        order = Abort(cluster, name, owner_of(this_runner()), time.monotonic, options.away_seconds)
        report = _undone(order, cluster, program, options, output, wait_seconds)
    outcomes = report.outcomes.items()
    amiss = {name: outcome for name, outcome in outcomes if outcome.ending not in _UNDONE}
    exit_code = replace(report, outcomes=amiss, not_begun={}).exit_code
    if report.stopped and exit_code is ExitCode.YES:
        exit_code = ExitCode.BLOCKED
    _show_report(report, output, exit_code, nothing="no node is in the middle of this roll-out")
    return exit_code


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


def _roll_out(program: Pyinfra, output: str, *, go_on: bool) -> int:
    survey = _waiting(program.survey(), "asking every host what it needs")
    options = _common_options(survey)
    state = {"inventory": program.inventory, "deploy": program.deploy, "begun": _now()}
    with options.cluster() as cluster:
        nodes = _preflight(cluster, options, survey)
        members, refused = _members(nodes, survey)
        _require_readable(cluster, survey)
        taking = take_lead(
            cluster, program.part.name, this_runner(), state, go_on=go_on, clock=time.monotonic
        )
        lead = _waiting(taking, "making sure that nobody else leads this roll-out")
        rolled = _driven(_fleet(cluster, program, members, options, lead), program, output)
        report = replace(
            rolled,
            outcomes={**refused, **rolled.outcomes},
            not_begun={**rolled.not_begun, **_did_not_answer(survey)},
        )
        # From here on something may have been changed: what is known is shown, whatever else fails.
        try:
            _show_report(report, output)
        finally:
            notes = _given_back(lead, state, report)
    if not rolled.stopped and rolled.exit_code is ExitCode.YES:
        begun = {*refused, *(member.host for member in members)}
        report = replace(report, failed=_change_the_others(program, survey, begun))
    if notes or report.failed:
        _show_addition(report, output, notes)
    return report.exit_code


def _given_back(lead: Lead, state: Mapping[str, Any], report: FleetReport) -> list[str]:
    """Give the lead back with how the roll-out ended, and return what could not be written down."""
    end = {"ended": _now(), "exit_code": int(report.exit_code), "stopped": report.stopped}
    try:
        lead.end({**state, **end})
    except (NumaforgeError, OSError, KeyboardInterrupt) as trouble:
        why = str(trouble) or "interrupted"
        return [f"the cluster does not know that it has ended ({why}): the next one is a `rollout resume`"]
    return []


def _change_the_others(program: Pyinfra, survey: Survey, begun: Collection[str]) -> dict[str, str]:
    """Bring the hosts whose kubelets need no restart to their plans: nothing of theirs is interrupted.

    Returns why it failed, by host.
    """
    asked = [*(each.host for each in survey.outlooks), *survey.without_kubelet]
    others = [host for host in asked if host not in begun]
    if not others:
        return {}
    try:
        return _waiting(program.apply(others), f"changing {len(others)} hosts that need no restart")
    except (NumaforgeError, OSError, KeyboardInterrupt) as trouble:
        return dict.fromkeys(others, str(trouble) or "interrupted, and left to itself")


def _members(nodes: Mapping[str, ClusterNode], survey: Survey) -> tuple[list[Member], dict[str, Outcome]]:
    """Return who needs a restart, or stands in the middle of a roll-out; and whose record cannot be read."""
    members, refused = [], {}
    for each in survey.outlooks:
        if not each.joined:
            continue
        node = nodes[each.node]
        if trouble := unreadable(node):
            refused[each.host] = Outcome(Ending.BLOCKED, trouble)
        elif each.restarts or RECORD in node.annotations:
            members.append(Member(each.host, each.node))
    return members, refused


def _did_not_answer(survey: Survey) -> dict[str, str]:
    return {host: f"did not answer: {why}" for host, why in survey.silent.items()}


def _login(program: Pyinfra) -> RolloutOptions:
    """Return how to reach the cluster, by the command line and the inventory; no host is asked.

    Raises NumaforgeError where neither says it, and where hosts disagree.
    """
    said = {name: value for name, value in program.options.items() if name in {*_LOGIN, "away_seconds"}}
    try:
        settings = _waiting(program.settings(), "reading the inventory")
    except NumaforgeError as error:
        if "kubeconfig" in said:
            return read_options(said)
        raise NumaforgeError(
            error.message, where=error.where, remedy="--kubeconfig says where the cluster is, too"
        ) from error
    found: dict[str, Any] = {}
    said_by: dict[str, str] = {}
    for host, document in settings.items():
        named = document if isinstance(document, Mapping) else {}
        for name in (name for name in _LOGIN if name in named and name not in said):
            if found.setdefault(name, named[name]) != named[name]:
                raise NumaforgeError(
                    f"{host} says {named[name]!r}, {said_by[name]} says {found[name]!r}",
                    where=f"{PLACE}.{name}",
                    remedy="say it on the command line",
                )
            said_by.setdefault(name, host)
    return read_options(found, said)


def _undone(
    order: Abort,
    cluster: Cluster,
    program: Pyinfra,
    options: RolloutOptions,
    output: str,
    wait_seconds: float,
) -> FleetReport:
    """Have a roll-out undone, and report how far that went, whatever happens on the way."""
    survey: Survey | None = None
    stopped = None
    try:
        _waiting(order.tell(), "telling who is at work")
        click.echo(plain(_told(order)), err=True)
        while left := _waiting(order.undone(wait_seconds), "waiting until the nodes are as they were"):
            survey = survey or _waiting(program.survey(), "asking every host where it stands")
            _take_up(order, cluster, program, options, output, survey, left)
        if order.leader:
            stopped = f"{order.leader} leads the roll-out still, and was told to begin nothing new"
    except (NumaforgeError, OSError, KeyboardInterrupt) as trouble:
        if not (order.leader or order.asked or order.outcomes):
            raise  # nothing was told, so nothing is to be reported
        stopped = str(trouble) or "interrupted"
    unreached = {**_did_not_answer(survey), **survey.refused} if survey else {}
    under_way = dict.fromkeys(order.asked, "asked to be undone, and not known to be: abort again")
    return FleetReport(order.outcomes, unreached, stopped, under_way)


def _told(order: Abort) -> str:
    leader = f"{order.leader} was told to begin nothing new" if order.leader else "nothing leads it any more"
    nodes = ", ".join(order.asked) or "none"
    return f"{leader}; in the middle, and told to be undone: {nodes}"


def _take_up(
    order: Abort,
    cluster: Cluster,
    program: Pyinfra,
    options: RolloutOptions,
    output: str,
    survey: Survey,
    left: Iterable[str],
) -> None:
    """Undo the nodes that nothing is at work on; one whose host cannot be reached is held."""
    known = {each.node: Member(each.host, each.node) for each in survey.outlooks if each.joined}
    members = [known[name] for name in left if name in known]
    for name in left:
        if name not in known:
            order.end(name, Outcome(Ending.HELD, _no_host(name, survey)))
    if not members:
        return
    report = _driven(_fleet(cluster, program, members, options, None), program, output)
    for member in members:
        if member.host in report.outcomes:
            order.end(member.node, report.outcomes[member.host])
        elif member.host in report.not_begun:
            order.end(member.node, Outcome(Ending.HELD, f"not undone: {report.not_begun[member.host]}"))
    if report.under_way:
        raise KeyboardInterrupt


def _no_host(name: str, survey: Survey) -> str:
    """Say why a node cannot be undone that is in the middle."""
    reasons = {**_did_not_answer(survey), **survey.refused}
    why = next((f"{host}: {why}" for host, why in reasons.items() if host.lower() == name), None)
    why = why or "no host of this inventory says that it is this node"
    return f"it is left in the middle, and cannot be undone: {why}. Abort again once its host answers"


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


def _driven(fleet: Fleet, program: Pyinfra, output: str) -> FleetReport:
    """Run a fleet to its end, or as far as it gets, and show where it is all the time."""
    view = LiveView(fleet, program, as_json=output == "json")

    def sleep(seconds: float) -> None:
        with suppress(BrokenPipeError):  # a roll-out goes on when nothing reads its output any more
            view.refresh()
        time.sleep(seconds)

    try:
        with _interrupted(fleet), view:
            run(fleet.run(), sleep)
            view.refresh()
    except KeyboardInterrupt:
        fleet.stop("interrupted")
    except (NumaforgeError, OSError) as error:
        fleet.stop(str(error))
    except Exception:  # a fault of ours, and no reason to keep to ourselves what is known
        _show_report(fleet.report(), output)
        raise
    return fleet.report()


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


def _program(
    inventory: str, deploy: str | None, limits: tuple[str, ...], part: Part, given: Mapping[str, Any]
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
    stem = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{part.name.replace('/', '_')}-{os.getpid()}"
    folder = state / "numaforge" / "rollouts" / stem
    named = str(place) if place.suffix == ".py" else inventory
    return Pyinfra(named, str(deploy_file), limits, said, folder, part)


def _site() -> Path:
    here = Path("deploys/site.py")
    if here.exists():
        return here
    from numaforge import deploys

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
        hosts = {**_did_not_answer(survey), **dict.fromkeys(survey.without_kubelet, "has no kubelet")}
        lines = [f"{host} {what}" for host, what in hosts.items()] or [*tail(survey.log)]
        raise NumaforgeError(
            "\n  ".join(["no host with a kubelet said what it needs:", *lines]),
            where=str(survey.log),
            remedy="nothing was begun",
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


def _show_report(
    report: FleetReport,
    output: str,
    exit_code: ExitCode | None = None,
    nothing: str = "no kubelet has to restart",
) -> None:
    if output == "json":
        click.echo(json.dumps(report_document(report, exit_code)))
    else:
        show(report_tables(report, nothing))


def _show_addition(report: FleetReport, output: str, notes: Sequence[str]) -> None:
    """Show what has come to a report that was shown already; the last line of JSON is the whole of it."""
    if output == "json":
        click.echo(json.dumps(report_document(report, notes=notes)))
    failed = [f"{host} could not be changed: {why}" for host, why in report.failed.items()]
    for line in (*failed, *notes):
        click.echo(plain(line), err=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
