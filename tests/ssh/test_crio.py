"""CRI-O's drop-in: read by a restart, proved, taken back with the section, whole at every boundary."""

from pathlib import Path
from typing import Any

import pytest

from numaforge.change.transaction import Transaction, settle_script, start_script
from numaforge.lib.file_content import FileContent
from numaforge.machine.topology.runtime import CRIO
from numaforge.node.bundle import FileChange
from numaforge.roles.crio import part as crio
from numaforge.roles.crio.files import CRIO_PATH
from numaforge.roles.files import part as files
from tests.fixtures.shortened import shortened
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.rdma_hosts import BARE
from tests.ssh.sandbox import Sandbox, free_port, pyinfra
from tests.ssh.site_runs import plain
from tests.ssh.standin_systemd import BOOT_ID, DROP_IN, notifying, standin_systemd
from tests.ssh.transactions import (
    CUT_POWER,
    ended,
    killed,
    killed_undoing,
    leftovers,
    reverted,
    run,
    status,
    until,
    when,
)

HANDLER = "[crio.runtime.runtimes.high-performance]\n"
RUNNING = "/run/crio.conf"  # what the stand-in has read when it started
PROGRAM = f"""#!/bin/sh
[ "$*" = "status config" ] && cat {RUNNING}
"""
SERVICE = notifying(f"cat /etc/crio/crio.conf.d/* > {RUNNING} 2> /dev/null")


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    """A node whose CRI-O runs with what it has read."""
    sandbox = start_sandbox(
        {**machine(), **standin_systemd(free_port()), DROP_IN: "old\n", "/usr/local/bin/crio": PROGRAM}
    )
    sandbox.run("mkdir -p /run/services /run/broken /run/when /run/systemd/system")
    sandbox.path(f"/run/services/{CRIO}").write_text(SERVICE)
    sandbox.run(f"systemctl start {CRIO}; systemctl start kubelet.service; : > /run/systemctl.log")
    return sandbox


def change(text: str = HANDLER) -> Transaction:
    written = FileChange(CRIO_PATH, None, FileContent(CRIO_PATH, text))
    return Transaction("T1", (files.part([written]), crio.part(there=True, drains=False)))


def read(node: Sandbox) -> str:
    until(node, f"[ -e {RUNNING} ]")
    return node.path(RUNNING).read_text()


def restarts(node: Sandbox) -> int:
    return node.path("/run/systemctl.log").read_text().splitlines().count(f"restart {CRIO}")


def assert_old(node: Sandbox) -> None:
    assert not node.path(CRIO_PATH).exists()
    assert read(node) == ""
    assert node.run(f"systemctl is-active {CRIO}").stdout.strip() == "active"
    assert leftovers(node) == []


def test_crio_reads_its_drop_in_and_forgets_it_with_an_undoing(node: Sandbox) -> None:
    result = run(node, change())
    assert result.outcome == "applied", result
    assert read(node) == HANDLER
    assert reverted(node, "the node is not Ready").outcome == "rolled-back"
    assert_old(node)


def test_crio_that_does_not_run_is_not_started(node: Sandbox) -> None:
    node.run(f"systemctl stop {CRIO}; : > /run/systemctl.log")
    assert run(node, change()).outcome == "applied"
    assert node.run(f"systemctl is-active {CRIO}").stdout.strip() == "inactive"
    assert restarts(node) == 0


def test_a_handler_that_crio_leaves_out_is_no_success(node: Sandbox) -> None:
    result = run(node, change("[crio.runtime.runtimes.other]\n"))
    assert result.outcome == "rolled-back"
    assert result.reason.startswith(f"{CRIO} has no runtime handler high-performance although its drop-in")
    assert_old(node)


def test_without_the_program_that_asks_crio_the_restart_is_the_proof(node: Sandbox) -> None:
    node.path("/usr/local/bin/crio").unlink()
    assert run(node, change("[crio.runtime.runtimes.other]\n")).outcome == "applied"


def test_crio_that_does_not_start_gets_its_old_configuration_back(node: Sandbox) -> None:
    node.path(f"/run/services/{CRIO}").write_text(f"grep -qs runtimes {CRIO_PATH} && exit 1\n{SERVICE}")
    result = run(node, change())
    assert result.outcome == "rolled-back", result
    assert_old(node)


@pytest.mark.parametrize(
    "event",
    shortened(
        ["keeping", "apply files", "apply crio", "start crio", "prove crio"], ("apply files", "prove crio")
    ),
)
def test_one_that_is_killed_at_any_step_is_undone(node: Sandbox, event: str) -> None:
    killed(node, event, change())
    assert_old(node)


@pytest.mark.parametrize("event", shortened(["undo crio", "undo files", "start crio"], ("undo crio",)))
def test_an_undoing_that_is_killed_is_ended(node: Sandbox, event: str) -> None:
    killed_undoing(node, event, change())
    assert_old(node)


def test_after_a_power_cut_the_old_state_is_back(node: Sandbox) -> None:
    when(node, "start crio", CUT_POWER)
    node.run(start_script(change()))
    until(node, f"grep -q second {BOOT_ID}")
    assert status(node).broken_off
    node.run(settle_script())
    assert ended(node).outcome == "rolled-back"
    assert_old(node)


# ---- as an admin runs it ----

ALLOWED: dict[str, Any] = {**BARE, "pod_tuning": {"allow": ["cpu_quota"]}}


@pytest.fixture
def worker(start_sandbox: StartSandbox) -> Sandbox:
    """A node as kubeadm leaves it, with a kubelet that uses CRI-O and does not run yet."""
    unit = (
        "[Service]\nExecStart=/usr/local/bin/kubelet "
        "--container-runtime-endpoint=unix:///var/run/crio/crio.sock\n"
    )
    sandbox = start_sandbox(
        {
            **machine(),
            **standin_systemd(free_port()),
            "/usr/lib/systemd/system/kubelet.service": unit,
            "/usr/local/bin/crio": PROGRAM,
        }
    )
    sandbox.run("mkdir -p /run/services /run/systemd/system")
    sandbox.path(f"/run/services/{CRIO}").write_text(SERVICE)
    sandbox.run(f"systemctl start {CRIO}")
    return sandbox


def deploy(tmp_path: Path) -> str:
    file = tmp_path / "deploy.py"
    file.write_text(
        "from numaforge.run.roles import host\nfrom numaforge.run.topology import topology\n"
        "topology()\nhost()\n"
    )
    return str(file)


def test_a_profile_brings_the_handler_and_one_without_it_takes_it_away(
    worker: Sandbox, tmp_path: Path
) -> None:
    def site(profile: dict[str, Any]) -> str:
        wish = {"node": {**worker.data("root"), "numaforge_profile": profile}}
        done = pyinfra(tmp_path, wish, "-y", "-v", deploy(tmp_path))
        assert done.returncode == 0, done.stdout
        return plain(done.stdout)

    said = site(ALLOWED)
    assert f"{CRIO} restarts: what pods may ask of it changes" in said
    assert "high-performance" in read(worker)
    assert "noop: the node is already as planned" in site(ALLOWED)
    site(BARE)
    assert not worker.path(CRIO_PATH).exists()
    assert read(worker) == ""
