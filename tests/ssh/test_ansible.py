"""What Ansible's users have: their inventory for `numaforge apply`, and the role in their own playbook."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lab.paths import REPOSITORY
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, free_port
from tests.ssh.site_runs import PROFILE, text

SWAPPINESS = "/proc/sys/vm/swappiness"
PROGRAMS = Path(sys.executable).parent
ROLES = REPOSITORY / "packaging" / "ansible"


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    return start_sandbox(machine())


def fleet(folder: Path, node: Sandbox) -> Path:
    """Write an inventory of two hosts, of which the second does not answer, with their group's variables."""
    login = node.data()
    key = {"ansible_ssh_private_key_file": login["ssh_key"], "ansible_host_key_checking": False}
    hosts = {"gpu-01": {"ansible_port": node.port}, "gpu-02": {"ansible_port": free_port()}}
    (folder / "hosts.yml").write_text(
        yaml.safe_dump({"all": {"children": {"gpu": {"hosts": hosts}}, "vars": {"ansible_become": True}}})
    )
    (folder / "group_vars").mkdir()
    variables = {"ansible_host": "127.0.0.1", "ansible_user": "root", "numaforge_profile": PROFILE, **key}
    (folder / "group_vars/gpu.yml").write_text(yaml.safe_dump(variables))
    return folder / "hosts.yml"


def run(folder: Path, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAMS / program, *arguments],
        cwd=folder,
        env={
            **os.environ,
            "HOME": str(folder),
            "COLUMNS": "1000",
            "ANSIBLE_ROLES_PATH": str(ROLES),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_STDOUT_CALLBACK": "default",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.long
def test_ansible_inventory_is_accepted_directly(node: Sandbox, tmp_path: Path) -> None:
    inventory = str(fleet(tmp_path, node))
    applied = run(tmp_path, "numaforge", "apply", "--yes", "-o", "json", inventory)
    assert applied.returncode == 6, applied.stderr
    assert json.loads(applied.stdout)["counts"] == {"changed": 1, "unreachable": 1}
    assert applied.stderr.startswith("[gpu-01] changes ")
    assert text(node, SWAPPINESS) == "1"
    verified = run(
        tmp_path, "numaforge", "verify", "--limit", "gpu-01", inventory, "--", "-k", "kernel_value"
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    captured = run(tmp_path, "numaforge", "capture", inventory, "--limit", "gpu", "--to", "snapshots")
    assert captured.returncode == 6, captured.stderr
    assert [file.name for file in (tmp_path / "snapshots").iterdir()] == ["gpu-01.snapshot.json"]


@pytest.mark.long
def test_ansible_role_applies_the_plans_of_the_hosts_in_its_play(node: Sandbox, tmp_path: Path) -> None:
    inventory = fleet(tmp_path, node)
    command = {"numaforge_apply_command": str(PROGRAMS / "numaforge")}
    play = {"hosts": "gpu", "gather_facts": False, "roles": [{"role": "numaforge", "vars": command}]}
    (tmp_path / "gpu.yml").write_text(yaml.safe_dump([play]))
    words = ("ansible-playbook", "-i", str(inventory), "gpu.yml")

    looked = run(tmp_path, *words, "--check")
    assert looked.returncode == 2, looked.stdout + looked.stderr  # a host has failed
    assert text(node, SWAPPINESS) == "60"
    assert '"msg": "to change"' in looked.stdout

    applied = run(tmp_path, *words)
    assert applied.returncode == 2, applied.stdout + applied.stderr
    assert text(node, SWAPPINESS) == "1"
    recap = {
        line.split()[0]: line for line in applied.stdout.partition("PLAY RECAP")[2].splitlines()[1:] if line
    }
    assert "changed=1 " in recap["gpu-01"]
    assert "failed=0 " in recap["gpu-01"]
    assert "failed=1 " in recap["gpu-02"]

    again = run(tmp_path, *words, "--limit", "gpu-01")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "changed=0 " in again.stdout
