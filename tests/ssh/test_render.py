"""`numaforge render --diff` over a real sshd: what a run has written is no difference, a change is one."""

import json

import pytest

from numaforge import cli
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, succeed

SYSCTL = "/etc/sysctl.d/90-numaforge.conf"


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    return start_sandbox(machine())


def test_host_files_are_compared_with_its_plan(node, tmp_path, capfd):
    login = [f"--data={key}={value}" for key, value in node.data().items() if key != "ssh_hostname"]
    asked = ["render", "127.0.0.1", *login, "--profile", "cpu-only", "--diff", "-o", "json"]

    def compared() -> tuple[int, list[str]]:
        code = cli.run(asked)
        out, err = capfd.readouterr()
        assert code < 2, err
        return code, [one["path"] for one in json.loads(out)["differences"]]

    code, before = compared()
    assert code == 1
    assert {SYSCTL, "/etc/numaforge/plan.json"} <= {*before}
    succeed(tmp_path, {"node": {**node.data(), "numaforge_profile": "cpu-only"}}, "-y", "deploys/site.py")
    assert compared() == (0, [])
    node.run(f"echo vm.swappiness=60 >> {SYSCTL}")
    assert compared() == (1, [SYSCTL])
