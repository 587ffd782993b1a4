"""Random pods: what is explained over a cluster's documents is what the simulated kubelet decides."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from numaforge.cluster.explain.candidates import Candidate, GivenMachine, KnownKubelet, candidates
from numaforge.cluster.explain.cluster import read_cluster
from numaforge.cluster.explain.explanation import explain
from numaforge.cluster.explain.workload import workloads_of
from numaforge.kubelet.admission.device_manager import read_inventory
from numaforge.kubelet.admission.fit import Scenario
from numaforge.kubelet.admission.masks import ids_of
from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.pod import Pod
from numaforge.lib.cpulist import format_cpulist
from tests.fixtures.machines import lab_node
from tests.fixtures.memory_state import memory_state
from tests.lab.admission_sequences import GPU, SCENARIOS, sequence
from tests.lab.admission_sequences import Scenario as Settings

NODE = "node1"
PODS = 20
SEEDS = range(3)
MACHINE = lab_node()
DEVICES = read_inventory({GPU: [0, 1, 2, 3]})


def document(operation: dict[str, Any], number: int, **spec: Any) -> dict[str, Any]:
    name = operation["metadata"]["name"]
    status = {"phase": "Running", "startTime": f"{number:04}"} if spec else {"phase": "Pending"}
    metadata = {"name": name, "uid": f"uid-{name}"}
    return {"kind": "Pod", "metadata": metadata, "spec": {**operation["spec"], **spec}, "status": status}


def node_with(
    pods: list[dict[str, Any]], scenario: Scenario, allocatable: dict[str, str]
) -> tuple[Candidate, ...]:
    there = {"kind": "Node", "metadata": {"name": NODE}, "status": {"allocatable": allocatable}}
    cluster = read_cluster([there, *pods])
    return candidates([GivenMachine(NODE, scenario)], cluster.nodes)


def offered(node: Node) -> dict[str, str]:
    """Return the node's Allocatable, as its kubelet tells the API server."""
    of = node.allocatable
    scalars = {name: str(amount) for name, amount in of.scalars.items()}
    return {"cpu": f"{of.cpu_milli}m", "memory": str(of.memory_bytes), "pods": str(of.pods), **scalars}


@pytest.mark.variants(len(SCENARIOS))
@pytest.mark.parametrize("settings", SCENARIOS, ids=[each.name for each in SCENARIOS])
@pytest.mark.parametrize("seed", SEEDS)
def test_verdict_equals_admission_after_running_pods_in_order(seed: int, settings: Settings) -> None:
    scenario = Scenario(MACHINE, settings.config(seed), DEVICES)
    random = Random(f"explain/{seed}/{settings.name}")  # noqa: S311
    there: dict[str, dict[str, Any]] = {}
    for number, operation in enumerate(sequence(random, scenario.node(), PODS)):
        if "remove" in operation:
            there.pop(operation["remove"], None)
            continue
        kubelet = scenario.node()
        # One that the anew admitted leave no room for stays, and holds nothing: the answer rests on a doubt.
        admitted = [kubelet.admit(each).admitted for each in there.values()]
        running = [document(each, at, nodeName=NODE) for at, each in enumerate(there.values())]
        [workload] = workloads_of([document(operation, number)], "pods.yaml").workloads
        [candidate] = node_with(running, scenario, offered(kubelet))
        [verdict] = explain(workload, [candidate])[0].verdicts
        decided = kubelet.admit(operation)
        if all(admitted):
            said = verdict.judgement.kubelet
            assert replace(said, name="", opinions={}) == replace(decided, name="", opinions={})
            # The scheduler counts what the kubelet's own predicates count.
            short = {f"OutOf{reason.removeprefix('Insufficient ')}" for reason in verdict.judgement.reasons}
            assert not short if decided.admitted else "OutOf" not in decided.reason or decided.reason in short
        else:
            assert "would be refused" in verdict.doubts[0]
        if decided.admitted:
            there[operation["metadata"]["name"]] = operation


def state_files(node: Node) -> dict[str, str]:
    """Return the state files as a kubelet in this state has them, pods that have just left among them."""
    devices = [
        {"PodUID": pod, "ContainerName": container, "ResourceName": resource, "DeviceIDs": {"0": list(ids)}}
        for pod, containers in node.device_manager.assignments.items()
        for container in containers
        for resource, ids in node.device_manager.devices_of(pod).get(container, {}).items()
    ]
    files = {"kubelet_internal_checkpoint": json.dumps({"Data": {"PodDeviceEntries": devices}})}
    if node.cpu_manager:
        entries = {
            pod: {name: format_cpulist(ids_of(mask)) for name, mask in held.items()}
            for pod, held in node.cpu_manager.assignments.items()
        }
        default = format_cpulist(ids_of(node.cpu_manager.default))
        state = {"policyName": "static", "defaultCpuSet": default, "entries": entries, "checksum": 0}
        files["cpu_manager_state"] = json.dumps(state)
    if node.memory_manager:
        files["memory_manager_state"] = memory_state(node.memory_manager)
    return files


@pytest.mark.variants(4)
@pytest.mark.parametrize("settings", SCENARIOS, ids=[each.name for each in SCENARIOS])
@pytest.mark.parametrize("seed", SEEDS[:1])
def test_state_files_account_for_leftovers_of_removed_pods(seed: int, settings: Settings) -> None:
    scenario = Scenario(MACHINE, settings.config(seed), DEVICES)
    random = Random(f"explain/state/{seed}/{settings.name}")  # noqa: S311
    kubelet = scenario.node()
    there: dict[str, dict[str, Any]] = {}
    asked = 0
    for number, operation in enumerate(sequence(random, scenario.node(), PODS)):
        if "remove" in operation:
            if there.pop(operation["remove"], None):
                kubelet.remove(f"uid-{operation['remove']}")
            continue
        told = replace(scenario, state=state_files(kubelet))
        [candidate] = node_with([*there.values()], told, offered(kubelet))
        [workload] = workloads_of([document(operation, number)], "pods.yaml").workloads
        [verdict] = explain(workload, [candidate])[0].verdicts
        name = operation["metadata"]["name"]
        decided = kubelet.admit(operation, f"uid-{name}")
        if decided.admitted:
            there[name] = document(operation, number, nodeName=NODE)
        if verdict.doubts:
            assert "default cpuset cannot be empty" in verdict.doubts[0]
            continue
        said = verdict.judgement.kubelet
        assert (said.admitted, said.reason, said.message) == (
            decided.admitted,
            decided.reason,
            decided.message,
        )
        assert (said.cpus, said.memory, said.devices) == (decided.cpus, decided.memory, decided.devices)
        asked += 1
    assert asked > PODS / 2


@pytest.mark.parametrize("settings", SCENARIOS, ids=[each.name for each in SCENARIOS])
def test_query_leaves_the_kubelet_state_unchanged(settings: Settings) -> None:
    scenario = Scenario(MACHINE, settings.config(0), DEVICES)
    kubelet = KnownKubelet(scenario.node(), ())
    for operation in sequence(Random(f"explain/asked/{settings.name}"), scenario.node(), PODS):  # noqa: S311
        if "remove" in operation:
            leaving = [each for each in kubelet.running if each.name == operation["remove"]]
            kubelet = kubelet.without(leaving[0]) if leaving else kubelet
            continue
        pod = Pod.from_manifest(operation)
        before = state_files(kubelet.node)
        admitted = kubelet.answer(pod).admitted
        after = kubelet.with_pod(pod)
        assert state_files(kubelet.node) == before
        assert len(after.running) == len(kubelet.running) + admitted
        kubelet = after
