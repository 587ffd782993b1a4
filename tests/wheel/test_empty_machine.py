"""`pip install numaforge` on an empty machine: the README's commands, then those of the one by `init`."""

import re
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.fixtures import wheel
from tests.fixtures.wheel import Admin
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import CPUS, governor, machine
from tests.ssh.sandbox import Sandbox, free_port

pytestmark = pytest.mark.ssh

PLAN = "/etc/numaforge/plan.json"
DEFRAG = "/sys/kernel/mm/transparent_hugepage/defrag"


SYSTEMCTL = """#!/bin/sh
case $3 in ActiveState,MainPID*) ;; *) exec /usr/bin/systemctl "$@" ;; esac
shift 3
for unit; do printf 'ActiveState=inactive\nMainPID=0\n\n'; done
"""
"""A machine whose systemd runs; the sandbox has none, and units that act at boot have not acted there."""


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    return start_sandbox({**machine(), "/usr/local/bin/systemctl": SYSTEMCTL})


@pytest.fixture
def admin(venv: Path, node: Sandbox, tmp_path: Path) -> Admin:
    return wheel.admin(venv, tmp_path / "home", ssh_config(node, "node-1"))


@pytest.fixture
def fleet(admin: Admin, tmp_path: Path) -> Path:
    admin.succeed("numaforge init fleet --host node-1 --profile cpu-only", tmp_path)
    return tmp_path / "fleet"


def ssh_config(node: Sandbox, name: str, port: int | None = None) -> str:
    return f"""Host {name}
    HostName 127.0.0.1
    Port {port or node.port}
    IdentityFile {node.keys / "user"}
    UserKnownHostsFile {node.keys / "known_hosts"}
    StrictHostKeyChecking yes
"""


@pytest.mark.long
def test_readme_commands_without_cluster_run_as_written(admin, fleet, node):
    commands = wheel.commands(fleet / "README.md")
    outside = [command for command in commands if not command.startswith("numaforge rollout")]
    assert len(outside) == 7
    said = {command: admin.succeed(command, fleet) for command in outside}
    assert "1 host to change: node-1" in said["pyinfra --dry inventory.py deploys/site.py"]
    assert {node.path(governor(cpu)).read_text() for cpu in CPUS} == {"performance\n"}
    assert "1 host as planned: node-1" in said["numaforge verify inventory.py"]


def test_numaforge_readme_commands_run_as_written(venv, node, tmp_path):
    # The sandbox's file would hold what is written to it, and the kernel's lists what can be chosen.
    node.path(DEFRAG).write_text("always defer [defer+madvise] madvise never\n")
    hosts = "".join(ssh_config(node, name) for name in ("gpu-01", "gpu-02"))
    admin, folder = wheel.admin(venv, tmp_path / "home", hosts), tmp_path
    commands = wheel.commands(REPOSITORY / "README.md")
    for command in commands:
        if command.startswith("numaforge rollout"):
            continue
        admin.succeed(command, folder)
        if command.endswith("&& cd fleet"):
            folder = tmp_path / "fleet"
    assert (tmp_path / "node.svg").read_text().startswith("<?xml")
    assert node.path(PLAN).exists()
    of_a_cluster = [command for command in commands if command.startswith("numaforge rollout")]
    assert of_a_cluster
    assert {bare(command) for command in of_a_cluster} <= {*wheel.commands(folder / "README.md")}


def bare(command: str) -> str:
    """Return a command line without its comment."""
    return command.partition("#")[0].strip()


@pytest.mark.long
def test_inventory_without_hosts_is_reported(admin, tmp_path):
    admin.succeed("numaforge init empty", tmp_path)
    run = admin.run("pyinfra --dry inventory.py deploys/site.py", tmp_path / "empty")
    assert run.returncode == 2
    assert "inventory.py names no host: nodes is empty; write nodes =" in run.stdout


@pytest.mark.long
def test_unreachable_host_fails_alone_without_prompt(admin, fleet, node):
    with (admin.home / ".ssh/config").open("a") as config:
        config.write(ssh_config(node, "gone", free_port()))
    inventory = fleet / "inventory.py"
    inventory.write_text(inventory.read_text().replace('"node-1",', '"gone", "node-1",'))
    run = admin.run("pyinfra --dry inventory.py deploys/site.py", fleet)
    assert run.returncode == 1
    assert re.search(r"\[gone\] +cannot connect", run.stdout)
    assert "1 host to change: node-1" in run.stdout
    assert "continue?" not in run.stdout
    assert "Traceback" not in run.stdout


def test_verify_finds_a_change_on_the_node(admin, fleet, node):
    admin.succeed("pyinfra -y inventory.py deploys/site.py", fleet)
    node.path(governor(3)).write_text("schedutil\n")
    run = admin.run("numaforge verify inventory.py", fleet)
    assert run.returncode == 1
    assert "1 host not as planned: node-1" in run.stdout
    assert "governor: schedutil on CPU 3, planned performance" in run.stdout
