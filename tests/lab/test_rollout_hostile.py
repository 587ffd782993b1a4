"""What would restart a kubelet under live pods, or a kubelet of another machine: nothing of it happens."""

import itertools
import time
from datetime import datetime
from pathlib import Path

import pytest

from lab.cluster import Lab
from lab.kwok import Fleet
from lab.node import Node
from numaforge.rollout.record import lease_name
from tests.lab import rollouts
from tests.lab.rollouts import MARK, QUICK, applied, begin, free, inventory, policy

LATE_SECONDS = 400
STANDSTILL_SECONDS = 180
SILENT_SECONDS = 60
"""A runner that has renewed nothing for so long counts as dead."""
KUBELET = "systemctl show -p MainPID -p NRestarts -p ActiveEnterTimestampMonotonic kubelet"
VOID = 'grep -l \'"outcome": "void"\' /var/lib/numaforge/txn/*/result.json | wc -l'
LEFT_BEHIND = """#!/bin/sh
case $(readlink /proc/$$/cwd) in
/var/lib/numaforge/txn/*)
    mv "$0" "$0.away"
    read -r _ _ _ shell _ < "/proc/$PPID/stat"
    echo "$shell" > /run/left-behind.new && mv /run/left-behind.new /run/left-behind
    until [ -e /run/go ]; do sleep 1; done
    ;;
esac
exec /usr/bin/flock "$@"
"""
"""Stands for the program that has the script that begins a transaction wait its turn, once."""


def killed_with_a_shell_left_behind(lab: Lab, node: Node, file: Path, state: Path) -> None:
    """Begin a roll-out, and kill it when its script is on the node and has not begun the transaction."""
    node.run("cat > /usr/local/bin/flock; chmod +x /usr/local/bin/flock", input_text=LEFT_BEHIND)
    run = begin("run", file, state=state)
    run.await_phase("applying")
    node.run(
        "for _ in $(seq 240); do [ -e /run/left-behind ] && exit; sleep 0.5; done; exit 1", timeout_s=180
    )
    run.kill()


def let_it_go_on(node: Node) -> None:
    """Let the shell that was left behind go on to its end."""
    node.run(": > /run/go; while [ -d /proc/$(cat /run/left-behind) ]; do sleep 0.5; done")


@pytest.mark.long
def test_leftover_begin_of_a_killed_runner_is_ignored_after_a_resume(lab, joined, tmp_path):
    file = inventory(lab, tmp_path, **QUICK)
    killed_with_a_shell_left_behind(lab, joined, file, tmp_path)
    resumed = begin("resume", file, state=tmp_path)
    assert resumed.end() == 0, (resumed.events, resumed.errors())
    kubelet = joined.run(KUBELET)
    let_it_go_on(joined)
    assert joined.run(VOID).strip() == "1"
    assert joined.run(KUBELET) == kubelet
    assert (policy(joined), applied(joined), free(lab, joined)) == ("static", 1, True)


@pytest.mark.long
def test_late_begin_of_a_killed_runner_leaves_a_node_in_service_unchanged(lab, joined, tmp_path):
    killed_with_a_shell_left_behind(lab, joined, inventory(lab, tmp_path, **QUICK), tmp_path)
    rollouts.kubectl(lab, "delete", "lease", lease_name(joined.name), "--namespace=numaforge")
    rollouts.kubectl(lab, "uncordon", joined.name)
    rollouts.kubectl(lab, "create", "-f", "-", manifest=rollouts.deployment("web", 1))
    rollouts.await_deployment(lab, "web")
    kubelet = joined.run(KUBELET)
    time.sleep(LATE_SECONDS)
    let_it_go_on(joined)
    assert joined.run(VOID).strip() == "1"
    assert joined.run(KUBELET) == kubelet
    assert (policy(joined), applied(joined)) == ("none", 0)


@pytest.mark.long
def test_namesake_node_in_another_cluster_is_not_touched(lab, joined, tmp_path):
    kubelet = joined.run(KUBELET)
    with Fleet(tmp_path / "other") as other:
        other.add_node(joined.name)
        before = other.get(f"/api/v1/nodes/{joined.name}")
        file = inventory(lab, tmp_path, **QUICK, kubeconfig=str(other.kubeconfig))
        run = begin("run", file, state=tmp_path)
        assert run.end() == 3, (run.events, run.errors())
        after = other.get(f"/api/v1/nodes/{joined.name}")
    reason = run.report["nodes"][joined.name]["reason"]
    assert "the host is not known to be the machine of this node" in reason
    assert joined.run("cat /etc/machine-id").strip() in reason
    assert after["status"]["nodeInfo"]["machineID"] in reason
    assert after["spec"] == before["spec"]
    assert MARK not in after["metadata"].get("annotations", {})
    assert joined.run(KUBELET) == kubelet
    assert (policy(joined), applied(joined)) == ("none", 0)


@pytest.mark.long
def test_node_paused_during_its_change_keeps_its_slot(lab, joined, tmp_path):
    run = begin("run", inventory(lab, tmp_path, **QUICK), state=tmp_path)
    run.await_phase("applying")
    renewed = [slot_renewed(lab, joined)]
    joined.pause()
    try:
        until = time.monotonic() + STANDSTILL_SECONDS
        while time.monotonic() < until:
            time.sleep(1)
            renewed.append(slot_renewed(lab, joined))
    finally:
        joined.resume()
        joined.set_clock()
    gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(renewed)]
    assert max(gaps) < SILENT_SECONDS / 2
    assert (renewed[-1] - renewed[0]).total_seconds() > STANDSTILL_SECONDS - SILENT_SECONDS / 2
    assert run.end() == 0, (run.events, run.errors())
    assert (policy(joined), applied(joined), free(lab, joined)) == ("static", 1, True)


def slot_renewed(lab: Lab, node: Node) -> datetime:
    """Return when the node's slot was renewed last."""
    [slot] = [
        lease
        for lease in lab.get("leases", "--namespace=numaforge")["items"]
        if lease["metadata"]["name"].startswith("numaforge-slot-")
        and lease["metadata"].get("annotations", {}).get("numaforge.io/node") == node.name
    ]
    return datetime.fromisoformat(slot["spec"]["renewTime"])
