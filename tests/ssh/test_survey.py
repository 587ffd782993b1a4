"""What a roll-out learns of an inventory over a real sshd, and what a run that it starts refuses to do."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from numaforge import cli
from numaforge.rollout import launch
from numaforge.rollout.fleet import Member
from numaforge.rollout.launch import Survey
from numaforge.rollout.steps import run
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import KUBELET_WAIT, PROFILE
from tests.ssh.machine import machine
from tests.ssh.sandbox import REPOSITORY, Sandbox, free_port, succeed

WITHOUT_DRAIN = {"without_drain": "a new cluster without workloads"}


@pytest.fixture
def node(start_sandbox: StartSandbox, port: int) -> Sandbox:
    """A node of a cluster, its kubelet running."""
    login = ("--kubeconfig=/etc/kubernetes/kubelet.conf", "--hostname-override=n1")
    return start_kubelet(start_sandbox(kubeadm_files(port, *login)), port)


def data(node: Sandbox, rollout: Mapping[str, object] | None = None) -> dict[str, object]:
    pinned = {"numaforge_node": "n1"}  # its address is that of a forwarded port
    return {
        **node.data(),
        **KUBELET_WAIT,
        **pinned,
        "numaforge_profile": PROFILE,
        "numaforge_rollout": dict(rollout or {}),
    }


def program(folder: Path, hosts: Mapping[str, Mapping[str, object]]) -> launch.Pyinfra:
    inventory = folder / "inventory.py"
    inventory.write_text(f"nodes = {[(name, dict(data)) for name, data in hosts.items()]!r}\n")
    deploy = str(REPOSITORY / "deploys/kubelet.py")
    return launch.Pyinfra(str(inventory), deploy, (), {}, folder / "state")


def survey(folder: Path, hosts: Mapping[str, Mapping[str, object]]) -> Survey:
    return run(program(folder, hosts).survey())


@pytest.mark.long
@pytest.mark.parametrize("installed", [False, True], ids=["in the repository", "as an installed copy"])
def test_unreachable_host_is_one_line_and_the_others_are_surveyed(node, tmp_path, monkeypatch, installed):
    monkeypatch.chdir(tmp_path if installed else REPOSITORY)
    gone = {**data(node), "ssh_port": free_port()}
    found = survey(tmp_path, {"a-gone": gone, "good": data(node), "z-gone": gone})
    assert [(each.host, each.node, each.joined, each.restarts) for each in found.needs] == [
        ("good", "n1", True, True)
    ]
    assert {*found.silent} == {"a-gone", "z-gone"}
    assert all(why.startswith("cannot connect") for why in found.silent.values())


def test_host_that_cuts_every_command_counts_as_unreachable(start_sandbox, node, tmp_path):
    cut = start_sandbox(machine())
    cut.log_in_with('kill -9 "$PPID"')
    found = survey(tmp_path, {"cut": data(cut), "good": data(node)})
    assert ([each.host for each in found.needs], {*found.silent}, found.refused) == (["good"], {"cut"}, {})


def test_inventory_settings_are_read_without_contacting_hosts(node, tmp_path):
    hosts = {"good": data(node, {"kubeconfig": "/x"}), "gone": {**data(node), "ssh_port": free_port()}}
    settings = program(tmp_path, hosts).settings()
    assert run(settings) == {"good": {"kubeconfig": "/x"}, "gone": {}}


def test_rollout_plan_shows_answering_hosts_and_names_the_unreachable(
    node, api, tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    api.add_node("n1")
    hosts = {"good": data(node), "gone": {**data(node), "ssh_port": free_port()}}
    inventory = program(tmp_path, hosts).inventory
    deploy = str(REPOSITORY / "deploys/kubelet.py")
    arguments = ["--kubeconfig", str(api.kubeconfig), "--deploy", deploy]
    assert cli.run(["rollout", "plan", *arguments, inventory]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "1 of 1 kubelets have to restart" in shown
    assert "gone did not answer: cannot connect" in shown


@pytest.mark.variants(2)
@pytest.mark.parametrize("verb", ["plan", "run", "resume"])
def test_rollout_refuses_a_joined_node_without_drain_before_any_change(
    node, api, tmp_path, monkeypatch, capfd, verb
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    api.add_node("n1")
    inventory = program(tmp_path, {"good": data(node, WITHOUT_DRAIN)}).inventory
    deploy = str(REPOSITORY / "deploys/kubelet.py")
    arguments = ["--kubeconfig", str(api.kubeconfig), "--deploy", deploy]
    assert cli.run(["rollout", verb, *arguments, inventory]) == 2
    said = capfd.readouterr().err
    assert "good: numaforge_rollout.without_drain: the node n1 is joined" in said
    assert "remove without_drain, or run plain pyinfra, which obeys it" in said
    assert starts(node) == 1
    assert api.leases == {}


def test_rollout_never_restarts_the_kubelet_of_an_undrained_joined_node(node, api, tmp_path):
    launcher = program(tmp_path, {"good": data(node, WITHOUT_DRAIN)})
    begun = launcher.launch(Member("good", "n1"), None)  # type: ignore[arg-type]
    while not begun.program.has_ended():
        time.sleep(0.05)
    assert "a roll-out changes no node that it has not drained" in begun.program.log.read_text()
    assert starts(node) == 1


@pytest.mark.long
def test_uninstall_dry_run_reports_labels_and_cluster_leftovers(node, api, tmp_path):
    labelled = {**PROFILE, "device_plugin": {"config": "small"}}
    by_hand = {**data(node, WITHOUT_DRAIN), "numaforge_profile": labelled}
    succeed(tmp_path, {"good": by_hand}, "-y", "deploys/kubelet.py")
    api.add_node("n1")
    hosts = {"good": data(node, {"kubeconfig": str(api.kubeconfig)})}
    dry = succeed(tmp_path, hosts, "--dry", "deploys/uninstall.py")
    assert "the Node's label nvidia.com/device-plugin.config is put back" in dry.stdout
    assert "drains: pods leave the node first" in dry.stdout
    assert "notice left-in-cluster: the result of the roll-out and what nodes share stay" in dry.stdout


def starts(node: Sandbox) -> int:
    return node.path("/run/systemctl.log").read_text().count("start kubelet.service")
