"""A drained node is a lease: pods that come later are disturbed by no step, neither forward nor back."""

from dataclasses import replace

import pytest

from numaforge.change.transaction import (
    TRANSACTIONS,
    Result,
    Transaction,
    proceed_script,
    read_waiting,
    revert_script,
    settle_script,
    start_script,
)
from numaforge.lib.errors import ExitCode, HostError
from numaforge.lib.framing import Answer
from numaforge.node.pods import Pods
from tests.ssh.conftest import StartSandbox
from tests.ssh.pods import GROUPS, UID, comes, end, pod
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_systemd import DROP_IN
from tests.ssh.transactions import (
    KILL,
    LARGE,
    NO_POWER,
    SMALL,
    applied,
    ended,
    node_with_kubelet,
    pages,
    process,
    reboot,
    run,
    status,
    transaction,
    until,
    when,
)

ALLOWED = "7d1b0c44-1f0a-4c58-8f0e-0d6a5b1f2e3c"
STATIC = "e1c4a3f0b2d5968778695a4b3c2d1e0f"
STAY = (
    GROUPS["cgroupfs-v2"].replace(UID, ALLOWED),
    GROUPS["systemd-v2"].replace(UID.replace("-", "_"), ALLOWED.replace("-", "_")),
    f"0::/kubepods/burstable/pod{STATIC}/1f",
)
"""The groups of a DaemonSet's pod, with either driver, and of a static pod."""


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A drained node: only the pods that a drain leaves are alive on it."""
    sandbox = node_with_kubelet(start_sandbox, port)
    for group in STAY:
        pod(sandbox, group)
    return sandbox


def change(port: int, wish: str = "new", **changes: object) -> Transaction:
    return replace(transaction(port, wish), **{"allowed": (ALLOWED, STATIC), **changes})  # type: ignore[arg-type]


def parked(node: Sandbox, step: str) -> int:
    """Wait until that step is parked for the pod that came; return the pod's process."""
    until(node, f"grep -qsx 'parked {step}' {TRANSACTIONS}/T1/state")
    found = status(node)
    while found.phase != f"parked {step}" and found.result is None:  # killed, and gone on with
        found = status(node, seen=found)
    pid = int(node.path("/run/pod").read_text())
    assert (found.phase, found.running, found.result) == (f"parked {step}", True, None)
    assert found.parked.startswith(f"pods have come that must not be disturbed: process {pid} (sleep)")
    assert UID.replace("-", "_") in found.parked
    assert node.run(f"kill -0 {pid}").returncode == 0
    return pid


def proceed(node: Sandbox, *allowed: str, name: str = "T1") -> None:
    done = node.run(proceed_script(name, allowed))
    assert (done.returncode, done.stderr) == (0, "")


def applied_then_asked_back(node: Sandbox, port: int) -> None:
    """Apply a change; let a pod come, as after an uncordon, and ask for the undo."""
    applied(node, change(port))
    node.path("/run/pod").write_text(f"{pod(node)}\n")
    node.run(revert_script("T1", "the node is not Ready", status(node)))


def assert_new(node: Sandbox) -> None:
    assert node.path(DROP_IN).read_text() == "new\n"
    assert pages(node) == {LARGE: 2, SMALL: 16}


def assert_old(node: Sandbox, result: Result) -> None:
    assert result.outcome == "rolled-back", result
    assert node.path(DROP_IN).read_text() == "old\n"
    assert pages(node) == {LARGE: 1, SMALL: 512}
    assert process(node).pid


def test_pods_left_by_the_drain_park_nothing(node, port):
    applied(node, change(port))
    node.run(revert_script("T1", "the node is not Ready", status(node)))
    assert_old(node, ended(node))
    assert not node.path(f"{TRANSACTIONS}/T1/parked").exists()


def test_pod_that_starts_before_any_change_voids_the_change(node, port):
    comes(node, "keeping")
    result = run(node, change(port))
    assert result.outcome == "void"
    assert "nothing was changed: pods have come that must not be disturbed: " in result.reason
    assert "stop" not in node.path("/run/systemctl.log").read_text()


def test_pod_that_starts_during_the_kubelet_stop_rolls_the_change_back(node, port):
    comes(node, "stop kubelet")
    result = run(node, change(port))
    assert (result.outcome, "nothing was replaced" in result.reason) == ("rolled-back", True)
    assert_old(node, result)


@pytest.mark.variants(1)
@pytest.mark.parametrize("by", ["the-pod-leaves", "its-lease-is-renewed"])
def test_pod_that_starts_mid_change_parks_the_next_disruptive_step(node, port, by):
    comes(node, "apply kernel_values")
    node.run(start_script(change(port)))
    pid = parked(node, "apply hugepages")
    assert pages(node) == {LARGE: 1, SMALL: 512}
    if by == "the-pod-leaves":
        end(node, pid)
    else:
        proceed(node, ALLOWED, STATIC, UID)
    assert ended(node).outcome == "applied"
    assert_new(node)


@pytest.mark.variants(1)
@pytest.mark.parametrize("by", ["the-pod-leaves", "its-lease-is-renewed"])
def test_undo_waits_with_a_running_kubelet_until_the_pods_leave(node, port, by):
    applied_then_asked_back(node, port)
    kubelet = process(node).pid
    pid = parked(node, "stop kubelet")
    assert process(node).pid == kubelet != 0
    assert_new(node)
    if by == "the-pod-leaves":
        end(node, pid)
    else:
        proceed(node, ALLOWED, STATIC, UID)
    assert_old(node, ended(node))


def test_undo_of_an_unconfirmed_change_waits_for_pods(node, port):
    comes(node, "confirming")
    node.run(start_script(change(port, confirm_seconds=1)))
    pid = parked(node, "stop kubelet")
    assert_new(node)
    end(node, pid)
    result = ended(node)
    assert "was not confirmed over a new connection within 1 s" in result.reason
    assert_old(node, result)


def test_killed_waiting_transaction_keeps_waiting(node, port):
    when(node, "parked stop kubelet", KILL)
    applied_then_asked_back(node, port)
    until(node, "! [ -e '/run/when/parked stop kubelet' ]")
    pid = parked(node, "stop kubelet")
    end(node, pid)
    assert_old(node, ended(node))


def test_boot_during_a_parked_undo_finishes_the_undo_before_any_pod(node, port):
    applied_then_asked_back(node, port)
    pid = parked(node, "stop kubelet")
    node.run(f'{NO_POWER}\nkill -KILL "$main"')
    end(node, pid)
    reboot(node)
    assert_old(node, ended(node))


def test_waiting_transaction_blocks_other_changes_with_a_reason(node, port):
    applied_then_asked_back(node, port)
    pid = parked(node, "stop kubelet")
    other = node.run(start_script(change(port, id="T2")))
    assert other.returncode == 1
    assert "T1 is changing this node (parked stop kubelet: pods have come that must not" in other.stderr
    with pytest.raises(
        HostError, match=f"the transaction T1 waits: pods have come .*process {pid} "
    ) as raised:
        read_waiting(Answer.of(node.run(settle_script()).stdout))
    assert raised.value.exit_code == ExitCode.HELD
    end(node, pid)
    assert_old(node, ended(node))


def test_late_or_repeated_lease_renewal_is_harmless(node, port):
    proceed(node, UID)
    assert not node.path(f"{TRANSACTIONS}/T1").exists()
    applied(node, change(port))
    for _ in range(2):
        proceed(node, ALLOWED, STATIC)
    assert_new(node)
    assert (status(node).phase, status(node).running) == ("confirming", False)


def test_new_pod_voids_an_undrained_change_of_an_empty_node(node, port):
    assert run(node, change(port, allowed=None, pods=Pods())).outcome == "void"
