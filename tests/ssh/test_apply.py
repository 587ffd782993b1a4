"""`numaforge apply` over a real sshd: the run of pyinfra, its answer on standard output, our exit codes."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from lab.paths import REPOSITORY
from tests.fixtures.tables import cases
from tests.ssh import pyinfra_forks
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, free_port, pyinfra
from tests.ssh.site_runs import PROFILE, data, plain, text

SWAPPINESS = "/proc/sys/vm/swappiness"
COMMAND = Path(sys.executable).parent / "numaforge"
LOGIN = ("--kubeconfig=/etc/kubernetes/kubelet.conf", "--hostname-override=n1")
Hosts = Mapping[str, Mapping[str, object]]


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    return start_sandbox(machine())


def apply(folder: Path, hosts: Hosts, *arguments: str) -> subprocess.CompletedProcess[str]:
    inventory = folder / "inventory.py"
    inventory.write_text(f"nodes = {[(name, dict(data)) for name, data in hosts.items()]!r}\n")
    environment = {**os.environ, "HOME": str(folder), "COLUMNS": "1000"}
    return pyinfra_forks.numaforge(
        "apply", str(inventory), *arguments, folder=REPOSITORY, environment=environment
    )


def test_dry_run_prints_only_the_changes_to_standard_output(node, tmp_path):
    run = apply(tmp_path, {"gpu-01": data(node), "gpu-02": data(node)}, "--dry")
    notice = "gpu-[01-02]: all have the address 127.0.0.1: name a host once\n"
    assert (run.returncode, run.stderr) == (0, notice), run.stderr
    assert run.stdout.splitlines()[:2] == ["2 hosts: 2 to change", "2 hosts to change: gpu-[01-02]"]
    assert "cpus 0-7 scaling_governor schedutil -> performance" in " ".join(run.stdout.split())
    assert text(node, SWAPPINESS) == "60"
    assert not node.path("/etc/numaforge").exists()


def test_applied_host_is_as_planned_for_apply_and_for_pyinfra(node, tmp_path):
    hosts = {"gpu-01": data(node)}
    run = apply(tmp_path, hosts, "--yes")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("1 host: 1 changed\n")
    assert "--> " not in run.stderr
    assert text(node, SWAPPINESS) == "1"
    again = apply(tmp_path, hosts, "--yes")
    assert (again.returncode, again.stdout, again.stderr) == (
        0,
        "1 host: 1 unchanged\n1 host unchanged: gpu-01\n",
        "",
    )
    assert "1 host: 1 unchanged" in pyinfra(tmp_path, hosts, "--dry", "deploys/site.py").stdout


def test_unreachable_hosts_are_one_line_and_exit_code_6(node, tmp_path):
    gone = {**data(node), "ssh_port": free_port()}
    gone = {f"gpu-{number:02}": {**gone, "ssh_hostname": f"127.0.1.{number}"} for number in range(2, 32)}
    hosts = {"gpu-01": data(node), **gone}
    run = apply(tmp_path, hosts, "--dry")
    assert (run.returncode, run.stderr) == (6, ""), run.stderr
    assert "30 hosts unreachable: gpu-[02-31]\n" in run.stdout
    assert run.stdout.count("cannot connect") == 1
    refused = {**data(node), "numaforge_profile": "trainin"}
    run = apply(tmp_path, {**hosts, "typo": refused}, "--yes", "-o", "json")
    assert run.returncode == 1, run.stderr
    document = json.loads(run.stdout)
    assert document["counts"] == {"changed": 1, "unreachable": 30, "refused": 1}
    assert "did you mean 'training'?" in document["hosts"]["typo"]["reason"]


def test_apply_refuses_the_same_cluster_nodes_as_pyinfra(start_sandbox, port, tmp_path, monkeypatch):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    node = start_kubelet(start_sandbox(kubeadm_files(port, *LOGIN)), port)
    profile = {**PROFILE, "kubelet": {"cpu_manager_policy": "static"}}
    hosts = {"n1": data(node, profile)}
    run = apply(tmp_path, hosts, "--yes")
    assert run.returncode == 1, run.stderr
    reason = "nothing was changed, a roll-out lacks what it needs:"
    assert reason in run.stdout
    assert reason in plain(pyinfra(tmp_path, hosts, "-y", "deploys/site.py").stdout)
    assert text(node, SWAPPINESS) == "60"


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("answer", "code", "swappiness"), [("n", 1, "60"), ("y", 0, "1")], ids=["declined", "confirmed"]
)
def test_apply_on_a_terminal_shows_the_changes_and_asks(node, tmp_path, answer, code, swappiness):
    inventory = tmp_path / "inventory.py"
    inventory.write_text(f"nodes = {[('gpu-01', data(node))]!r}\n")
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        run = subprocess.run(
            [COMMAND, "apply", "-q", str(inventory)],
            cwd=REPOSITORY,
            env={**os.environ, "HOME": str(tmp_path)},
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
            check=False,
            timeout=120,
        )
    finally:
        os.close(theirs)
    said = os.read(ours, 2**16).decode()
    os.close(ours)
    assert "1 host to change: gpu-01" in said
    assert b"Change these hosts?" in run.stderr
    assert (run.returncode, text(node, SWAPPINESS)) == (code, swappiness), run.stderr


@cases(
    "arguments, message",
    {
        "nobody to ask": (["one.py"], "no terminal to ask on: give --yes"),
        "dry and yes": (["one.py", "--dry", "--yes"], "give one of them"),
        "no inventory": (["nosuch.py", "--dry"], "there is no inventory nosuch.py"),
        "no host": (["empty.py", "--dry"], "empty.py names no host: "),
        "broken inventory": (["broken.py", "--dry"], "broken.py, line 1: "),
        "no such host": (["one.py", "--dry", "--limit", "two"], "contains no host that --limit two chooses"),
        "no deploy": (["one.py", "--dry", "--deploy", "no.py"], "no.py: the deploy does not exist"),
    },
)
def test_bad_input_is_one_message(arguments, message, tmp_path):
    for name, said in {"empty": "nodes = []", "one": 'nodes = ["one"]', "broken": "import nothing"}.items():
        (tmp_path / f"{name}.py").write_text(f"{said}\n")
    run = pyinfra_forks.numaforge("apply", *arguments, folder=tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert message in run.stderr
    assert "Traceback" not in run.stderr
