"""Interrupts of `numaforge apply`, and what every command says of a change that was left in the middle."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from numaforge.change.transaction import TRANSACTIONS
from tests.ssh import pyinfra_forks
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import data
from tests.ssh.machine import machine
from tests.ssh.sandbox import REPOSITORY, Sandbox
from tests.ssh.site_runs import PROFILE, inventory
from tests.ssh.site_runs import data as data_of
from tests.ssh.standin_systemd import DROP_IN
from tests.ssh.transactions import HOLD, KEEPS_OUT, hold, until

Hosts = Mapping[str, Mapping[str, object]]


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node as kubeadm leaves it, its kubelet running."""
    return start_kubelet(start_sandbox(kubeadm_files(port)), port)


def command(folder: Path, verb: str, hosts: Hosts, *more: str) -> tuple[list[str], dict[str, Any]]:
    arguments = [sys.executable, "-m", "numaforge", verb, str(inventory(folder, hosts)), *more]
    environment = {**os.environ, "HOME": str(folder), "PYINFRA_PROGRESS": "off", "COLUMNS": "1000"}
    return arguments, {"cwd": REPOSITORY, "env": environment, "stdin": subprocess.DEVNULL, "text": True}


def numaforge(folder: Path, verb: str, hosts: Hosts, *more: str) -> subprocess.CompletedProcess[str]:
    (_, _, _, *words), how = command(folder, verb, hosts, *more)
    return pyinfra_forks.numaforge(*words, folder=REPOSITORY, environment=how["env"])


@contextmanager
def applying(folder: Path, hosts: Hosts, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Run `apply -y`."""
    words, how = command(folder, "apply", hosts, "-y", "-o", "json", *more)
    with subprocess.Popen(words, **how, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def await_line(process: subprocess.Popen[str], words: str) -> None:
    """Wait until a run says this."""
    assert process.stderr
    said = []
    for line in process.stderr:
        said.append(line)
        if words in line:
            return
    raise AssertionError("".join(said))


def interrupt(process: subprocess.Popen[str]) -> None:
    """Interrupt a run that changes one host, and wait for its answer."""
    process.send_signal(signal.SIGINT)
    await_line(process, "interrupted: no further host is begun; waits for 1 host; interrupt again to leave")


def end(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    """Return how a run ends: its exit code, and each host."""
    out, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" not in err
    assert "Traceback" not in err
    return process.returncode, json.loads(out)["hosts"]


def transaction(node: Sandbox) -> str:
    """Return the name of the node's only transaction."""
    folders = [file.parent for file in node.path(TRANSACTIONS).glob("*/run.sh")]
    (name,) = [folder.name for folder in folders if not folder.is_symlink()]
    return name


def outcome(node: Sandbox) -> str:
    """Return how the node's only transaction ended."""
    return str(
        json.loads(node.path(f"{TRANSACTIONS}/{transaction(node)}/result.json").read_text())["outcome"]
    )


def test_first_interrupt_finishes_hosts_in_progress_and_begins_no_other(
    node: Sandbox, start_sandbox: StartSandbox, tmp_path: Path
) -> None:
    hold(node)
    other = start_sandbox(machine())
    hosts = {**data(node), "other": data_of(other, PROFILE)}
    ordered = {"canary_hosts": ["node"], "max_unavailable": "1"}
    with applying(
        tmp_path, {name: {**each, "numaforge_rollout": ordered} for name, each in hosts.items()}
    ) as run:
        until(node, "[ -e /run/held ]")
        interrupt(run)
        assert run.stderr
        assert f"node: change {transaction(node)} is being applied" in run.stderr.readline()
        node.run("touch /run/go")
        code, states = end(run)
    assert (code, states["node"]["state"]) == (1, "changed")
    assert outcome(node) == "applied"
    assert states["other"]["state"] == "blocked"
    assert states["other"]["reason"].startswith("not begun: interrupted")
    assert not other.path(TRANSACTIONS).exists()


def test_interrupted_run_with_only_successful_hosts_exits_with_0(node: Sandbox, tmp_path: Path) -> None:
    hold(node)
    with applying(tmp_path, data(node)) as run:
        until(node, "[ -e /run/held ]")
        interrupt(run)
        node.run("touch /run/go")
        code, states = end(run)
    assert (code, states["node"]["state"], outcome(node)) == (0, "changed", "applied")


def test_interrupt_before_any_change_ends_the_run(node: Sandbox, tmp_path: Path) -> None:
    node.log_in_with(HOLD)
    with applying(tmp_path, data(node)) as run:
        until(node, "[ -e /run/held ]")
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
    node.path("/run/go").touch()
    assert (run.returncode, out, err) == (130, "", "numaforge: interrupted: nothing was changed\n")
    assert not node.path(DROP_IN).exists()


def left(node: Sandbox, folder: Path, by: str = "") -> dict[str, Any]:
    """Interrupt a run twice, once the node is held or the run says `by`; return how it says the node is."""
    with applying(folder, data(node)) as run:
        if by:
            await_line(run, by)
        else:
            until(node, "[ -e /run/held ]")
        interrupt(run)
        run.send_signal(signal.SIGINT)
        code, states = end(run)
    assert (code, states["node"]["state"]) == (5, "in progress")
    said: dict[str, Any] = states["node"]
    return said


def test_second_interrupt_leaves_change_running_and_reports_its_fate(node: Sandbox, tmp_path: Path) -> None:
    hold(node)
    reason = left(node, tmp_path)["reason"]
    node.run("touch /run/go")
    # The run names the step that it saw last; the node may have gone on since.
    assert re.fullmatch(
        rf"change {transaction(node)} is being applied \([a-z ]+\); "
        "afterwards it undoes itself unless it is confirmed: run apply again to keep it",
        reason,
    )


def test_every_command_names_an_unconfirmed_change_until_apply_confirms(
    node: Sandbox, tmp_path: Path
) -> None:
    node.log_in_with(KEEPS_OUT)
    reason = left(node, tmp_path, "the change could not be confirmed yet")["reason"]
    node.log_in_with(":")
    unconfirmed = (
        f"change {transaction(node)} is in effect but unconfirmed; "
        r"it undoes itself( in \d+ s)?; run apply again to keep it"
    )
    assert re.fullmatch(unconfirmed, reason)
    said = {
        "verify": numaforge(tmp_path, "verify", data(node)),
        "doctor": numaforge(tmp_path, "doctor", data(node)),
        "audit": numaforge(tmp_path, "audit", data(node)),
        "dry": numaforge(tmp_path, "apply", data(node), "--dry"),
    }
    silent = {name: done.stdout for name, done in said.items() if not re.search(unconfirmed, done.stdout)}
    assert not silent
    assert said["verify"].returncode == 1
    again = numaforge(tmp_path, "apply", data(node), "-y")
    assert again.returncode == 0, again.stderr
    assert "1 host: 1 changed" in again.stdout
    assert outcome(node) == "applied"
    assert "unconfirmed" not in numaforge(tmp_path, "apply", data(node), "--dry").stdout
