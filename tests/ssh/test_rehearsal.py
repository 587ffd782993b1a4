"""`numaforge rehearse` over a real sshd: a host where it cannot be done says why; others are in tests/lab."""

import json
from pathlib import Path

import pytest

from numaforge import cli
from numaforge.lib.errors import ExitCode
from tests.fixtures.machines import KUBEADM_CONFIG
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.site_runs import inventory

PROFILE = {
    "name": "t",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "kubelet": {"version": "1.36.3", "cpu_manager_policy": "static"},
}


def test_host_without_a_kubelet_has_verdict_unknown(
    start_sandbox: StartSandbox, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    host = start_sandbox({**machine(), "/var/lib/kubelet/config.yaml": KUBEADM_CONFIG})
    file = inventory(tmp_path, {"gpu-1": {**host.data(), "numaforge_profile": PROFILE}})
    code = cli.run(["rehearse", "-q", "-o", "json", str(file)])
    report = json.loads(capfd.readouterr().out)
    assert (code, report["failed"]) == (ExitCode.BLOCKED, {})
    assert report["hosts"]["gpu-1"]["verdict"] == "unknown"
    assert report["hosts"]["gpu-1"]["words"]
