"""`numaforge doctor`: is everything there that a run will need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from numaforge.commands.options import output_option
from numaforge.errors import ExitCode, NumaforgeError
from numaforge.report.terminal import progress, show, show_json

# What is not needed for `--help` is imported where it is used.
if TYPE_CHECKING:
    from numaforge.commands.over_inventory import Answers
    from numaforge.preflight import Check
    from numaforge.rollout.options import RolloutOptions

HERE, CLUSTER = "this machine", "the cluster"  # no host has such a name


@click.command()
@click.argument("inventory", required=False, type=click.Path())
@click.option("--limit", "limits", multiple=True, metavar="HOST|GROUP", help="As pyinfra's --limit.")
@output_option("table", "json")
def doctor(inventory: str | None, limits: tuple[str, ...], output: str) -> int:
    """Look whether everything is there that a run needs; nothing is changed.

    Here: numaforge, pyinfra, the verification suite, ssh. In the cluster: kubectl, a login, its permissions.
    With INVENTORY, which is pyinfra's, on each of its hosts: login, rights, programs, room, clock.
    Exits with 0 when a run can begin, 1 when something is missing.
    """
    if limits and not inventory:
        raise click.UsageError("--limit chooses hosts of an INVENTORY, and there is none")
    from numaforge.preflight import errors
    from numaforge.report.doctor import doctor_document, doctor_table

    found = _looked(inventory, limits)
    if output == "json":
        show_json(doctor_document(found))
    else:
        show(doctor_table(found))
    lacking = errors(check for checks in found.values() for check in checks)
    return ExitCode.NO if lacking else ExitCode.YES


def _looked(inventory: str | None, limits: tuple[str, ...]) -> dict[str, tuple[Check, ...]]:
    from numaforge.commands.over_inventory import ask_all
    from numaforge.hosts.preflight import PREFLIGHT, examine
    from numaforge.preflight.host import is_joined
    from numaforge.preflight.runner import runner_checks

    answers = None
    if inventory:
        function = f"{examine.__module__}.{examine.__name__}"
        answers = ask_all(inventory, limits, function, PREFLIGHT, "asking every host whether it is ready")
    with progress("looking at this machine and the cluster"):
        found = {HERE: runner_checks()}
        told = answers.told.values() if answers else ()
        found[CLUSTER] = _cluster(answers, any(is_joined(event["answer"]) for event in told))
    return {**found, **(_hosts(answers) if answers else {})}


def _cluster(answers: Answers | None, joined: bool) -> tuple[Check, ...]:
    from numaforge.findings import Severity
    from numaforge.preflight import Check
    from numaforge.preflight.cluster import cluster_checks

    try:
        options = _options(answers)
    except NumaforgeError as error:
        return (Check("numaforge_rollout", str(error), Severity.ERROR),)
    return cluster_checks(options, needed=joined)


def _options(answers: Answers | None) -> RolloutOptions:
    """Return how to reach the cluster by what the inventory says of it."""
    from numaforge.commands.rollout.options import LOGIN
    from numaforge.commands.rollout.preflight import agreed
    from numaforge.rollout.options import read_options

    settings = answers.settings if answers else {}
    return read_options(
        agreed({host: said for host, said in settings.items() if isinstance(said, Mapping)}, LOGIN)
    )


def _hosts(answers: Answers) -> dict[str, tuple[Check, ...]]:
    from numaforge.findings import Severity
    from numaforge.preflight import Check
    from numaforge.preflight.host import checks

    found: dict[str, tuple[Check, ...]] = {}
    for name in answers.settings:
        if why := answers.failed.get(name):
            message, _, remedy = why.partition("\n")
            found[name] = (Check("login", message, Severity.ERROR, remedy.strip()),)
            continue
        told = answers.told[name]
        login = Check("login", "as root" if told["right"] == "root" else "with sudo")
        found[name] = (login, *checks(told["answer"], told["asked_at"], told["answered_at"]))
    return found
