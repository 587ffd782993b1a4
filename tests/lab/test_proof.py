"""A real node that reboots while it is proved or verified: it is proved anew, and nothing is undone."""

import subprocess
import time
from collections.abc import Callable, Iterator
from threading import Timer

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.change.transaction import Process, process_script, read_process
from numaforge.lib.errors import HostUnreachableError
from numaforge.rollout.gate import Expected, GateSettings, Proof, offered_resources, prove
from numaforge.rollout.kubectl import KubectlCluster
from numaforge.rollout.patience import Patience
from numaforge.rollout.steps import run
from tests.lab import rollouts
from tests.lab.rollouts import QUICK, applied, begin, free, inventory, policy
from tests.lab.transactions import MORTAL, UNIT, boots, put_back, ready

SETTINGS = GateSettings(ready_timeout=300.0, stable_seconds=20.0)
MOMENTS = range(0, 20, 2)
"""Seconds after a proof's first look; it takes more than 20."""


def reboot_in_order(node: Node) -> None:
    """Have systemd reboot the node: it stops the kubelet, and sshd later."""
    node.try_run("systemctl reboot")


def reset(node: Node) -> None:
    """Reset the node as its button does: nothing is stopped, no connection is ended."""
    with node.monitor() as monitor:
        monitor.execute("system_reset")


BOTH_WAYS = [pytest.param(reboot_in_order, id="in-order"), pytest.param(reset, id="reset")]
Reboot = Callable[[Node], object]


@pytest.fixture
def fresh(lab: Lab) -> Node:
    node = put_back(lab)
    ready(lab, node)
    return node


@pytest.fixture
def cluster(lab: Lab) -> Iterator[KubectlCluster]:
    with KubectlCluster(lab.kubeconfig, kubectl=str(lab.control_plane.kubectl())) as cluster:
        yield cluster


def process(node: Node) -> Process:
    """Return the kubelet's process as a roll-out asks for it."""
    login = node.ssh_arguments(*MORTAL)
    script = process_script(UNIT)
    done = subprocess.run([*login, "sh -s"], input=script, capture_output=True, text=True, check=False)
    if done.returncode == 255:
        raise HostUnreachableError(done.stderr.strip())
    return read_process(done.stdout)


def proof_during(cluster: KubectlCluster, node: Node, event: Reboot, moment: float) -> Proof:
    """Prove the node as it is, and let something happen to it so long after the proof's first look at it."""
    expected = Expected(allocatable=offered_resources(cluster.node(node.name)))
    timer = Timer(moment, event, (node,))

    def looked_at() -> Process:
        now = process(node)
        if timer.ident is None:
            timer.start()
        return now

    try:
        return run(
            prove(
                cluster,
                node.name,
                expected,
                SETTINGS,
                process=looked_at,
                own_config=dict,
                clock=time.monotonic,
                check=lambda: cluster.node(node.name),
                tell=lambda _: None,
                patience=Patience(900.0),
                host_patience=Patience(1800.0),
            )
        )
    finally:
        timer.join()


@pytest.mark.long
@pytest.mark.parametrize("reboot", BOTH_WAYS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_node_rebooted_during_its_proof_is_proved_again(fresh, cluster, reboot, moment):
    before = process(fresh)
    proof = proof_during(cluster, fresh, reboot, moment)
    assert proof.wrong == ()
    assert proof.continuity.reboots == boots(fresh) == 1
    now = process(fresh)
    assert now.boot_id != before.boot_id
    assert now == proof.continuity.process


@pytest.mark.long
def test_kubelet_killed_during_its_proof_fails_the_proof(fresh, cluster):
    proof = proof_during(cluster, fresh, lambda node: node.run(f"systemctl kill -s KILL {UNIT}"), 4.0)
    assert "it ended by itself" in str(proof.wrong)


@pytest.mark.long
@pytest.mark.parametrize("phase", ["proves", "verifies"])
@pytest.mark.parametrize("reboot", BOTH_WAYS)
def test_changed_node_that_reboots_is_proved_before_return_to_service(lab, joined, tmp_path, phase, reboot):
    file = inventory(lab, tmp_path, **{**QUICK, "settle_seconds": 10})
    rollout = begin("run", file, state=tmp_path)
    rollout.await_phase(phase)
    reboot(joined)
    assert rollout.end() == 0, (rollout.events, rollout.errors())
    assert boots(joined) == 1
    assert (policy(joined), applied(joined), free(lab, joined)) == ("static", 1, True)
    told = rollouts.phases(tmp_path, joined)
    assert "undoing" not in told
    assert told.index("proves", told.index(phase)) < len(told) - 1 - told[::-1].index("verifies")
