"""CRI-O's drop-in: read by a restart, proved, taken back with the section, whole at every boundary."""

from pathlib import Path
from typing import Any

import pytest

from numaforge.machine.topology.runtime import CRIO
from numaforge.roles.crio.files import CRIO_PATH
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.parts.crio import PROGRAM, SERVICE, assert_old, change, read, restarts, start_node
from tests.ssh.rdma_hosts import BARE
from tests.ssh.sandbox import Sandbox, free_port, pyinfra
from tests.ssh.site_runs import plain
from tests.ssh.standin_systemd import standin_systemd
from tests.ssh.transactions import run


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    return start_node(start_sandbox, port)


def test_stopped_crio_is_not_started(node):
    node.run(f"systemctl stop {CRIO}; : > /run/systemctl.log")
    assert run(node, change()).outcome == "applied"
    assert node.run(f"systemctl is-active {CRIO}").stdout.strip() == "inactive"
    assert restarts(node) == 0


def test_change_fails_when_crio_ignores_the_handler(node):
    result = run(node, change(text="[crio.runtime.runtimes.other]\n"))
    assert result.outcome == "rolled-back"
    assert result.reason.startswith(f"{CRIO} has no runtime handler high-performance although its drop-in")
    assert_old(node)


def test_restart_alone_proves_crio_without_the_crio_program(node):
    node.path("/usr/local/bin/crio").unlink()
    assert run(node, change(text="[crio.runtime.runtimes.other]\n")).outcome == "applied"


def test_failed_crio_start_restores_the_old_configuration(node):
    node.path(f"/run/services/{CRIO}").write_text(f"grep -qs runtimes {CRIO_PATH} && exit 1\n{SERVICE}")
    result = run(node, change())
    assert result.outcome == "rolled-back", result
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


@pytest.mark.long
def test_handler_is_added_and_removed_with_the_profile(worker, tmp_path):
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
