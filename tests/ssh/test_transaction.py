"""The kubelet's transaction on a host: it changes everything or nothing, whatever happens on the way."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest

from numaforge.bundle import FileContent
from numaforge.rollout.transaction import (
    CURRENT,
    Result,
    Transaction,
    node_script,
    read_result,
    settle_script,
    start_script,
    wait_script,
)
from tests.ssh.conftest import StartSandbox
from tests.ssh.sandbox import Sandbox, free_port
from tests.ssh.standin_systemd import DROP_IN, STATE, standin_systemd

MEMORY_STATE = "/var/lib/kubelet/memory_manager_state"
UNIT_DROP_IN = "/etc/systemd/system/kubelet.service.d/90-numaforge.conf"


def transaction(port: int, wish: str, **changes: object) -> Transaction:
    return replace(
        Transaction(
            id="T1",
            unit="kubelet.service",
            files=(FileContent(DROP_IN, f"{wish}\n"), FileContent(UNIT_DROP_IN, "[Service]\n", mode="0600")),
            invalid_state={STATE: "the reserved CPUs changed"},
            kept_state=(MEMORY_STATE,),
            health_url=f"http://127.0.0.1:{port}/healthz",
            start_seconds=4,
            stable_seconds=2,
        ),
        **changes,
    )


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node whose kubelet runs with an older drop-in and has written its state."""
    sandbox = start_sandbox({**standin_systemd(port), DROP_IN: "old\n"})
    sandbox.run(
        f"systemctl start kubelet.service; until curl -fs http://127.0.0.1:{port}/; do sleep 0.05; done"
    )
    sandbox.path(MEMORY_STATE).parent.mkdir(parents=True, exist_ok=True)
    sandbox.path(MEMORY_STATE).write_text("memory as it was\n")
    sandbox.path(MEMORY_STATE).chmod(0o600)
    return sandbox


def run(node: Sandbox, change: Transaction) -> tuple[subprocess.CompletedProcess[str], Result]:
    started = node.run(start_script(change))
    assert started.returncode == 0, started.stderr
    waited = node.run(wait_script(change))
    return waited, read_result(node.path(f"{change.folder}/result.json").read_text())


def test_a_kubelet_that_comes_up_keeps_the_new_files(node: Sandbox, port: int) -> None:
    waited, result = run(node, transaction(port, "new"))
    assert (waited.returncode, result.outcome) == (0, "applied")
    assert node.path(DROP_IN).read_text() == "new\n"
    assert node.path(UNIT_DROP_IN).stat().st_mode & 0o777 == 0o600


def test_only_the_invalid_state_is_removed(node: Sandbox, port: int) -> None:
    run(node, transaction(port, "new"))
    assert json.loads(node.path(STATE).read_text())["writtenUnder"] == "new\n"
    assert node.path(MEMORY_STATE).read_text() == "memory as it was\n"


@pytest.mark.parametrize(
    ("wish", "reason"),
    [
        pytest.param("crash", "the kubelet ended by itself", id="ends-at-once"),
        pytest.param("deaf", "the kubelet was not healthy within 4 s", id="never-healthy"),
        pytest.param("flap", "the kubelet ended by itself", id="healthy-for-a-moment"),
    ],
)
def test_a_kubelet_that_does_not_come_up_gets_everything_back(
    node: Sandbox, port: int, wish: str, reason: str
) -> None:
    before = node.path(STATE).read_text()
    waited, result = run(node, transaction(port, wish))
    assert (waited.returncode, result.outcome) == (1, "rolled-back")
    assert result.reason == f"{reason}; the old configuration is back and the kubelet is healthy with it"
    assert result.reason in waited.stderr
    assert node.path(DROP_IN).read_text() == "old\n"
    assert not node.path(UNIT_DROP_IN).exists()
    assert node.path(STATE).read_text() == before
    assert node.path(MEMORY_STATE).stat().st_mode & 0o777 == 0o600


def test_the_result_quotes_the_kubelets_last_words(node: Sandbox, port: int) -> None:
    waited, result = run(node, transaction(port, "crash"))
    assert result.journal == ('E1121 "command failed" err="failed to \\"run\\" Kubelet"',)
    assert result.journal[0] in waited.stderr


def test_a_file_that_cannot_be_written_stops_nothing(node: Sandbox, port: int) -> None:
    node.path(UNIT_DROP_IN).mkdir(parents=True)
    node.run(": > /run/systemctl.log")
    _, result = run(node, transaction(port, "new"))
    assert result.outcome == "refused"
    assert "not a regular file" in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()
    assert node.path(DROP_IN).read_text() == "old\n"
    assert [entry.name for entry in node.path(DROP_IN).parent.iterdir()] == ["90-numaforge.conf"]


def test_a_transaction_that_is_killed_is_undone_by_its_own_unit(node: Sandbox, port: int) -> None:
    change = transaction(port, "deaf", start_seconds=60)
    node.run(start_script(change))
    node.run(f"until grep -q starting {change.folder}/state 2>/dev/null; do sleep 0.1; done")
    node.run(f'kill -KILL "$(cat /run/units/{change.systemd_unit})"')
    waited = node.run(wait_script(change))
    assert "the transaction was broken off while starting; the old configuration is back" in waited.stderr
    assert node.path(DROP_IN).read_text() == "old\n"


def test_a_transaction_that_lost_its_unit_is_undone_by_the_next_run(node: Sandbox, port: int) -> None:
    broken = transaction(port, "deaf", id="T0", start_seconds=60)
    node.run(start_script(broken))
    node.run(f"until grep -q starting {broken.folder}/state 2>/dev/null; do sleep 0.1; done")
    node.run(  # as a power cut does: nothing of it runs any more
        f'main=$(cat /run/units/{broken.systemd_unit}); kill -KILL "$(ps -o ppid= -p $main)" "$main"; '
        f"rm /run/units/{broken.systemd_unit}"
    )
    assert node.run(settle_script()).returncode == 0
    assert read_result(node.path(f"{broken.folder}/result.json").read_text()).outcome == "rolled-back"
    assert node.path(DROP_IN).read_text() == "old\n"
    assert not node.path(CURRENT).is_symlink()


def test_an_old_kubelet_that_fails_too_is_said_to_need_a_person(node: Sandbox, port: int) -> None:
    change = transaction(port, "deaf")
    node.run(start_script(change))
    node.run(
        f"until grep -q starting {change.folder}/state 2>/dev/null; do sleep 0.1; done; : > /run/refuse-start"
    )
    waited = node.run(wait_script(change))
    result = read_result(node.path(f"{change.folder}/result.json").read_text())
    assert result.outcome == "failed"
    assert "the old configuration is back, but systemctl start kubelet.service failed" in waited.stderr


def test_a_kubelet_that_does_not_run_is_configured_and_left_alone(node: Sandbox, port: int) -> None:
    node.run("systemctl stop kubelet.service; : > /run/systemctl.log")
    _, result = run(node, transaction(port, "new", restart=False))
    assert result.outcome == "applied"
    assert node.path(DROP_IN).read_text() == "new\n"
    log = node.path("/run/systemctl.log").read_text()
    assert "daemon-reload" in log
    assert "start" not in log


def test_a_script_that_arrives_cut_off_does_nothing(node: Sandbox, port: int) -> None:
    whole = start_script(transaction(port, "new"))
    node.run(whole[: len(whole) * 2 // 3])
    assert not node.path(CURRENT).is_symlink()
    assert node.path(DROP_IN).read_text() == "old\n"


@pytest.mark.parametrize("shell", ["busybox sh", "dash", "bash --posix"])
def test_it_runs_under_every_posix_shell(node: Sandbox, port: int, shell: str) -> None:
    change = transaction(port, "flap")
    node.run(f"mkdir -p {change.folder}")
    node.path(f"{change.folder}/run.sh").write_text(node_script(change))
    node.run(f"{shell} {change.folder}/run.sh apply")
    assert read_result(node.path(f"{change.folder}/result.json").read_text()).outcome == "rolled-back"


@pytest.mark.parametrize(
    "missing",
    [
        pytest.param([], id="curl"),
        pytest.param(["curl"], id="python3"),
        pytest.param(["curl", "python3"], id="wget"),
        pytest.param(["curl", "python3", "wget"], id="bash"),
    ],
)
def test_health_is_asked_with_what_the_host_has(node: Sandbox, port: int, missing: list[str]) -> None:
    change = transaction(port, "new", stable_seconds=1)
    pattern = "|".join(missing or ["none"])
    hidden = f"command() {{ case $2 in {pattern}) return 1 ;; *) unset -f command ;; esac; }}"
    health = node_script(change).split("health() {")[1].split("\n}\n")[0]
    check = f"{hidden}\nhealth() {{{health}\n}}\nhealth"
    assert node.run(check).returncode == 0
    node.run("systemctl stop kubelet.service")
    assert node.run(check).returncode != 0
