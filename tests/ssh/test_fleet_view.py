"""What a run shows of seven hosts: one screen, hosts that are alike together, diffs on request."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import KUBELET_WAIT
from tests.ssh.machine import machine
from tests.ssh.sandbox import free_port, pyinfra
from tests.ssh.site_runs import PROFILE, data, plain

SCREEN = 48  # lines, with those of pyinfra
WIDTH = 100
SYSCTLS = "/etc/sysctl.d/90-numaforge.conf"
ALIKE = ("gpu-01", "gpu-02", "gpu-03")
Hosts = Mapping[str, Mapping[str, object]]


@pytest.fixture
def seven(start_sandbox: StartSandbox, port: int, tmp_path: Path) -> Hosts:
    """Three hosts that are alike, one with a kubelet, one refused, one away, one that is as planned."""
    alike, done = start_sandbox(machine()), start_sandbox(machine())
    kubelet = start_kubelet(start_sandbox(kubeadm_files(port)), port)
    pyinfra(tmp_path, {"gpu-07": data(done)}, "-y", "deploys/site.py")
    too_much = {**PROFILE, "cpus": {"reserved": {"cores_per_numa_node": 2}}}
    return {
        **{name: data(alike) for name in ALIKE},
        "gpu-04": {**data(kubelet, {**PROFILE, "kubelet": {"cpu_manager_policy": "static"}}), **KUBELET_WAIT},
        "gpu-05": data(alike, too_much),
        "gpu-06": {**data(alike), "ssh_port": free_port()},
        "gpu-07": data(done),
    }


def test_dry_run_of_seven_hosts_fits_one_screen_with_every_outcome(seven, tmp_path):
    report = tmp_path / "report.json"
    run = pyinfra(tmp_path, seven, "--dry", "deploys/site.py", "--data", f"report={report}", columns=WIDTH)
    said = plain(run.stdout)
    assert run.returncode == 1, said
    assert "7 hosts: 1 unchanged, 4 to change, 1 unreachable, 1 refused" in said
    for words in (
        "3 hosts to change: gpu-[01-03]",
        "cpus 0-7 scaling_governor schedutil -> performance",
        "5 files new: /etc/numaforge/plan.json",
        "1 host to change: gpu-04",
        "the kubelet restarts, because this changes: cpuManagerPolicy",
        "1 host refused: gpu-05",
        "all 8 online CPUs (0-7) would be reserved",
        "1 host unreachable: gpu-06",
        "1 host unchanged: gpu-07",
    ):
        assert words in " ".join(said.split())
    lines = said.splitlines()
    assert len(lines) <= SCREEN, said
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= WIDTH, said
    hosts = json.loads(report.read_text())["hosts"]
    assert [each["state"] for each in hosts.values()] == [
        *["to change"] * 4,
        "refused",
        "unreachable",
        "unchanged",
    ]


@cases(
    "asked, heading",
    {
        "all, those that are the same once": (["--diff"], rf"gpu-\[01-03\]: {SYSCTLS}"),
        "one host's": (["--data", "diff=gpu-02"], f"gpu-02: {SYSCTLS}"),
    },
)
def test_diffs_follow_the_summary_by_host_and_file(start_sandbox, tmp_path, asked, heading):
    alike = data(start_sandbox(machine()))
    run = pyinfra(tmp_path, dict.fromkeys(ALIKE, alike), "--dry", *asked, "deploys/site.py")
    screen, _, diffs = plain(run.stdout).partition("\n\ngpu")
    assert "3 hosts to change: gpu-[01-03]" in screen
    assert "+++" not in screen
    assert re.search(rf"{heading}\n--- /dev/null\n\+\+\+ {SYSCTLS} \(planned\)", f"gpu{diffs}"), diffs
    assert diffs.count("+vm.swappiness = 1") == 1


@cases(
    "asked, message",
    {
        "no such host": ("diff=gpu-99", "--data diff: gpu-99 is not a host of this run"),
        "no folder": ("report=/nowhere/r.json", "--data report: there is no folder /nowhere"),
    },
)
def test_invalid_view_option_is_refused_before_contacting_hosts(tmp_path, asked, message):
    run = pyinfra(tmp_path, {"gpu-01": {}}, "--dry", "--data", asked, "deploys/site.py")
    assert run.returncode == 2
    assert message in plain(run.stdout)
    assert "Traceback" not in run.stdout


@pytest.mark.long
def test_run_ends_with_the_outcome_and_duration_of_each_host(seven, tmp_path):
    report = tmp_path / "report.json"
    hosts = {name: seven[name] for name in ("gpu-01", "gpu-04", "gpu-05", "gpu-06", "gpu-07")}
    run = pyinfra(tmp_path, hosts, "-y", "deploys/site.py", "--data", f"report={report}", columns=WIDTH)
    said = plain(run.stdout).partition("--> Results:")[2]
    assert run.returncode == 1
    assert "5 hosts: 1 unchanged, 2 changed, 1 unreachable, 1 refused" in said
    assert re.search(r"1 host changed: gpu-04 \(\d+ s\)", said), said
    assert "the kubelet is healthy with the new configuration" in said
    assert "all 8 online CPUs (0-7) would be reserved" in said
    assert len(said.splitlines()) <= SCREEN, said
    document = json.loads(report.read_text())
    assert (document["dry"], document["hosts"]["gpu-04"]["state"]) == (False, "changed")
    assert document["hosts"]["gpu-04"]["seconds"] > 0


BAD_DATA: Mapping[str, tuple[dict[str, object], str]] = {
    "profile": ({"numaforge_profile": 5}, "host data numaforge_profile: 5 is not accepted"),
    "port": ({"ssh_port": "22"}, "host data ssh_port: '22' is not accepted; write a whole number"),
    "key": ({"ssh_key": "/etc/hostname"}, "the key /etc/hostname is not a private key"),
    "rollout": ({"numaforge_rollout": {"canaries": -1}}, "host data numaforge_rollout: .*canaries"),
}


@pytest.mark.parametrize("mode", ["--dry", "-y"])
def test_host_with_bad_data_fails_alone(start_sandbox, tmp_path, mode):
    good = data(start_sandbox(machine()))
    hosts = {name: {**good, **change} for name, (change, _) in BAD_DATA.items()}
    gone = {**good, "ssh_port": free_port()}
    run = pyinfra(tmp_path, {**hosts, "gone": gone, "good": good}, mode, "deploys/site.py")
    said = plain(run.stdout)
    assert run.returncode == 1
    assert "Traceback" not in said
    for name, (_, message) in BAD_DATA.items():
        assert re.search(rf"1 host (refused|unreachable): {name}\n  {message}", said), f"{name}: {said}"
    assert "1 host unreachable: gone" in said
    assert f"1 host {'to change' if mode == '--dry' else 'changed'}: good" in said


def test_failed_custom_operation_fails_its_host_only(start_sandbox, tmp_path):
    deploy = tmp_path / "deploy.py"
    deploy.write_text(
        "from pyinfra import host\nfrom pyinfra.operations import server\n"
        "from numaforge.run.topology import topology\nfrom numaforge.run.roles import tuning\n"
        "from numaforge.run.roles import hugepages\n"
        "topology()\ntuning()\nhugepages()\n"
        "server.shell(commands='false' if host.name == 'bad' else 'true')\n"
    )
    hosts = {name: data(start_sandbox(machine())) for name in ("bad", "good")}
    run = pyinfra(tmp_path, hosts, "-y", str(deploy))
    said = plain(run.stdout).partition("--> Results:")[2]
    assert run.returncode == 1
    assert re.search(r"1 host failed: bad \(\d+ s\)\n  see the messages above", said), said
    assert re.search(r"1 host changed: good \(\d+ s\)\n", said), said
    assert re.search(r"\n  \d+ values, \d+ files new", said), said
    assert "Grand total" in said
