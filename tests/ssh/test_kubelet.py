"""The kubelet's role over a real sshd, with stand-ins for systemd and kubelet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fixtures.machines import KUBEADM_CONFIG
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, free_port, pyinfra
from tests.ssh.standin_systemd import DROP_IN, STATE, standin_systemd

CONFIG = "/var/lib/kubelet/config.yaml"
UNIT = "/usr/lib/systemd/system/kubelet.service"
PROFILE: dict[str, Any] = {
    "name": "sandbox",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "1Gi"},
    "kubelet": {"cpu_manager_policy": "static"},
}


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node as kubeadm leaves it, its kubelet running."""
    config = KUBEADM_CONFIG.replace("healthzPort: 10248", f"healthzPort: {port}")
    sandbox = start_sandbox(
        {
            **machine(),
            **standin_systemd(port),
            CONFIG: config,
            UNIT: "[Service]\nExecStart=/usr/local/bin/kubelet --config=/var/lib/kubelet/config.yaml\n",
        }
    )
    sandbox.run("mkdir -p /run/systemd/system")
    sandbox.run(
        f"systemctl start kubelet.service; until curl -fs http://127.0.0.1:{port}/; do sleep 0.05; done"
    )
    return sandbox


def data(node: Sandbox, **changes: object) -> dict[str, dict[str, object]]:
    waits = {"kubelet_start_seconds": 4, "kubelet_stable_seconds": 1}
    return {"node": {**node.data(), **waits, "numaforge_profile": PROFILE, **changes}}


def with_kubelet(**kubelet: object) -> dict[str, Any]:
    return {**PROFILE, "kubelet": {**PROFILE["kubelet"], **kubelet}}


def starts(node: Sandbox) -> int:
    return node.path("/run/systemctl.log").read_text().count("start kubelet.service")


def plain(output: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", output)


def test_a_first_run_writes_the_drop_in_and_starts_the_kubelet_twice(node: Sandbox, tmp_path: Path) -> None:
    run = pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert run.returncode == 0, run.stdout
    assert yaml.safe_load(node.path(DROP_IN).read_text())["reservedSystemCPUs"] == "0,2,4,6"
    assert "the kubelet is healthy with the new configuration" in plain(run.stdout)
    assert starts(node) == 3  # the sandbox's own, and the change's two


def test_the_unit_gets_the_flag_that_reads_the_drop_in(node: Sandbox, tmp_path: Path) -> None:
    pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    text = node.path("/etc/systemd/system/kubelet.service.d/90-numaforge.conf").read_text()
    assert "ExecStart=/usr/local/bin/kubelet --config=/var/lib/kubelet/config.yaml --config-dir=" in text


def test_a_second_run_restarts_nothing(node: Sandbox, tmp_path: Path) -> None:
    pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    again = pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert again.returncode == 0, again.stdout
    assert plain(again.stdout).count("No changes") == plain(again.stdout).count("Starting operation")
    assert starts(node) == 3  # the sandbox's own, and the change's two


def test_files_that_change_without_a_setting_restart_nothing(node: Sandbox, tmp_path: Path) -> None:
    pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    node.path(DROP_IN).write_text(node.path(DROP_IN).read_text() + "# a remark\n")
    run = pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert run.returncode == 0, run.stdout
    assert "the kubelet's effective settings stay the same: it is not restarted" in plain(run.stdout)
    assert "a remark" not in node.path(DROP_IN).read_text()
    assert starts(node) == 3  # the sandbox's own, and the change's two


def test_state_that_is_removed_is_named_with_its_reason(node: Sandbox, tmp_path: Path) -> None:
    run = pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert f'{STATE} is removed: cpuManagerPolicy changes from "none" to "static"' in plain(run.stdout)


def test_dry_says_that_the_kubelet_restarts_and_touches_nothing(node: Sandbox, tmp_path: Path) -> None:
    run = pyinfra(tmp_path, data(node), "--dry", "deploys/kubelet.py")
    output = plain(run.stdout)
    assert run.returncode == 0, output
    assert output.count(f"+++ {DROP_IN} (planned)") == 1
    assert "the kubelet restarts, because this changes: " in output
    assert not node.path(DROP_IN).exists()
    assert starts(node) == 1


def test_a_kubelet_that_does_not_come_up_fails_the_run_and_is_as_it_was(
    node: Sandbox, tmp_path: Path
) -> None:
    # The stand-in ends at once when it sees the word, which the profile's name puts into the file's header.
    run = pyinfra(
        tmp_path, data(node, numaforge_profile={**PROFILE, "name": "crash"}), "-y", "deploys/kubelet.py"
    )
    output = plain(run.stdout)
    assert run.returncode == 1
    assert (
        "the kubelet ended by itself; the old configuration is back and the kubelet is healthy with it"
        in output
    )
    assert "Traceback" not in output
    assert not node.path(DROP_IN).exists()


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        pytest.param("maxPods: -1\n", "would not start with this configuration", id="refused-by-the-kubelet"),
        pytest.param(
            "cpuManagerPolicy: none\n", "config.yaml says cpuManagerPolicy: none", id="contradiction"
        ),
        pytest.param("kind: [\n", "not valid YAML", id="not-yaml"),
    ],
)
@pytest.mark.parametrize("mode", ["-y", "--dry"])
def test_a_configuration_that_cannot_work_is_refused_before_anything_is_written(
    node: Sandbox, tmp_path: Path, broken: str, message: str, mode: str
) -> None:
    node.path(CONFIG).write_text(node.path(CONFIG).read_text() + broken)
    run = pyinfra(tmp_path, data(node), mode, "deploys/site.py")
    output = plain(run.stdout)
    assert run.returncode == 1
    assert message in output
    assert "Traceback" not in output
    assert not node.path("/etc/numaforge").exists()
    assert starts(node) == 1


def test_a_policy_that_this_kubelet_does_not_know_is_refused(node: Sandbox, tmp_path: Path) -> None:
    profile = with_kubelet(cpu_manager_options={"no-such-option": "true"})
    run = pyinfra(tmp_path, data(node, numaforge_profile=profile), "-y", "deploys/site.py")
    assert run.returncode == 1
    assert "no-such-option" in plain(run.stdout)
    assert not node.path("/etc/numaforge").exists()


def test_a_kubelet_that_does_not_run_is_configured_and_not_started(node: Sandbox, tmp_path: Path) -> None:
    node.run("systemctl stop kubelet.service")
    run = pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert run.returncode == 0, run.stdout
    assert "the kubelet is inactive, not running: configured, and not started" in plain(run.stdout)
    assert node.path(DROP_IN).exists()
    assert starts(node) == 1


def test_a_change_that_lost_its_unit_is_undone_before_a_new_one(node: Sandbox, tmp_path: Path) -> None:
    node.run(
        "mkdir -p /var/lib/numaforge/txn/T0 && ln -s T0 /var/lib/numaforge/txn/current && "
        "echo 'rm -f /var/lib/numaforge/txn/current; : > /run/recovered' > /var/lib/numaforge/txn/T0/run.sh"
    )
    run = pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert run.returncode == 0, run.stdout
    assert "the transaction T0 of an earlier run has not ended" in plain(run.stdout)
    assert node.path("/run/recovered").exists()


def test_a_host_without_a_kubelet_is_skipped_with_a_word(start_sandbox: StartSandbox, tmp_path: Path) -> None:
    node = start_sandbox(machine())
    run = pyinfra(tmp_path, data(node), "-y", "deploys/kubelet.py")
    assert run.returncode == 0, run.stdout
    assert "nothing to configure" in plain(run.stdout)
