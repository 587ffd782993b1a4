"""What every part of a change keeps to: applied whole or undone whole, wherever it is broken off.

What a part does beside this is in the part's own tests.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from numaforge.change.transaction import Result, revert_script, start_script
from tests.ssh.conftest import StartSandbox
from tests.ssh.parts import amd_partitions, crio, imex, interrupts, kubelet, mig, pcie_acs, rdma_host
from tests.ssh.parts.subject import Subject, end_services
from tests.ssh.reboots import CUTS, through_boots
from tests.ssh.sandbox import Sandbox
from tests.ssh.transactions import END_UNIT, GO_DOWN, KILL, run_by, status, until, when

SUBJECTS = (
    kubelet.SUBJECT,
    kubelet.WITH_A_BOOT,
    mig.SUBJECT,
    mig.IN_A_GUEST,
    amd_partitions.SUBJECT,
    amd_partitions.FORGETFUL,
    crio.SUBJECT,
    imex.SUBJECT,
    imex.MASKED,
    interrupts.SUBJECT,
    pcie_acs.SUBJECT,
    rdma_host.SUBJECT,
)
SHELLS = ("busybox sh", "dash", "bash --posix")


def each_event(events: Callable[[Subject], Sequence[str]], shown: int = len(SUBJECTS)) -> list[Any]:
    """Return each subject with each of its events; long but for the first event of the first `shown` ones."""
    return [
        pytest.param(
            subject,
            event,
            id=f"{subject.name}-{event}",
            marks=[pytest.mark.long] * (number > 0 or of >= shown),
        )
        for of, subject in enumerate(SUBJECTS)
        for number, event in enumerate(events(subject))
    ]


def each_cut(events: Callable[[Subject], Sequence[str]]) -> list[Any]:
    """Return each subject with each of its cuts at each of its events; long but for one cut at the first."""
    return [
        pytest.param(
            subject,
            cut,
            event,
            id=f"{subject.name}-{cut}-{event}",
            marks=[pytest.mark.long] * (number > 0 or cut != subject.cuts[of % len(subject.cuts)]),
        )
        for of, subject in enumerate(SUBJECTS)
        for cut in subject.cuts
        for number, event in enumerate(events(subject))
    ]


def uncommitted(subject: Subject) -> Sequence[str]:
    return [event for event in subject.forwards if not event.startswith("commit")]


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int, subject: Subject) -> Sandbox:
    return subject.start_node(start_sandbox, port)


def begin(node: Sandbox, subject: Subject, port: int) -> None:
    started = node.run(start_script(subject.change(port)))
    assert started.returncode == 0, started.stderr


def ended(node: Sandbox, subject: Subject) -> Result:
    """Boot the node as often as it goes down; return how the change ended."""
    return through_boots(node, at_boot=lambda: subject.at_boot(node), before_kubelet=subject.before_kubelet)


def applied(node: Sandbox, subject: Subject, port: int) -> None:
    begin(node, subject, port)
    result = ended(node, subject)
    assert result.outcome == "applied", (result, node.path("/run/unit.log").read_text())


def ask_to_undo(node: Sandbox) -> None:
    asked = node.run(revert_script("T1", "the node is not Ready", status(node)))
    assert asked.returncode == 0, asked.stderr


def wait_for_the_end(node: Sandbox) -> None:
    """Wait for the end of the boot, and end the services, which the sandbox's boot does not."""
    until(node, "[ -e /run/off ] || [ -e /run/stopping ]")
    end_services(node)


def assert_undone(node: Sandbox, subject: Subject, event: str, result: Result, cut: str = "") -> None:
    """Assert that the event came, and that all is as before it: a change that had not begun was refused."""
    assert not node.path(f"/run/when/{event}").exists()
    refused = event == "keeping" and cut != "kubelet-first"
    assert result.outcome == ("refused" if refused else "rolled-back"), result
    subject.assert_old(node)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_applied_change_is_undone_on_request(node, port, subject):
    subject.assert_old(node)
    applied(node, subject, port)
    subject.assert_new(node)
    ask_to_undo(node)
    assert ended(node, subject).outcome == "rolled-back"
    subject.assert_old(node)


@pytest.mark.parametrize(("subject", "event"), each_event(uncommitted))
def test_killed_change_is_undone(node, port, subject, event):
    when(node, event, KILL)
    begin(node, subject, port)
    assert_undone(node, subject, event, ended(node, subject))


@pytest.mark.parametrize(("subject", "event"), each_event(lambda subject: subject.back, shown=2))
def test_killed_undo_is_completed(node, port, subject, event):
    applied(node, subject, port)
    when(node, event, KILL)
    ask_to_undo(node)
    assert_undone(node, subject, event, ended(node, subject))


@pytest.mark.parametrize(("subject", "cut", "event"), each_cut(lambda subject: subject.forwards))
def test_boot_at_any_step_leaves_the_old_or_the_new_state(node, port, subject, cut, event):
    when(node, event, CUTS[cut])
    begin(node, subject, port)
    wait_for_the_end(node)
    result = ended(node, subject)
    subject.after_boot(node)
    if result.outcome == "applied":
        # The boot that was asked for has come all the same, or the command line outlives what was cut off.
        assert (event, cut == "soft-reboot") in (("reboot", False), ("commit kernel_cmdline", True))
        subject.assert_new(node)
    else:
        assert_undone(node, subject, event, result, cut)


@pytest.mark.long
@pytest.mark.parametrize(("subject", "cut", "event"), each_cut(lambda subject: subject.back))
def test_boot_at_any_step_of_an_undo_ends_with_the_old_state(node, port, subject, cut, event):
    applied(node, subject, port)
    when(node, event, CUTS[cut])
    ask_to_undo(node)
    wait_for_the_end(node)
    result = ended(node, subject)
    subject.after_boot(node)
    assert_undone(node, subject, event, result)


@pytest.mark.parametrize(
    ("subject", "event"),
    each_event(lambda subject: subject.forwards[:1] if "reboot" not in subject.cuts else (), shown=1),
)
def test_clean_reboot_ends_with_the_old_state(node, port, subject, event):
    when(node, event, GO_DOWN + END_UNIT)
    begin(node, subject, port)
    wait_for_the_end(node)
    result = ended(node, subject)
    subject.after_boot(node)
    assert_undone(node, subject, event, result)


@pytest.mark.parametrize(
    ("subject", "shell"),
    [
        pytest.param(
            subject,
            shell,
            id=f"{subject.name}-{shell.split()[0]}",
            marks=[] if number < len(SHELLS) and SHELLS[number] == shell else [pytest.mark.long],
        )
        for number, subject in enumerate(subject for subject in SUBJECTS if "reboot" not in subject.forwards)
        for shell in SHELLS
    ],
)
def test_transaction_runs_under_every_posix_shell(node, port, subject, shell):
    """It complains about nothing."""
    result = run_by(node, shell, subject.change(port))
    assert result.outcome == "applied", result
    subject.assert_new(node)
