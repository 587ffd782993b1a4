"""Each wait for a lock of a transaction ends, with a message that names who has it."""

import re
from dataclasses import replace

import pytest

from numaforge.change.transaction import (
    TRANSACTIONS,
    Transaction,
    confirm_script,
    settle_script,
    start_script,
    void_script,
)
from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_systemd import DROP_IN
from tests.ssh.transactions import (
    deliver,
    ended,
    leftovers,
    node_with_kubelet,
    status,
    transaction,
    until,
    when,
)

ALL, ALIVE, DECISION = "lock", "T1/alive", "T1/decision"
HOLD = "exec 3>> {path} && flock 3 && : > {path}.held && exec sleep 1000"


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    return node_with_kubelet(start_sandbox, port)


def impatient(script: str) -> str:
    """Return a script whose waits for what others do end after a second."""
    shortened, count = re.subn(r"^(LOCK|LEFT)_SECONDS=\d+", r"\1_SECONDS=1", script, flags=re.MULTILINE)
    assert count == 2
    return shortened


def delivered(node: Sandbox, change: Transaction) -> None:
    """Deliver an impatient change."""
    deliver(node, change)
    run = node.path(f"{change.folder}/run.sh")
    run.write_text(impatient(run.read_text()))


def held(node: Sandbox, file: str) -> str:
    """Have a process take a lock and keep it; return what it is called where a wait for it ends."""
    path = f"{TRANSACTIONS}/{file}"
    hold = HOLD.format(path=path)
    node.run(f"setsid sh -c '{hold}' > /dev/null 2>&1 < /dev/null & echo $! > /run/holder")
    until(node, f"[ -e {path}.held ]")
    return f"process {node.path('/run/holder').read_text().strip()} (sleep)"


@cases(
    "file, script",
    {
        "delivery": (ALL, lambda port: start_script(transaction(port, "new", id="T2"))),
        "begin": (ALL, lambda _: f"sh {TRANSACTIONS}/T1/run.sh begin apply"),
        "withdrawal": (ALL, lambda _: void_script("T1")),
        "settling": (ALL, lambda _: settle_script()),
        "confirmation": (DECISION, lambda _: confirm_script("T1", "token")),
        "work": (ALIVE, lambda _: f"sh {TRANSACTIONS}/T1/run.sh apply"),
        "boot": (ALIVE, lambda _: f"sh {TRANSACTIONS}/T1/run.sh boot"),
    },
)
def test_lock_wait_times_out_and_names_the_holder(node, port, file, script):
    delivered(node, transaction(port, "new"))
    holder = held(node, file)
    text = script(port)
    done = node.run(impatient(text) if "LOCK_SECONDS" in text else text)
    assert done.returncode == 1
    said = f"{holder} has kept the lock of {TRANSACTIONS}/{file} longer than 1 s"
    assert done.stderr == f"{said}: run again once that has ended\n"
    assert node.path(DROP_IN).read_text() == "old\n"
    assert leftovers(node) == []


def test_overdue_change_is_named_with_its_step(node, port):
    when(node, "apply files", "until [ -e /run/go-on ]; do sleep 0.1; done")
    change = transaction(port, "new")
    node.run(start_script(change))
    until(node, "! [ -e '/run/when/apply files' ]")
    settings = node.path(f"{change.folder}/settings")
    settings.write_text(re.sub(r"^(\w*_SECONDS) \d+$", r"\1 0", settings.read_text(), flags=re.MULTILINE))
    settled = node.run(impatient(settle_script()))
    assert settled.returncode == 1
    said = (
        r"the transaction T1 has not ended within 1 s \(apply files\): process \d+ \(sh\) still works on it\n"
    )
    assert re.fullmatch(said, settled.stderr)
    node.run(": > /run/go-on")
    assert ended(node).outcome == "applied"


def test_change_without_decision_lock_is_undone_with_a_reason(node, port):
    change = replace(transaction(port, "new"), confirm_seconds=1)
    delivered(node, change)
    holder = held(node, DECISION)
    node.run(f"sh {change.folder}/run.sh begin apply")
    until(node, f"[ -e {change.folder}/result.json ] && idle")
    result = status(node).result
    assert (result.outcome, result.reason.split(":")[0]) == (
        "rolled-back",
        f"{holder} has kept the lock of {TRANSACTIONS}/{DECISION} longer than 1 s",
    )
    assert node.path(DROP_IN).read_text() == "old\n"
