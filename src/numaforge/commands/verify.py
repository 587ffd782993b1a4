"""`numaforge verify`: live nodes against the plans saved on them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from numaforge.commands.options import limit_option, output_option, require_kubeconfig
from numaforge.lib.errors import ExitCode, HostError, NumaforgeError
from numaforge.report.terminal import complain, progress, screen, show_answer

if TYPE_CHECKING:
    from numaforge.verification.reach import ReachedHost
    from numaforge.verification.suite import CaseResult

_ANSWERS = (ExitCode.YES, ExitCode.NO, ExitCode.UNREACHABLE)
_HOSTS_OF_PROCESS = 8  # this many take as long as starting a process
_COULD_NOT_RUN = "the verification suite could not run: pytest ended with {}"


@click.command()
@click.argument("inventory", type=click.Path(), required=False)
@click.option(
    "--image", metavar="DIR", help="Verify an image by its root directory instead of nodes; needs root."
)
@limit_option
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="Also compare the running kubelet's configuration and Allocatable, through this cluster.",
)
@click.option(
    "--roles", metavar="NAMES", help="Verify only these roles, e.g. topology,tuning after deploys/tune.py."
)
@click.option(
    "--active",
    type=click.Choice(("loopback", "bandwidth")),
    help="Also send traffic: loopback from each RDMA port to itself, bandwidth measures, "
    "on drained nodes only.",
)
@click.option("--drained", is_flag=True, help="Confirm that no workload runs on these hosts.")
@output_option("table", "json")
@click.argument("arguments", metavar="[-- PYTEST-ARGUMENTS]", nargs=-1, type=click.UNPROCESSED)
def verify(
    inventory: str | None,
    image: str | None,
    limits: tuple[str, ...],
    kubeconfig: str | None,
    roles: str | None,
    active: str | None,
    drained: bool,
    output: str,
    arguments: tuple[str, ...],
) -> int:
    """Verify live nodes against the plans saved on them.

    INVENTORY is pyinfra's. Groups identical hosts. Arguments after `--` go to pytest, such as -k governor or
    --junitxml=FILE, and show each test. With --image, verifies the root of an image and asks no node.

    Exit codes: 0 every promise is kept, 1 something differs, 2 only a host's data is refused, 6 hosts are
    unreachable and nothing else is wrong.
    """
    if image is not None:
        if limits or kubeconfig or roles or active or drained:
            raise click.UsageError("--image excludes options for nodes")
        return _image(image, output, [*filter(None, [inventory]), *arguments])
    if inventory is None:
        raise click.UsageError("name an inventory, or with --image the root of an image")
    _check(kubeconfig, roles)
    from numaforge.commands.over_inventory import connections
    from numaforge.report import verification
    from numaforge.verification import suite
    from numaforge.verification.reach import reached_host, write_hosts

    given = {"kubeconfig": kubeconfig, "roles": roles, "active": active}
    pytest_options = [f"--{name}={value}" for name, value in given.items() if value]
    pytest_options += [*(["--drained"] if drained else []), *arguments]
    hosts = connections(inventory, limits)
    for name, why in hosts.refused.items():
        complain(f"{name}: {why}")
    if not hosts.reached:
        raise HostError("no host is left to be verified", where=inventory)
    reached = [reached_host(name, how["connector"], how["data"]) for name, how in hosts.reached.items()]
    with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
        if arguments and output == "table":
            write_hosts(reached, Path(folder, "hosts"))
            code = _run(suite.command(Path(folder, "hosts"), *pytest_options))
        else:
            results = _verified(reached, pytest_options, Path(folder), inventory)
            code = verification.exit_code(results)
            lines = partial(verification.lines, results, screen())
            show_answer(output, partial(verification.document, results), lines)
    if code not in _ANSWERS:
        raise HostError(_COULD_NOT_RUN.format(code), where=inventory)
    return ExitCode.BAD_INPUT if hosts.refused and not code else code


def _check(kubeconfig: str | None, roles: str | None) -> None:
    """Refuse a missing kubeconfig and unknown roles."""
    require_kubeconfig(kubeconfig)
    if roles is None:
        return
    from numaforge.verification.table import choices

    role_names = choices()
    if unknown := [name for name in roles.split(",") if name not in role_names]:
        raise click.BadParameter(
            f"{unknown[0]!r} is not a role; write some of {','.join(role_names)}", param_hint="--roles"
        )


def _image(root: str, output: str, arguments: Sequence[str]) -> int:
    """Test the root of an image against the rules for every image."""
    from numaforge.report import verification
    from numaforge.verification import suite

    if not Path(root, "etc").is_dir():
        raise NumaforgeError("is not the root of an image: it has no etc", where=root)
    if os.geteuid() != 0:
        raise NumaforgeError("only root enters the root of an image", where=root, remedy="run it with sudo")
    command = suite.image_command(Path(root).absolute(), *arguments)
    if arguments and output == "table":
        code = _run(command)
    else:
        with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
            report = Path(folder, "report.xml")
            code = _run([*command, *suite.reporting(report)], capture_output=True)
            results = suite.results(report) if report.exists() else ()
        lines = partial(verification.image_lines, results, screen())
        show_answer(output, partial(verification.document, results), lines)
    if code not in (ExitCode.YES, ExitCode.NO):
        raise NumaforgeError(f"the rules could not be tested: pytest ended with {code}", where=root)
    return code


def _run(command: Sequence[str], *, capture_output: bool = False) -> int:
    from numaforge.verification import suite

    run = subprocess.run(command, env=suite.environment(), capture_output=capture_output, check=False)
    return run.returncode


def _verified(
    hosts: Sequence[ReachedHost], arguments: Sequence[str], folder: Path, inventory: str
) -> tuple[CaseResult, ...]:
    """Run the suite, for many hosts in one process per core, and return all results."""
    from numaforge.lib.quantity import counted
    from numaforge.rollout.program import every_core
    from numaforge.verification import suite
    from numaforge.verification.reach import write_hosts

    count = max(1, min(every_core(), len(hosts) // _HOSTS_OF_PROCESS))
    results: list[CaseResult] = []
    with progress(f"verifying {counted(len(hosts), 'host')}"), ExitStack() as stack:
        running = []
        for number in range(count):
            report, log = folder / f"report-{number}.xml", folder / f"log-{number}"
            share = folder / f"hosts-{number}"
            write_hosts(hosts[number::count], share)
            command = suite.command(share, *arguments, *suite.reporting(report))
            out = stack.enter_context(log.open("wb"))
            process = subprocess.Popen(  # its output is a log's
                command, env=suite.environment(), stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
            stack.callback(process.kill)
            running.append((process, report, log))
        for process, report, log in running:
            code = process.wait()
            if code not in _ANSWERS or not report.exists():
                complain(log.read_text(encoding="utf-8", errors="replace").rstrip("\n"))
                raise HostError(_COULD_NOT_RUN.format(code), where=inventory)
            results += suite.results(report)
    return tuple(results)
