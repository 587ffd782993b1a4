"""`numaforge doctor`, the same look within a run, and captures of a whole inventory, over a real sshd."""

import json
from typing import Any

import pytest

from numaforge import cli
from tests.ssh.conftest import StartSandbox
from tests.ssh.machine import machine
from tests.ssh.sandbox import Sandbox, free_port, pyinfra
from tests.ssh.site_runs import inventory


@pytest.fixture
def node(start_sandbox: StartSandbox) -> Sandbox:
    return start_sandbox(machine())


def doctor(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[tuple[str, str], Any]]:
    code = cli.run(["doctor", "-o", "json", *map(str, arguments)])
    document = json.loads(capfd.readouterr().out)
    assert document["ready"] == (code == 0)
    return code, {(row["where"], row["check"]): row for row in document["checks"]}


def test_fully_equipped_host_is_ready(node, tmp_path, capfd):
    data = {**node.data("deployer"), "numaforge_profile": "cpu-only"}
    code, rows = doctor(capfd, inventory(tmp_path, {"node": data}))
    assert code == 0, rows
    assert rows["node", "profile"]["found"] == "cpu-only: can be planned"
    assert rows["node", "login"]["found"] == "with sudo"
    assert rows["this machine", "verification suite"]["result"] == "ok"
    assert {rows["node", name]["result"] for name in ("programs", "/etc", "/var/lib/numaforge", "clock")} == {
        "ok"
    }
    assert not node.path("/etc/numaforge").exists()
    assert not node.path("/var/lib/numaforge").exists()


def test_doctor_reports_a_reason_per_unready_host(node, tmp_path, capfd):
    node.run("rm /usr/bin/flock; mount -t tmpfs -o ro tmpfs /etc/sysctl.d")
    unknown = {**node.data(), "ssh_known_hosts_file": "/dev/null"}
    gone = {**node.data(), "ssh_port": free_port()}
    hosts = {"node": node.data(), "unknown": unknown, "gone": gone, "user": node.data("operator")}
    code, rows = doctor(capfd, inventory(tmp_path, hosts))
    assert code == 1
    assert rows["node", "programs"]["found"] == "there is no flock"
    assert rows["node", "programs"]["remedy"] == "install util-linux"
    assert rows["node", "/etc/sysctl.d"]["found"] == "is on a read-only file system"
    assert ("node", "/etc/systemd/system") not in rows
    assert rows["unknown", "login"]["found"].startswith("the host key of [127.0.0.1]:")
    assert "cannot connect" in rows["gone", "login"]["found"]
    assert "sudo" in rows["user", "login"]["found"]


TOO_MUCH = {"name": "much", "cpus": {"reserved": {"cores_per_numa_node": 2}}}
PROFILES = {
    "mistyped": ("trainin", "there is no ready profile 'trainin'; did you mean 'training'?"),
    "too-much": (TOO_MUCH, "all 8 online CPUs (0-7) would be reserved"),
    "missing": (None, "host data numaforge_profile: is not set"),
}


@pytest.mark.long
def test_host_that_does_not_fit_its_profile_is_not_ready(node, tmp_path, capfd):
    hosts = {
        name: {**node.data(), **({"numaforge_profile": profile} if profile else {})}
        for name, (profile, _) in PROFILES.items()
    }
    code, rows = doctor(capfd, inventory(tmp_path, hosts))
    assert code == 1
    for name, (_, message) in PROFILES.items():
        row = rows[name, "profile"]
        assert (row["result"], message in row["found"]) == ("error", True), row
        assert row["remedy"], row


def test_unreachable_hosts_are_exit_code_6(tmp_path, capfd):
    gone = {"ssh_hostname": "127.0.0.1", "ssh_port": free_port()}
    file = inventory(tmp_path, {f"gpu-{number:02}": gone for number in range(1, 4)})
    assert cli.run(["doctor", str(file)]) == 6
    assert "gpu-[01-03]\n  error" in capfd.readouterr().out


@pytest.mark.long
def test_cluster_node_needs_a_cluster_login(node, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    file = inventory(tmp_path, {"node": node.data()})
    _, rows = doctor(capfd, file)
    assert rows["the cluster", "login"]["result"] == "warning"
    node.run("mkdir -p /etc/kubernetes; : > /etc/kubernetes/kubelet.conf")
    code, rows = doctor(capfd, file)
    assert (code, rows["the cluster", "login"]["result"]) == (1, "error")
    assert "KUBECONFIG" in rows["the cluster", "login"]["remedy"]
    assert "numaforge_rollout" in rows["the cluster", "login"]["remedy"]


def test_host_without_a_required_program_is_refused_before_any_write(node, tmp_path):
    node.run("rm /usr/bin/flock")
    data = {**node.data(), "numaforge_profile": "cpu-only"}
    for how in ("--dry", "-y"):
        run = pyinfra(tmp_path, {"node": data}, how, "deploys/tune.py")
        assert run.returncode == 1, run.stdout
        assert "there is no flock; install util-linux" in run.stdout
    assert not node.path("/etc/numaforge").exists()


@pytest.mark.long
def test_whole_inventory_is_captured_and_failures_are_named(node, tmp_path, capfd):
    hosts = {"one": node.data(), "two": node.data(), "gone": {**node.data(), "ssh_port": free_port()}}
    inventory(tmp_path, hosts)
    folder = tmp_path / "fleet"
    assert cli.run(["capture", str(tmp_path), "--to", str(folder)]) == 6
    said = capfd.readouterr().err
    assert "gone: cannot connect" in said
    assert said.rstrip().endswith("2 of 3 hosts captured")
    assert sorted(path.name for path in folder.iterdir()) == ["one.snapshot.json", "two.snapshot.json"]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert cli.run(["topology", "-o", "json", str(folder / "one.snapshot.json")]) == 0
    assert cli.run(["capture", str(tmp_path), "--limit", "one", "--to", str(folder)]) == 0


@pytest.mark.parametrize("profile", [None, "no-such-profile"], ids=["missing", "refused"])
def test_snapshot_is_saved_even_without_a_usable_profile(node, tmp_path, profile):
    data = {**node.data(), **({"numaforge_profile": profile} if profile else {})}
    run = pyinfra(tmp_path, {"node": data}, "-y", "deploys/detect.py", "--data", f"out={tmp_path / 'fleet'}")
    assert run.returncode == 1
    assert [path.name for path in (tmp_path / "fleet").iterdir()] == ["node.snapshot.json"]
