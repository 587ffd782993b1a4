"""A kubelet that is only asked, and forked to place a pod, against recorded decisions of real kubelets.

The recordings are those of `test_kubelet_admission.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from numaforge.cluster.explain.candidates import KnownKubelet
from numaforge.kubelet.admission.node import Admission, Node
from numaforge.kubelet.admission.pod import Pod
from tests.conformance.recordings import cases, node_topology, recording
from tests.fixtures.admitted import outcome


def answers(
    kubelet: KnownKubelet, operations: list[dict[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], Admission]]:
    """Yield each pod with the kubelet's answer; before, it is asked of all others, which leaves no trace."""
    pods = [Pod.from_manifest(each["pod"], each["name"]) for each in operations if "remove" not in each]
    for operation in operations:
        if "remove" in operation:
            leaving = [each for each in kubelet.running if each.name == operation["remove"]]
            kubelet = kubelet.without(leaving[0]) if leaving else kubelet
            continue
        for other in pods:
            kubelet.answer(other)
        pod = Pod.from_manifest(operation["pod"], operation["name"])
        answer = kubelet.answer(pod)
        yield operation, answer
        kubelet = kubelet.with_pod(pod) if answer.admitted else kubelet


@pytest.mark.parametrize("scenario", cases("kubelet/admission.json", "scenarios", "special_cases"))
def test_explain_matches_the_managers(scenario: dict[str, Any]) -> None:
    document = recording("kubelet/admission.json")
    machine = scenario["machine"]
    devices = (
        document["devices"].get(machine, {}) if isinstance(machine, str) else scenario.get("devices", {})
    )
    topology = node_topology(document["machines"][machine] if isinstance(machine, str) else machine)
    kubelet = KnownKubelet(Node(topology, scenario["config"], devices, predicates=False), ())
    recorded = {result["name"]: result for result in scenario["results"]}
    for operation, answer in answers(kubelet, scenario["ops"]):
        got = outcome(answer, operation["pod"], cpus_key="exclusiveCPUs")
        assert got == recorded[answer.name], operation
