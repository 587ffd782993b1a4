"""A run whose hosts are divided between processes: what comes of it is the same as with one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from numaforge.run.hosts.processes import shared
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import REPOSITORY, Sandbox

NAMES = [f"node-{number}" for number in range(5)]
_RUN = """
import sys
from numaforge.run import pyinfra_cli
from numaforge.run.hosts import processes
processes.HOSTS_OF_PROCESS = 1
sys.exit(pyinfra_cli.run())
"""
_DEPLOY = """
import os
from pyinfra import host, logger
from numaforge.lib.errors import HostError
from numaforge.lib.framing import asking
from numaforge.run.hosts.scripts import reached
from numaforge.run.hosts.roles import role

@role("Ask")
def ask():
    logger.info("%s answered %s in %s", host.name, reached(host, asking("echo yes")).lines[0], os.getpid())
    if host.name in host.data.get("refuses", []):
        raise HostError("refused")

ask()
"""


@pytest.fixture
def sandbox(start_sandbox: StartSandbox) -> Sandbox:
    return start_sandbox(machine())


def divided(sandbox: Sandbox, folder: Path, processes: int, **data: object) -> SimpleNamespace:
    deploy, inventory, events = folder / "deploy.py", folder / "inventory.py", folder / "events"
    deploy.write_text(_DEPLOY)
    inventory.write_text(f"nodes = {[(name, {**sandbox.data(), **data}) for name in NAMES]!r}\n")
    done = subprocess.run(
        [sys.executable, "-c", _RUN, "--dry", str(inventory), str(deploy)],
        cwd=REPOSITORY,
        env={
            **os.environ,
            "HOME": str(folder),
            "NUMAFORGE_PROCESSES": str(processes),
            "NUMAFORGE_EVENTS": str(events),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    answers = re.findall(r"(node-\d) answered yes in (\d+)", done.stdout)
    told = [json.loads(line) for line in events.read_text().splitlines()]
    return SimpleNamespace(code=done.returncode, output=done.stdout, answers=answers, events=told)


@pytest.mark.variants(1)
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_host_is_queried_once(sandbox, tmp_path, processes):
    run = divided(sandbox, tmp_path, processes)
    assert run.code == 0, run.output
    assert sorted(name for name, _ in run.answers) == NAMES
    assert len({process for _, process in run.answers}) == processes


def test_inventory_event_is_sent_once_with_all_hosts(sandbox, tmp_path):
    run = divided(sandbox, tmp_path, 2)
    assert [sorted(event["hosts"]) for event in run.events if event["kind"] == "inventory"] == [NAMES]


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "refuses", [["node-0"], ["node-1"], ["node-1", "node-3"]], ids=["one", "another", "a-share"]
)
def test_failing_host_in_any_process_fails_the_run_but_no_other_host(sandbox, tmp_path, refuses):
    run = divided(sandbox, tmp_path, 2, refuses=refuses)
    assert run.code == 1, run.output
    assert sorted(event["host"] for event in run.events if event["kind"] == "refused") == refuses
    assert sorted(name for name, _ in run.answers) == NAMES


@pytest.mark.parametrize(
    ("hosts", "processes", "sizes"),
    [
        (1, 8, [1]),
        (79, 8, [79]),
        (80, 8, [40, 40]),
        (300, 2, [150, 150]),
        (301, 2, [151, 150]),
        (300, 1, [300]),
    ],
)
def test_hosts_are_shared_among_processes(hosts, processes, sizes):
    names = [SimpleNamespace(name=number) for number in range(hosts)]
    shares = shared(names, processes)
    assert [len(share) for share in shares] == sizes
    assert sorted(host.name for share in shares for host in share) == list(range(hosts))
