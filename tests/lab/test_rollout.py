"""A live node is taken out of service, changed, proved and put back, whatever happens on the way."""

import json
import time

import pytest

from lab.cluster import Lab
from lab.node import Node
from tests.lab import rollouts
from tests.lab.rollouts import HEALTHY, QUICK, WITHOUT_POLICY, applied, begin, free, inventory, phases, policy


def events(lab: Lab, node: Node) -> set[str]:
    selector = f"--field-selector=involvedObject.kind=Node,involvedObject.name={node.name}"
    return {event["reason"] for event in lab.get("events", selector)["items"]}


@pytest.mark.long
def test_node_with_pods_is_drained_and_changed(lab, joined, tmp_path):
    rollouts.kubectl(lab, "create", "-f", "-", manifest=rollouts.deployment("web", 2))
    rollouts.kubectl(lab, "create", "-f", "-", manifest=rollouts.budget("web", 1))
    rollouts.await_deployment(lab, "web")
    rollouts.await_budget(lab, "web", 1)
    pods = {pod["metadata"]["uid"] for pod in lab.get("pods")["items"]}

    # Nowhere else to go: the first pod waits, and the budget holds the second back.
    impatient = inventory(lab, tmp_path, **{**QUICK, "drain_timeout": 15})
    there = begin("run", impatient, state=tmp_path)
    assert there.end() == 3, (there.events, there.errors())
    assert "default/web allows 0 disruptions" in json.dumps(there.report)
    assert free(lab, joined)
    assert policy(joined) == "none"

    rollouts.kubectl(lab, "delete", "poddisruptionbudget", "web")
    there = begin("run", inventory(lab, tmp_path, **QUICK), state=tmp_path)
    assert there.end() == 0, (there.events, there.errors())
    assert free(lab, joined)
    assert policy(joined) == "static"
    rollouts.await_deployment(lab, "web")
    assert not pods & {pod["metadata"]["uid"] for pod in lab.get("pods")["items"]}
    assert {"Cordoned", "DrainBlocked", "NodeChanged", "Uncordoned"} <= events(lab, joined)


@pytest.mark.long
def test_another_profile_reverts_the_node(lab, joined, tmp_path):
    there = begin("run", inventory(lab, tmp_path, **QUICK), state=tmp_path)
    assert there.end() == 0, (there.events, there.errors())
    assert policy(joined) == "static"
    back = begin("run", inventory(lab, tmp_path, profile=WITHOUT_POLICY, **QUICK), state=tmp_path)
    assert back.end() == 0, (back.events, back.errors())
    assert policy(joined) == "none"
    assert free(lab, joined)


@pytest.mark.parametrize(
    "phase",
    [
        pytest.param("drains", id="while-it-drains", marks=pytest.mark.long),
        pytest.param("applying", id="while-the-node-changes", marks=pytest.mark.long),
        pytest.param("proves", id="while-the-node-proves-itself", marks=pytest.mark.long),
    ],
)
def test_killed_rollout_is_resumed(lab, joined, tmp_path, phase):
    if phase == "drains":
        slow = rollouts.deployment("slow", 1, terminationGracePeriodSeconds=8)
        slow["spec"]["template"]["spec"]["containers"][0] |= {
            "image": "lab.example/busybox:1",
            "command": ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"],
        }
        rollouts.kubectl(lab, "create", "-f", "-", manifest=slow)
        rollouts.await_deployment(lab, "slow")
    file = inventory(lab, tmp_path, **QUICK)
    killed = begin("run", file, state=tmp_path)
    killed.await_phase(phase)
    killed.kill()
    resumed = begin("resume", file, state=tmp_path)
    assert resumed.end() == 0, (resumed.events, resumed.errors())
    assert (policy(joined), applied(joined), free(lab, joined)) == ("static", 1, True)


@pytest.mark.long
def test_unreachable_api_server_undoes_nothing(lab, joined, tmp_path):
    run = begin("run", inventory(lab, tmp_path, **QUICK), state=tmp_path)
    run.await_phase("applying")
    lab.control_plane.stop()
    time.sleep(20)
    lab.control_plane.start()
    assert run.end() == 0, (run.events, run.errors())
    assert (policy(joined), applied(joined), free(lab, joined)) == ("static", 1, True)


@pytest.mark.long
def test_cut_connection_undoes_nothing(lab, joined, tmp_path):
    run = begin("run", inventory(lab, tmp_path, **QUICK), state=tmp_path)
    run.await_phase("applying")
    joined.run(
        "systemd-run --quiet --on-active=20 systemctl start ssh;"
        "systemd-run --quiet sh -c 'systemctl stop ssh; pkill -x sshd'"
    )
    assert run.end() == 0, (run.events, run.errors())
    assert "the host does not answer" in json.dumps(run.events)
    assert (policy(joined), applied(joined), free(lab, joined)) == ("static", 1, True)


@pytest.mark.long
def test_node_that_offers_fewer_gpus_is_rolled_back(lab, joined, tmp_path):
    plugin = joined.run("systemctl list-units --plain --no-legend '*plugin*' | cut -d' ' -f1").strip()
    run = begin("run", inventory(lab, tmp_path, **{**QUICK, "ready_timeout": 60}), state=tmp_path)
    run.await_phase("applied", "proves")
    joined.run(f"systemctl stop {plugin}; systemctl restart kubelet")
    run.await_phase("undoing")
    joined.run(f"systemctl start {plugin}")
    assert run.end() == 4, (run.events, run.errors())
    assert (policy(joined), applied(joined), free(lab, joined)) == ("none", 0, True)


@pytest.mark.long
def test_node_with_failed_undo_is_held_until_repaired(lab, joined, tmp_path):
    file = inventory(lab, tmp_path, start_seconds=10, **QUICK)
    run = begin("run", file, state=tmp_path)
    run.await_phase("applying")
    joined.run("mv /usr/bin/kubelet /usr/bin/kubelet.away")
    assert run.end() == 5, (run.events, run.errors())
    assert "the old configuration is back, but" in json.dumps(run.report)
    assert "By hand: journalctl -u kubelet.service" in json.dumps(run.report)
    assert lab.get("node", joined.name)["spec"]["unschedulable"]
    joined.run(f"mv /usr/bin/kubelet.away /usr/bin/kubelet; systemctl restart kubelet; {HEALTHY}")
    mended = begin("resume", file, state=tmp_path)
    assert mended.end() == 4, (mended.events, mended.errors())
    assert (policy(joined), applied(joined), free(lab, joined)) == ("none", 0, True)


@pytest.mark.long
def test_abort_rolls_the_node_back(lab, joined, tmp_path):
    file = inventory(lab, tmp_path, **{**QUICK, "settle_seconds": 30})
    run = begin("run", file, state=tmp_path)
    run.await_phase("proves")
    aborted = begin("abort", file, state=tmp_path)
    assert (aborted.end(), run.end()) == (0, 3), (aborted.errors(), run.events)
    assert (policy(joined), applied(joined), free(lab, joined)) == ("none", 0, True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("verb", "ends"), [("resume", ("static", 1)), ("abort", ("none", 0))], ids=["resume", "abort"]
)
def test_uncordoned_held_node_is_drained_again(lab, joined, tmp_path, verb, ends):
    file = inventory(lab, tmp_path, **{**QUICK, "settle_seconds": 30})
    run = begin("run", file, state=tmp_path)
    run.await_phase("proves")
    rollouts.kubectl(lab, "uncordon", joined.name)
    assert run.end() == 5, (run.events, run.errors())
    assert "resume or abort, which first cordons and drains it again" in json.dumps(run.report)
    rollouts.kubectl(lab, "create", "-f", "-", manifest=rollouts.deployment("web", 1))
    rollouts.await_deployment(lab, "web")
    [came] = lab.get("pods", "--selector=app=web")["items"]
    again = begin(verb, file, state=tmp_path)
    assert again.end() == 0, (again.events, again.errors())
    reached = phases(tmp_path, joined)
    assert reached.index("drains") < reached.index("undoing" if verb == "abort" else "proves")
    assert came["metadata"]["uid"] not in [
        pod["metadata"]["uid"] for pod in lab.get("pods", "--selector=app=web")["items"]
    ]
    assert ((policy(joined), applied(joined)), free(lab, joined)) == (ends, True)


@pytest.mark.long
def test_second_runner_is_refused_and_the_leader_named(lab, joined, tmp_path):
    file = inventory(lab, tmp_path, **QUICK)
    first = begin("run", file, state=tmp_path)
    first.await_phase("applying")
    second = begin("run", file, state=tmp_path)
    assert second.end() == 2
    assert "leads this roll-out" in second.errors()
    assert first.end() == 0, (first.events, first.errors())
