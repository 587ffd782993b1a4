"""A roll-out over hosts that are not drained, with real runs of pyinfra over a real sshd."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from numaforge import cli
from numaforge.rollout import launch
from numaforge.rollout.slots import SLOT
from numaforge.rollout.steps import run
from numaforge.run.hosts import overview
from tests.fixtures.api_server import ApiServer
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.machine import machine
from tests.ssh.sandbox import REPOSITORY, Sandbox, pyinfra
from tests.ssh.standin_systemd import BOOT_ID

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")

SWAPPINESS = "/proc/sys/vm/swappiness"
PROFILE: dict[str, Any] = {
    "name": "sandbox",
    "cpus": {"reserved": {"cores_per_numa_node": 1}},
    "memory": {"system_reserved": "1Gi"},
    "tuning": {"sysctls": {"vm.swappiness": "1"}},
}
QUICK = {"ready_timeout": 10, "unreachable_timeout": 20, "max_unavailable": "2"}


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def inventory(folder: Path, hosts: Mapping[str, Sandbox]) -> str:
    file = folder / "inventory.py"
    data = {"numaforge_profile": PROFILE, "numaforge_rollout": QUICK}
    file.write_text(f"nodes = {[(name, {**host.data(), **data}) for name, host in hosts.items()]!r}\n")
    return str(file)


def roll_out(api: ApiServer, file: str, capfd: Any) -> tuple[int, dict[str, Any]]:
    deploy = str(REPOSITORY / "deploys/tune.py")
    arguments = ["--kubeconfig", str(api.kubeconfig), "--deploy", deploy, "-o", "json", file]
    code = cli.run(["rollout", "run", *arguments])
    return code, json.loads(capfd.readouterr().out.splitlines()[-1])


def swappiness(host: Sandbox) -> str:
    return host.path(SWAPPINESS).read_text().strip()


@pytest.mark.long
def test_hosts_outside_a_cluster_are_changed_and_skipped_if_as_planned(start_sandbox, api, tmp_path, capfd):
    hosts = {name: start_sandbox(machine()) for name in ("a", "b")}
    file = inventory(tmp_path, hosts)
    code, report = roll_out(api, file, capfd)
    assert (code, report["counts"]) == (0, {"done": 2}), report
    assert {swappiness(host) for host in hosts.values()} == {"1"}
    code, report = roll_out(api, file, capfd)
    assert (code, report["counts"], report["without_restart"]) == (0, {"unchanged": 2}, ["a", "b"])
    assert not [log.name for log in Path(report["file"]).parent.glob("[ab].log")]


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int, api: ApiServer) -> Sandbox:
    """A node of a cluster whose pods stay: its change is a sysctl alone."""
    login = ("--kubeconfig=/etc/kubernetes/kubelet.conf", "--hostname-override=n1")
    found = start_kubelet(start_sandbox({**machine(), **kubeadm_files(port, *login)}), port)
    api.add_node("n1")
    api.nodes["n1"]["status"]["nodeInfo"] = {"bootID": found.path(BOOT_ID).read_text().strip()}
    return found


def test_in_place_change_keeps_the_node_in_service(node, api, tmp_path, capfd):
    before = json.dumps(api.nodes["n1"])
    code, report = roll_out(api, inventory(tmp_path, {"n1": node}), capfd)
    assert (code, report["nodes"]["n1"]["ending"]) == (0, "done"), report
    assert (swappiness(node), json.dumps(api.nodes["n1"])) == ("1", before)
    assert not [name for name in api.leases if name.startswith(SLOT)]


@pytest.mark.long
def test_node_without_heartbeat_is_undone_then_held(node, api, tmp_path, capfd):
    api.heartbeats = False
    code, report = roll_out(api, inventory(tmp_path, {"n1": node}), capfd)
    assert (code, report["nodes"]["n1"]["ending"]) == (5, "held"), report
    assert swappiness(node) == "60"


def test_survey_reports_changes_outside_the_maintenance(start_sandbox, tmp_path):
    host = start_sandbox(machine())
    data = {"a": {**host.data(), "numaforge_profile": PROFILE}}
    assert pyinfra(tmp_path, data, "-y", "deploys/tune.py").returncode == 0
    file = inventory(tmp_path, {"a": host})

    def needs(deploy: str) -> launch.HostNeeds:
        program = launch.Pyinfra(file, str(REPOSITORY / deploy), (), {}, tmp_path / deploy.replace("/", "-"))
        (found,) = run(program.survey()).needs
        return found

    assert not needs("deploys/tune.py").changes
    assert any(line.endswith(overview.FORGET) for line in needs("deploys/uninstall.py").does)
