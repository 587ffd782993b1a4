"""The simulator against recorded allocations of the kubelet's code and decisions of a live kubelet.

The recordings are the files `kubelet/*.json` and `kubelet-real/admission.json` below the folder that
NUMAFORGE_VECTORS names (default: ../shared/vectors beside the repository).
"""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from numaforge.kubelet.admission.assignment import AssignmentError, take_distributed, take_packed
from numaforge.kubelet.admission.machine import CpuPlace, CpuTopology, MachineInfo
from numaforge.kubelet.admission.masks import ids_of, mask_of
from numaforge.kubelet.admission.node import Admission, Node
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.machine.topology.model import NodeTopology
from tests.conformance.recordings import cases, recording
from tests.fixtures.admitted import outcome
from tests.oracle.machines import topology


def replay(node: Node, operations: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Admission]]:
    for operation in operations:
        if "remove" not in operation:
            yield operation, node.admit(operation["pod"], operation["name"])
        elif operation["remove"] in node.pods:  # a refused pod was never kept
            node.remove(operation["remove"])


@cache
def recorded_topologies() -> dict[str, CpuTopology]:
    document = recording("kubelet/cpu_assignment.json")
    topologies = {
        name: CpuTopology(
            places={
                c["cpu"]: CpuPlace(c["core"], c["socket"], c["numa"], c["uncore"]) for c in recorded["cpus"]
            },
            num_cpus=recorded["numCPUs"],
            num_cores=recorded["numCores"],
            num_sockets=recorded["numSockets"],
            num_numa_nodes=recorded["numNUMANodes"],
            num_uncores=recorded["numUncoreCache"],
        )
        for name, recorded in document["topologies"].items()
    }
    for name, machine in document["oracle_machines"].items():
        topologies[name] = MachineInfo.from_topology(topology(machine, 2)).cpus
    return topologies


@pytest.mark.parametrize("case", cases("kubelet/cpu_assignment.json", "cases", "random_cases"))
def test_cpus_are_allocated_as_by_the_kubelet(case: dict[str, Any]) -> None:
    topologies = recorded_topologies()
    topology = topologies[case.get("topology") or case["machine"]]
    options = case["options"]
    spread = options["cpuSortingStrategy"] == "spread"
    offered = mask_of(parse_cpulist(case["available"]))
    taken, error = 0, ""
    try:
        if case["function"] == "takeByTopologyNUMADistributed":
            taken = take_distributed(
                topology, offered, case["n"], group=options["cpuGroupSize"], spread=spread
            )
        else:
            align = options.get("preferAlignByUncoreCache", False)
            taken = take_packed(topology, offered, case["n"], spread=spread, align_uncore=align)
    except AssignmentError as refused:
        error = refused.message
    assert (format_cpulist(ids_of(taken)), error) == (case["expected_cpuset"], case["expected_error"])


@pytest.mark.parametrize("scenario", cases("kubelet-real/admission.json", "scenarios"))
def test_admission_matches_the_live_kubelet(scenario: dict[str, Any], captured_machine: NodeTopology) -> None:
    document = recording("kubelet-real/admission.json")
    recorded = {result["name"]: result for result in scenario["results"]}
    pods = [operation for operation in scenario["ops"] if "pod" in operation]
    unserved = [operation["name"] for operation in pods if ran_without_its_devices(operation, recorded)]
    node = Node(captured_machine, scenario["config"], {} if unserved else document["devices"])
    for operation, admission in replay(node, scenario["ops"]):
        got = outcome(admission, operation["pod"])
        if admission.admitted:
            got["qos"] = admission.qos
        else:
            got["message"] = admission.status_message
        assert got == recorded[admission.name], operation
        if unserved and admission.name == unserved[-1]:
            node.register(document["devices"])


def ran_without_its_devices(operation: Mapping[str, Any], recorded: Mapping[str, Any]) -> bool:
    """Say whether the kubelet admitted a pod without the devices that it asks for.

    That happens only while the device plugin has not registered yet, right after the kubelet's start.
    """
    result = recorded[operation["name"]]
    asks = [
        c
        for c in operation["pod"]["containers"]
        if "nvidia.com/gpu" in c.get("resources", {}).get("limits", {})
    ]
    return result["admit"] and any("devices" not in result["containers"][c["name"]] for c in asks)
