"""`numaforge verify`: live nodes against the plans saved on them."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from numaforge.commands.options import output_option
from numaforge.commands.over_inventory import connections
from numaforge.errors import ExitCode, HostError, NumaforgeError
from numaforge.report.terminal import plain, show_json
from numaforge.rollout.patience import UNREACHABLE_EXIT_CODE
from numaforge.verification import suite
from numaforge.verification.login import login, ssh_config

ROLES = (
    *("topology", "tuning", "host", "interrupts", "system"),
    *("modules", "hugepages", "mig", "rdma", "kubelet"),
)
"""What deploys call, and a plan's parts are named after."""
_ANSWERS = {0: ExitCode.YES, 1: ExitCode.NO, UNREACHABLE_EXIT_CODE: UNREACHABLE_EXIT_CODE}


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
    "--active",
    type=click.Choice(("loopback", "bandwidth")),
    help="Also put traffic on RDMA ports: loopback sends each port's messages to itself, bandwidth measures, "
    "on drained nodes only.",
)
@click.option("--drained", is_flag=True, help="Vouch that no pod of a workload runs on these hosts.")
@output_option("table", "json")
@click.argument("arguments", metavar="[-- PYTEST-ARGUMENTS]", nargs=-1, type=click.UNPROCESSED)
def verify(
    inventory: str,
    limits: tuple[str, ...],
    kubeconfig: str | None,
    roles: str | None,
    active: str | None,
    drained: bool,
    output: str,
    arguments: tuple[str, ...],
) -> int:
    """Hold live nodes to the plans saved on them.

    INVENTORY is pyinfra's. What follows `--` goes to pytest, such as -k governor or --junitxml=FILE. Exits
    with 0 when every promise is kept, 1 when something differs, 2 when only the data of a host are refused, 6
    when a host could not be reached.
    """
    if kubeconfig and not Path(kubeconfig).expanduser().is_file():
        raise NumaforgeError("there is no such kubeconfig", where=kubeconfig)
    if unknown := [name for name in (roles or "").split(",") if roles and name not in ROLES]:
        raise click.BadParameter(
            f"{unknown[0]!r} is no role; write some of {','.join(ROLES)}", param_hint="--roles"
        )
    given = [
        *([f"--kubeconfig={kubeconfig}"] if kubeconfig else []),
        *([f"--roles={roles}"] if roles else []),
        *([f"--active={active}"] if active else []),
        *(["--drained"] if drained else []),
        *arguments,
    ]
    hosts = connections(inventory, limits)
    for name, why in hosts.refused.items():
        click.echo(plain(f"{name}: {why}"), err=True)
    if not hosts.found:
        raise HostError("no host is left to be verified", where=inventory)
    logins = [login(name, how["connector"], how["data"]) for name, how in hosts.found.items()]
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
    return ExitCode.BAD_INPUT if hosts.refused and not code else _ANSWERS[code]


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
