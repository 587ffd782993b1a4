"""`numaforge doctor`: whether the prerequisites of a run are met."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from numaforge.commands.options import limit_option, output_option
from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.report.terminal import progress, screen, show_answer

if TYPE_CHECKING:
    from numaforge.commands.over_inventory import Answers
    from numaforge.preflight import Check

HERE, CLUSTER, RACKS = "this machine", "the cluster", "the racks"  # no host has such a name


@click.command()
@click.argument("inventory", required=False, type=click.Path())
@limit_option
@output_option("table", "json")
def doctor(inventory: str | None, limits: tuple[str, ...], output: str) -> int:
    """Check the prerequisites of a run; change nothing.

    Here: numaforge, pyinfra, the verification suite, ssh. In the cluster: kubectl, a login, its permissions.
    On each host of a pyinfra INVENTORY: login, rights, programs, space, clock, and whether its profile can be
    planned.

    Exit codes: 0 a run can begin, 1 something is missing, 6 hosts are unreachable and nothing else is wrong.
    """
    if limits and not inventory:
        raise click.UsageError("--limit needs an INVENTORY")
    from numaforge.preflight import errors
    from numaforge.report.doctor import doctor_document, doctor_lines

    checks_of, unreachable = _looked(inventory, limits)
    show_answer(output, lambda: doctor_document(checks_of), lambda: doctor_lines(checks_of, screen()))
    lacking = {where for where, checks in checks_of.items() if errors(checks)}
    if lacking and lacking <= unreachable:
        return ExitCode.UNREACHABLE
    return ExitCode.NO if lacking else ExitCode.YES


def _looked(
    inventory: str | None, limits: tuple[str, ...]
) -> tuple[dict[str, tuple[Check, ...]], frozenset[str]]:
    """Return the checks of each place, and the hosts that did not answer."""
    from numaforge.commands.over_inventory import ask_all
    from numaforge.preflight.host import is_joined
    from numaforge.preflight.runner import runner_checks

    answers = None
    if inventory:
        from numaforge.run.topology import PREFLIGHT, examine

        function = f"{examine.__module__}.{examine.__name__}"
        answers = ask_all(inventory, limits, function, PREFLIGHT, "asking every host whether it is ready")
    with progress("looking at this machine and the cluster"):
        checks_of = {HERE: runner_checks()}
        events = answers.events.values() if answers else ()
        checks_of[CLUSTER] = _cluster(answers, any(is_joined(event["answer"]) for event in events))
    if answers is None:
        return checks_of, frozenset()
    racks = _racks(answers)
    return {**checks_of, **({RACKS: racks} if racks else {}), **_hosts(answers)}, answers.unreachable


def _cluster(answers: Answers | None, joined: bool) -> tuple[Check, ...]:
    from numaforge.commands.rollout.options import LOGIN
    from numaforge.commands.rollout.preflight import agreed
    from numaforge.findings import Severity
    from numaforge.preflight import Check
    from numaforge.preflight.cluster import cluster_checks
    from numaforge.rollout.options import read_options

    settings = answers.settings if answers else {}
    login = {host: of_host for host, of_host in settings.items() if isinstance(of_host, Mapping)}
    try:
        options = read_options(agreed(login, LOGIN))
    except NumaforgeError as error:
        return (Check("numaforge_rollout", str(error), Severity.ERROR),)
    return cluster_checks(options, needed=joined)


def _hosts(answers: Answers) -> dict[str, tuple[Check, ...]]:
    from numaforge.findings import Severity
    from numaforge.preflight import Check
    from numaforge.preflight.host import checks

    checks_of: dict[str, tuple[Check, ...]] = {}
    for name in answers.settings:
        if why := answers.failed.get(name):
            checks_of[name] = (_refused("data" if why.startswith("host data ") else "login", why),)
            continue
        event = answers.events[name]
        login = Check("login", "as root" if event["right"] == "root" else "with sudo")
        ready = checks(event["answer"], event["asked_at"], event["answered_at"])
        why = event.get("refused")
        profile = _refused("profile", why) if why else Check("profile", f"{event['profile']}: can be planned")
        checks_of[name] = (login, *ready, profile)
        if mode := event.get("changed"):  # the GPU memory mode, since the host's plan
            again = Check("GPU memory", mode, Severity.WARNING, "plan and apply again, drained")
            checks_of[name] += (again,)
    return checks_of


def _racks(answers: Answers) -> tuple[Check, ...]:
    """Return a check for each disagreement that a rack's trays would have after a run."""
    from numaforge.findings import Severity
    from numaforge.machine.topology.trays import NODE_LISTS, disagreements, tray_in
    from numaforge.preflight import Check
    from numaforge.report.hostnames import disagreement_text
    from numaforge.rollout.refusals import RACK_REMEDY

    trays = {host: tray_in(event.get("tray")) for host, event in answers.events.items()}
    remedy = "`numaforge audit` shows the remedy for each tray"
    return tuple(
        Check("IMEX nodes", disagreement_text(one), Severity.ERROR, RACK_REMEDY)
        if one.what == NODE_LISTS
        else Check(one.what, disagreement_text(one), Severity.WARNING, remedy)
        for one in disagreements({host: tray for host, tray in trays.items() if tray is not None})
    )


def _refused(name: str, why: str) -> Check:
    """Return a refusal as an error: evidence in its first line, the remedy below."""
    from numaforge.findings import Severity
    from numaforge.preflight import Check

    message, _, remedy = why.partition("\n")
    return Check(name, message, Severity.ERROR, " ".join(remedy.split()))
