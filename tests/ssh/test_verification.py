"""The verification suite in a roll-out, over a real sshd: what it finds, and a host that is away a moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from numaforge.file_content import PLAN_PATH
from numaforge.planning.node import plan_node
from numaforge.profile import load_profile
from numaforge.roles import document
from tests.fixtures import machines
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, pyinfra
from tests.ssh.verifying import verified

# Each command takes a line from /run/fates. One that is "cut" takes the sshd above it with it; one that is
# "silent" stops that sshd, so that the connection stays and nothing ever comes over it.
_FATES = """
if [ -s /run/fates ]; then
    fate=$(head -n 1 /run/fates)
    sed -i 1d /run/fates
    case $fate in
    cut) kill -9 "$PPID" ;;
    silent) kill -STOP "$PPID" ;;
    esac
fi
"""
_DEPLOY = """
from pyinfra import host, logger

from numaforge.errors import HostError
from numaforge.framing import asking
from numaforge.hosts import reached
from numaforge.rollout.steps import run
from numaforge.roles.maintenance.machine import PyinfraMachine
from numaforge.roles.maintenance.verification import verification_of
from numaforge.verification.login import SIGNS_OF_LIFE

SIGNS_OF_LIFE["ServerAliveInterval"] = 1
machine = PyinfraMachine(host, target=None, verification=verification_of(host))
reached(host, asking("printf '%s\\n' {fates} > /run/fates"))
try:
    logger.info("found %r", run(machine.verify()))
except HostError as error:
    logger.info("%s: %s", type(error).__name__, error)
"""
_REFUSE = """
from dataclasses import replace

from pyinfra import host

from numaforge.errors import HostError
from numaforge.roles.maintenance.verification import verification_of

suite = verification_of(host)
suite.refuse_unreachable()
print("goes through")
try:
    section = suite.login.section.replace("IdentityFile", "# ")
    replace(suite, login=replace(suite.login, section=section)).refuse_unreachable()
except HostError as error:
    print(error)
"""
NO_PLAN = "ssh://node: has no /etc/numaforge/plan.json"


@pytest.fixture
def sandbox(start_sandbox: StartSandbox) -> Sandbox:
    sandbox = start_sandbox(machine())
    sandbox.log_in_with(_FATES)
    return sandbox


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("fates", "found"),
    [
        pytest.param("go", NO_PLAN, id="nothing-is-cut", marks=pytest.mark.long),
        pytest.param("cut", NO_PLAN, id="cut-once-it-is-asked-again"),
        pytest.param("silent", NO_PLAN, id="silent-once-it-is-asked-again"),
        pytest.param("cut go cut", "the host does not answer the verification suite", id="cut-for-the-suite"),
        pytest.param("cut cut", "HostUnreachableError", id="away-for-everybody"),
    ],
)
def test_a_host_that_does_not_answer_the_suite_is_asked_again(
    sandbox: Sandbox, tmp_path: Path, fates: str, found: str
) -> None:
    deploy = tmp_path / "deploy.py"
    deploy.write_text(_DEPLOY.format(fates=fates))
    said = pyinfra(tmp_path, {"node": sandbox.data()}, "-y", str(deploy)).stdout
    (line,) = [line for line in said.splitlines() if "found (" in line or "HostUnreachableError" in line]
    assert found in line


def test_a_login_that_the_suite_cannot_use_is_refused_before_anything_is_touched(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    deploy = tmp_path / "deploy.py"
    deploy.write_text(_REFUSE)
    said = pyinfra(tmp_path, {"node": sandbox.data()}, "-y", str(deploy)).stdout
    assert "goes through" in said
    assert "the verification suite cannot log in: root@127.0.0.1: Permission denied" in said
    assert "let ssh in without a question, by a key or an agent, or go without it: verify: False" in said


@pytest.mark.parametrize(
    ("connection", "logins"),
    [
        pytest.param("ssh", 1, id="in one login"),
        pytest.param("safe-ssh", 2, id="in two where all that a command says comes at its end"),
    ],
)
def test_a_host_says_how_it_is(
    start_sandbox: StartSandbox, tmp_path: Path, connection: str, logins: int
) -> None:
    bare = replace(machines.two_cpu_vm(), kubelet=None)
    plan = plan_node(bare, load_profile({"name": "p", "tuning": {"sysctls": {"vm.swappiness": 1}}}))
    sandbox = start_sandbox({**machine(), PLAN_PATH: document.dumps(plan)})
    sandbox.log_in_with("echo one >> /run/logins")
    results = verified(sandbox, tmp_path, "-k", "sysctl or promises_something", connection=connection)
    found = {each.name.partition("[")[0]: each for each in results}
    assert found["test_the_host_has_a_plan_that_promises_something"].outcome == "passed"
    assert found["test_sysctl"].reason == "60, planned 1"
    assert sandbox.path("/run/logins").read_text().split() == ["one"] * logins
