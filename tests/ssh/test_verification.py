"""The verification suite in a roll-out, over a real sshd: what it finds, and a host that is away a moment."""

import os
import subprocess
from dataclasses import replace

import pytest

from numaforge.lib.file_content import PLAN_PATH
from numaforge.planning import document
from numaforge.planning.node import plan_node
from numaforge.planning.profiles import load_profile
from numaforge.verification import suite
from numaforge.verification.reach import reached_host, write_hosts
from tests.fixtures import machines
from tests.ssh import pyinfra_forks
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

from numaforge.lib.errors import HostError
from numaforge.lib.framing import asking
from numaforge.run.hosts.scripts import reached
from numaforge.rollout.steps import run
from numaforge.run.maintenance.machine import PyinfraMachine
from numaforge.run.maintenance.verification import verification_of
from numaforge.verification import reach

reach.SILENT_SECONDS = 4
machine = PyinfraMachine(host, target=None, verification=verification_of(host))
reached(host, asking("printf '%s\\n' {fates} > /run/fates"))
try:
    logger.info("found %r", run(machine.verify()))
except HostError as error:
    logger.info("%s: %s", type(error).__name__, error)
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
def test_silent_host_is_asked_again_by_the_suite(sandbox, tmp_path, fates, found):
    deploy = tmp_path / "deploy.py"
    deploy.write_text(_DEPLOY.format(fates=fates))
    said = pyinfra(tmp_path, {"node": sandbox.data()}, "-y", str(deploy)).stdout
    (line,) = [line for line in said.splitlines() if "found (" in line or "HostUnreachableError" in line]
    assert found in line


def test_verification_logs_in_once_per_host(start_sandbox, tmp_path):
    bare = replace(machines.two_cpu_vm(), kubelet=None)
    plan = plan_node(bare, load_profile({"name": "p", "tuning": {"sysctls": {"vm.swappiness": 1}}}))
    sandbox = start_sandbox({**machine(), PLAN_PATH: document.dumps(plan)})
    sandbox.log_in_with('echo "$SSH_CONNECTION" >> /run/logins')
    results = verified(sandbox, tmp_path, "-k", "sysctl or promises_something")
    found = {each.name.partition("[")[0]: each for each in results}
    assert found["test_the_host_has_a_plan_that_promises_something"].outcome == "passed"
    assert found["test_kernel_value"].reason == "60, planned 1 (/proc/sys/vm/swappiness)"
    assert len({*sandbox.path("/run/logins").read_text().splitlines()}) == 1


def test_refused_login_does_not_count_as_unreachable(start_sandbox, tmp_path):
    sandbox = start_sandbox(machine())
    hosts, report, key = tmp_path / "hosts", tmp_path / "report.xml", tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    write_hosts([reached_host("node", "OpenSshConnector", {**sandbox.data(), "ssh_key": str(key)})], hosts)
    done = subprocess.run(
        suite.command(hosts, *suite.reporting(report)), env=suite.environment(), cwd=tmp_path, check=False
    )
    (failed,) = suite.failures(suite.results(report))
    assert (done.returncode, failed.unreachable) == (1, False)
    assert "ssh://node: the login as root is refused: tried ssh-ed25519 SHA256:" in failed.reason


def test_every_command_reads_ssh_files_from_home_not_passwd(start_sandbox, tmp_path):
    node, ssh = start_sandbox(machine()), tmp_path / ".ssh"
    ssh.mkdir(mode=0o700)
    (ssh / "known_hosts").write_bytes((node.keys / "known_hosts").read_bytes())
    options = {
        "HostName": "127.0.0.1",
        "Port": node.port,
        "User": "root",
        "IdentityFile": node.keys / "user",
        "StrictHostKeyChecking": "yes",
    }
    (ssh / "config").write_text("Host alias\n" + "".join(f"  {key} {options[key]}\n" for key in options))
    (tmp_path / "inventory.py").write_text('nodes = ["alias"]\n')
    asked = {
        words: pyinfra_forks.numaforge(
            *words.split(),
            "inventory.py",
            folder=tmp_path,
            environment={**os.environ, "HOME": str(tmp_path), "COLUMNS": "1000"},
        )
        for words in ("capture --to out", "verify")
    }
    assert asked["capture --to out"].returncode == 0, asked["capture --to out"].stderr
    assert f"has no {PLAN_PATH}" in asked["verify"].stdout, asked["verify"]
