"""`numaforge verify`: live nodes against the plans saved on them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from numaforge.errors import ExitCode, HostError
from numaforge.report.terminal import show_json
from numaforge.rollout import events
from numaforge.rollout.patience import AWAY_EXIT_CODE
from numaforge.verification import suite
from numaforge.verification.login import Login, login, ssh_config

_ANSWERS = {0: ExitCode.YES, 1: ExitCode.NO, AWAY_EXIT_CODE: AWAY_EXIT_CODE}
_LAST_LINES = 5


@click.command()
@click.argument("inventory", type=click.Path())
@click.option("--limit", "limits", multiple=True, metavar="HOST|GROUP", help="As pyinfra's --limit.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Also compare the running kubelet's configuration and the node's Allocatable, through this cluster.",
)
@click.option(
    "--roles",
    metavar="NAMES",
    help="Hold hosts only to what these roles see to, such as topology,tuning after deploys/tune.py.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="What to print.",
)
@click.argument("arguments", metavar="[-- PYTEST-ARGUMENTS]", nargs=-1, type=click.UNPROCESSED)
def verify(
    inventory: str,
    limits: tuple[str, ...],
    kubeconfig: str | None,
    roles: str | None,
    output: str,
    arguments: tuple[str, ...],
) -> int:
    """Hold live nodes to the plans saved on them.

    INVENTORY is pyinfra's. What follows `--` goes to pytest, such as -k governor or --junitxml=FILE. Exits
    with 0 when every promise is kept, 1 when something differs, 6 when a host could not be reached.
    """
    given = [
        *([f"--kubeconfig={kubeconfig}"] if kubeconfig else []),
        *([f"--roles={roles}"] if roles else []),
        *arguments,
    ]
    logins = _logins(inventory, limits)
    with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
        config, report = Path(folder, "ssh_config"), Path(folder, "report.xml")
        config.write_text(ssh_config(logins), encoding="utf-8")
        if output == "table":
            code = subprocess.run(
                suite.command(logins, config, *given), env=suite.environment(), check=False
            ).returncode
        else:
            code = _run_for_document(suite.command(logins, config, *given, f"--junitxml={report}"), report)
    if code not in _ANSWERS:
        raise HostError(f"the verification suite could not run: pytest ended with {code}", where=inventory)
    return _ANSWERS[code]


def _logins(inventory: str, limits: Sequence[str]) -> list[Login]:
    """Return how to reach each host of an inventory; none is asked.

    Raises HostError where it names none.
    """
    with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
        heard = Path(folder, "events")
        limited = [part for limit in limits for part in ("--limit", limit)]
        done = subprocess.run(
            [sys.executable, "-m", "numaforge.pyinfra_cli", *limited, inventory, "debug-inventory"],
            env=os.environ | {events.EVENTS: str(heard)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        told = events.Reader(heard).new()
    hosts = next((event["hosts"] for event in told if event["kind"] == "connections"), None)
    if not hosts:
        lines = [line for line in done.stdout.splitlines() if line.strip()][-_LAST_LINES:]
        raise HostError("\n  ".join(["the inventory names no host:", *lines]), where=inventory)
    return [login(name, found["connector"], found["data"]) for name, found in hosts.items()]


def _run_for_document(command: Sequence[str], report: Path) -> int:
    """Run the suite, print what it found as one document, and return its exit code."""
    done = subprocess.run(
        command,
        env=suite.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if report.exists():
        found = suite.results(report)
        show_json({"tests": [vars(result) for result in found], "failed": len(suite.failures(found))})
    else:
        click.echo(done.stdout, err=True, nl=False)
    return done.returncode
