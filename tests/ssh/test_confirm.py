"""A host keeps a change only once its runner has reached it over a new connection."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from numaforge.change.transaction import CURRENT, TRANSACTIONS
from tests.ssh import pyinfra_forks
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import PROFILE, data, starts
from tests.ssh.sandbox import REPOSITORY, Sandbox, pyinfra, succeed
from tests.ssh.site_runs import inventory, plain
from tests.ssh.standin_systemd import DROP_IN
from tests.ssh.transactions import KEEPS_OUT, WAITS, until

LOGINS = "/run/logins"
NOTES_LOGINS = f'echo "$SSH_CONNECTION" >> {LOGINS}'


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node as kubeadm leaves it, its kubelet running."""
    return start_kubelet(start_sandbox(kubeadm_files(port)), port)


def results(node: Sandbox) -> list[str]:
    """Return the outcomes of the host's transactions, in their order."""
    files = sorted(node.path(TRANSACTIONS).glob("*/result.json"))
    return [json.loads(file.read_text())["outcome"] for file in files]


def test_change_is_confirmed_over_a_new_connection(node, tmp_path):
    node.log_in_with(NOTES_LOGINS)
    succeed(tmp_path, data(node), "-y", "deploys/kubelet.py")
    connections = node.path(LOGINS).read_text().splitlines()
    assert len(set(connections)) == 2
    assert min(connections.count(each) for each in connections) == 1
    assert results(node) == ["applied"]


@pytest.mark.long
def test_change_that_blocks_new_logins_is_undone_and_reported(node, tmp_path):
    node.log_in_with(KEEPS_OUT)
    run = pyinfra(tmp_path, data(node, numaforge_confirm_seconds=30), "-y", "deploys/kubelet.py")
    assert run.returncode == 1
    assert "the change was not confirmed over a new connection within 30 s" in plain(run.stdout)
    assert not node.path(DROP_IN).exists()
    assert results(node) == ["rolled-back"]


def begun(node: Sandbox, folder: Path, **changes: object) -> subprocess.Popen[bytes]:
    """Run pyinfra until the host waits for a confirmation that it does not let in."""
    node.log_in_with(KEEPS_OUT)
    file = folder / "begun.py"
    file.write_text(f"nodes = {[*data(node, **changes).items()]!r}\n")
    process = subprocess.Popen(
        [pyinfra_forks.PROGRAMS / "pyinfra", "-y", file, "deploys/kubelet.py"],
        cwd=REPOSITORY,
        env={**os.environ, "HOME": str(folder), "PYINFRA_PROGRESS": "off"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(node, WAITS)
    return process


def end(process: subprocess.Popen[bytes], by: signal.Signals) -> None:
    process.send_signal(by)
    assert process.wait(60) != 0


@pytest.mark.long
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGHUP], ids=["killed", "hung-up"])
def test_host_rolls_back_when_its_runner_ends_before_confirming(node, tmp_path, by):
    end(begun(node, tmp_path, numaforge_confirm_seconds=30), by)
    until(node, f"! [ -L {CURRENT} ]")
    assert not node.path(DROP_IN).exists()
    assert results(node) == ["rolled-back"]


@pytest.mark.parametrize(
    "by", [pytest.param(signal.SIGKILL, marks=pytest.mark.long), signal.SIGHUP], ids=["killed", "hung-up"]
)
def test_next_run_confirms_a_pending_change(node, tmp_path, by):
    end(begun(node, tmp_path), by)
    node.log_in_with(":")
    again = succeed(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert "an earlier change, is ended first" in plain(again.stdout)
    assert (results(node), node.path(DROP_IN).exists(), starts(node)) == (["applied"], True, 3)


def test_failed_plan_is_refused_without_retry_failed(node, tmp_path):
    crashes = data(node, numaforge_profile={**PROFILE, "name": "crash"})
    assert pyinfra(tmp_path, crashes, "-y", "deploys/kubelet.py").returncode == 1
    again = pyinfra(tmp_path, crashes, "-y", "deploys/kubelet.py")
    assert again.returncode == 1
    assert "this plan was rolled back on this host at " in plain(again.stdout)
    assert "the kubelet ended by itself" in plain(again.stdout)
    assert results(node) == ["rolled-back"]
    file, deploy = str(inventory(tmp_path, crashes)), "--deploy=deploys/kubelet.py"
    refused = apply(tmp_path, file, deploy)
    assert "try it again knowingly with --retry-failed" in refused
    assert "rolled back: node" in apply(tmp_path, file, deploy, "--retry-failed")
    assert results(node) == ["rolled-back", "rolled-back"]


def apply(folder: Path, *arguments: str) -> str:
    """Return what `numaforge apply -y` shows."""
    environment = {**os.environ, "HOME": str(folder), "PYINFRA_PROGRESS": "off"}
    done = pyinfra_forks.numaforge("apply", "-y", *arguments, folder=REPOSITORY, environment=environment)
    return " ".join(done.stdout.split())


@pytest.mark.long
def test_other_plan_after_a_failed_plan_is_accepted(node, tmp_path):
    crashes = data(node, numaforge_profile={**PROFILE, "name": "crash"})
    assert pyinfra(tmp_path, crashes, "-y", "deploys/kubelet.py").returncode == 1
    succeed(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert results(node) == ["rolled-back", "applied"]
