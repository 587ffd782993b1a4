"""Pods that outlive their kubelet: what would disturb them is drained or refused, over a real sshd."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from numaforge.change.look import NodeQuery, look
from numaforge.change.transaction import Transaction
from numaforge.node.part import NodeState
from numaforge.node.pods import Pods
from numaforge.roles.reboot import part as reboot
from tests.fixtures.tables import cases
from tests.ssh.conftest import StartSandbox
from tests.ssh.kubeadm import kubeadm_files, start_kubelet
from tests.ssh.kubelet_runs import PROFILE, with_kubelet
from tests.ssh.machine import pool
from tests.ssh.pods import BIG_POOLS, GROUPS, JOINED, UID, alive, pod, site
from tests.ssh.sandbox import Sandbox
from tests.ssh.standin_systemd import DROP_IN, STATE
from tests.ssh.transactions import run

POOL = pool(0, 2048)
RESTARTS = with_kubelet(cpu_manager_policy="none")


@pytest.fixture(params=[pytest.param((), id="not-joined")])
def node(start_sandbox: StartSandbox, port: int, request: pytest.FixtureRequest) -> Sandbox:
    """A node with a kubelet that runs, of no cluster or as asked for."""
    return start_kubelet(start_sandbox(kubeadm_files(port, *request.param)), port)


HOW = pytest.mark.parametrize("how", ["stopped", pytest.param("failed", marks=pytest.mark.long)])
joined = pytest.mark.parametrize("node", [pytest.param(JOINED, id="joined")], indirect=True)


def found(node: Sandbox, shell: str = "sh -s") -> NodeState:
    asked = NodeQuery((), (), (), (), "", "", ("/var/lib/kubelet",))
    return look(lambda script: node.run(script, shell).stdout.splitlines(), asked)


def stop(node: Sandbox, how: str) -> None:
    """End the kubelet, with what systemd then says of its unit."""
    match how:
        case "stopped":
            node.run("systemctl stop kubelet.service")
        case "failed":
            node.run("pid=$(cat /run/kubelet.pid); kill -KILL $pid; while kill -0 $pid; do sleep 0.05; done")


def state(node: Sandbox) -> dict[str, str | None]:
    """Return what a change of the kubelet and its pools touches."""
    paths = (DROP_IN, STATE, POOL)
    return {path: node.path(path).read_text() if node.path(path).exists() else None for path in paths}


# ---- what is evidence ----


@pytest.mark.variants(4)
@pytest.mark.parametrize("shell", ["dash", "bash --posix -s", "busybox sh"])
@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
def test_process_below_kubepods_belongs_to_a_pod_under_every_cgroup_driver(node, group, shell):
    stop(node, "stopped")
    pid = pod(node, group)
    (said,) = found(node, shell).pods.alive
    assert said == f"process {pid} (sleep) in {group.splitlines()[0].split(':', 2)[2]}"


def test_deleted_cgroup_has_no_pods(node):
    pod(node, f"{GROUPS['systemd-v2']} (deleted)")
    assert found(node).pods.alive == ()


def test_at_most_three_processes_are_named(node):
    for _ in range(5):
        pod(node)
    assert len(found(node).pods.alive) == 3


# ---- a kubelet that is down says nothing of its pods ----


@pytest.mark.long
@HOW
@cases("profile", {"pools": BIG_POOLS, "a-state-file-goes": RESTARTS})
def test_pods_on_a_host_outside_a_cluster_are_not_disturbed(node, tmp_path, how, profile):
    assert site(tmp_path, node, PROFILE)[0] == 0
    stop(node, how)
    pid, before = pod(node), state(node)
    code, said = site(tmp_path, node, profile)
    assert code == 1
    assert "nothing was changed, pods run on a host that is not a known Node of a cluster" in said
    assert f"process {pid} (sleep) in /kubepods.slice/" in said
    assert "numaforge_rollout.without_drain" in said
    assert alive(node, pid)
    assert state(node) == before


def test_dry_run_also_refuses_pods_on_unknown_node(node, tmp_path):
    stop(node, "stopped")
    pod(node)
    code, said = site(tmp_path, node, BIG_POOLS, "--dry")
    assert code == 1
    assert "pods run on a host that is not a known Node" in said


def test_change_that_disturbs_no_pod_applies_beside_pods(node, tmp_path):
    assert site(tmp_path, node, PROFILE)[0] == 0
    pid = pod(node)
    tuned = {**PROFILE, "tuning": {"sysctls": {"vm.swappiness": "10"}}}
    code, said = site(tmp_path, node, tuned)
    assert code == 0, said
    assert node.path("/proc/sys/vm/swappiness").read_text() == "10\n"
    assert alive(node, pid)


def test_reason_without_drain_is_obeyed_and_reported(node, tmp_path):
    stop(node, "stopped")
    pod(node)
    reason = {"numaforge_rollout": {"without_drain": "the pods of a test"}}
    code, said = site(tmp_path, node, BIG_POOLS, **reason)
    assert code == 0, said
    assert "the node is not drained: the pods of a test" in said
    assert node.path(POOL).read_text() == "16\n"


@pytest.mark.long
def test_stopped_kubelet_without_evidence_of_pods_needs_no_drain(node, tmp_path):
    stop(node, "stopped")
    code, said = site(tmp_path, node, BIG_POOLS)
    assert code == 0, said
    assert node.path(POOL).read_text() == "16\n"


@pytest.mark.variants(1)
@joined
@HOW
@pytest.mark.parametrize("evidence", ["a process", "a folder"])
@pytest.mark.parametrize("option", ["-y", pytest.param("--dry", marks=pytest.mark.long)])
def test_node_with_stopped_kubelet_is_refused_before_querying_its_cluster(
    node, tmp_path, how, evidence, option
):
    stop(node, how)
    if evidence == "a process":
        pid = pod(node)
    else:
        node.path(f"/var/lib/kubelet/pods/{UID}").mkdir(parents=True)
    before = state(node)
    away = {"kubeconfig": str(tmp_path / "none")}
    code, said = site(tmp_path, node, BIG_POOLS, option, numaforge_rollout=away)
    assert code == 1
    is_down = "inactive" if how == "stopped" else "failed"
    assert f"nothing was changed, no kubelet runs on it (its unit is {is_down})" in said
    assert "systemctl start kubelet" in said
    assert "a roll-out lacks what it needs" not in said
    assert state(node) == before
    assert evidence == "a folder" or alive(node, pid)


@joined
def test_pods_of_a_node_with_running_kubelet_require_a_drain(node, tmp_path):
    pid, before = pod(node), state(node)
    code, said = site(tmp_path, node, BIG_POOLS, numaforge_rollout={"kubeconfig": str(tmp_path / "none")})
    assert code == 1
    assert "a roll-out lacks what it needs" in said
    assert state(node) == before
    assert alive(node, pid)


# ---- a pod that comes between the look and the change ----


def boots(found: NodeState, **changes: Any) -> Transaction:
    change = Transaction("T1", (reboot.part(),), planned_on=found.fingerprint, pods=found.pods)
    return replace(change, **changes)


def test_pod_started_after_the_look_voids_the_change(node):
    stop(node, "stopped")
    change = boots(found(node))
    pid = pod(node)
    result = run(node, change)
    assert result.outcome == "void"
    assert result.reason.startswith(
        f"nothing was changed: pods have come that must not be disturbed: process {pid} (sleep) in /kubepods"
    )
    assert not node.path("/run/stopping").exists()
    assert alive(node, pid)


def test_unreadable_processes_at_begin_void_the_change(node):
    stop(node, "stopped")
    change = boots(found(node))
    node.path("/usr/local/bin/grep").write_text(
        '#!/bin/sh\ncase $* in *kubepods*) exit 2 ;; esac\nexec /bin/grep "$@"\n'
    )
    node.run("chmod 755 /usr/local/bin/grep")
    result = run(node, change)
    assert result.outcome == "void"
    assert "the processes cannot be read" in result.reason


def test_daemonset_pods_do_not_block_a_drained_node(node):
    pod(node)
    result = run(node, boots(replace(found(node), pods=Pods()), allowed=(UID,), parts=()))
    assert result.outcome == "applied"


# ---- distributions that run the kubelet their own way ----

LAYOUTS = {
    "k3s": (
        "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
        "/etc/systemd/system/k3s-agent.service",
        "k3s-agent",
    ),
    "RKE2": (
        "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
        "/usr/local/lib/systemd/system/rke2-agent.service",
        "rke2",
    ),
    "MicroK8s": (
        "/var/snap/microk8s/current/credentials/kubelet.config",
        "/etc/systemd/system/snap.microk8s.daemon-kubelite.service",
        "kubelite",
    ),
}


@pytest.mark.parametrize(
    "runs", [pytest.param(True, id="runs", marks=pytest.mark.long), pytest.param(False, id="is-down")]
)
@pytest.mark.parametrize("name", LAYOUTS)
def test_distribution_is_refused_by_name_before_any_change(start_sandbox, port, tmp_path, name, runs):
    files = {path: text for path, text in kubeadm_files(port).items() if "kubelet" not in path}
    node = start_sandbox(files)
    node.run("mkdir -p /run/systemd/system")
    login, unit, process = LAYOUTS[name]
    for path in (login, unit):
        node.path(path).parent.mkdir(parents=True, exist_ok=True)
        node.path(path).write_text("[Service]\n")
    if runs:
        pod(node, f"0::/system.slice/{Path(unit).name}", process)
    pid = pod(node)
    code, said = site(tmp_path, node, BIG_POOLS)
    assert code == 1
    assert f"nothing was changed, {name} runs this host's kubelet" in said
    assert "what disturbs pods is not changed here: hugepages" in said
    assert not node.path("/etc/numaforge").exists()
    assert alive(node, pid)
