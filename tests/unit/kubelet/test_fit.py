"""How many pods of a shape fit, what runs out, and what would help."""

from dataclasses import replace

import pytest

from numaforge.kubelet.admission.device_manager import read_inventory
from numaforge.kubelet.admission.fit import Advice, LargestShape, Scenario, fill, fit, largest_shapes
from numaforge.kubelet.admission.pod import Pod
from tests.fixtures.machines import GIB, machine
from tests.fixtures.scenarios import scenario
from tests.fixtures.tables import cases

GPUS = read_inventory({"nvidia.com/gpu": [0, 0, 1, 1]})


def pod(cpu: int, gpus: int = 0, memory: str = "1Gi") -> Pod:
    limits = {"cpu": str(cpu), "memory": memory} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    return Pod.from_manifest({"containers": [{"name": "main", "resources": {"limits": limits}}]}, "p")


@pytest.mark.parametrize(
    ("shape", "pods", "runs_out"),
    [
        pytest.param(pod(2, 1), 4, ("nvidia.com/gpu",), id="GPUs run out"),
        pytest.param(pod(4, 1), 3, ("cpu",), id="CPUs run out"),
        pytest.param(pod(1, memory="12Gi"), 2, ("memory",), id="memory runs out"),
        pytest.param(pod(1, 3), 0, ("nvidia.com/gpu",), id="GPUs that span"),
    ],
)
def test_number_of_pods_is_limited_by_the_first_exhausted_resource(
    shape: Pod, pods: int, runs_out: tuple[str, ...]
) -> None:
    filled = fill(scenario(), shape)
    assert (filled.pods, filled.runs_out) == (pods, runs_out)


def test_leftover_resources_are_counted_per_numa_node() -> None:
    free = fill(scenario(), pod(4, 1)).free
    assert [(len(node.cpus or ()), node.devices["nvidia.com/gpu"]) for node in free.numa_nodes] == [
        (2, 1),
        (0, 0),
    ]
    assert (free.cpu_milli, free.devices) == (2000, {"nvidia.com/gpu": 1})


def test_every_policy_and_scope_is_tried() -> None:
    report = fit(scenario(), pod(1, 3))
    assert [(each.policy, each.scope, each.pods) for each in report.alternatives] == [
        ("none", "container", 1),
        ("best-effort", "container", 1),
        ("best-effort", "pod", 1),
        ("restricted", "container", 0),
        ("restricted", "pod", 0),
        ("single-numa-node", "container", 0),
        ("single-numa-node", "pod", 0),
    ]
    assert report.advice[0] == Advice("topologyManagerPolicy: best-effort, topologyManagerScope: pod", 1)


def test_policy_that_prevents_kubelet_start_is_reported() -> None:
    options = {"cpuManagerPolicyOptions": {"align-by-socket": "true"}, "topologyManagerPolicy": "restricted"}
    errors = {each.policy: each.error for each in fit(scenario(**options), pod(2)).alternatives}
    assert "incompatible" in (errors["single-numa-node"] or "")
    assert errors["restricted"] is None


def test_prefer_closest_without_distances_fits_only_policy_none() -> None:
    options = {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}}
    given = scenario(topologyManagerPolicy="none", **options)
    nodes = tuple(replace(node, distances={}) for node in given.topology.numa_nodes)
    blind = replace(given, topology=replace(given.topology, numa_nodes=nodes))
    errors = {each.policy: each.error for each in fit(blind, pod(2, 1)).alternatives}
    assert errors.pop("none") is None
    assert {*errors.values()} == {"cannot discover NUMA topology: error getting NUMA distances from cadvisor"}


def test_pod_that_hangs_the_kubelet_does_not_fit_and_gets_an_alternative() -> None:
    half_cores = Scenario(
        machine(packages=4, cores_per_numa_node=3, numa_memory_bytes=16 * GIB, siblings="near"),
        {
            "cpuManagerPolicy": "static",
            "cpuManagerPolicyOptions": {"full-pcpus-only": "true", "distribute-cpus-across-numa": "true"},
            "reservedSystemCPUs": "0,6,12,18",
        },
        {},
    )
    report = fit(half_cores, pod(14))
    assert "loops for ever" in (report.configured.error or "")
    assert (report.configured.pods, report.configured.runs_out) == (0, ())
    assert Advice('reservedSystemCPUs: "0-1,6-7,12-13,18-19" (a whole core on each NUMA node)', 1) in (
        report.advice
    )


def test_fewer_cpus_are_offered() -> None:
    assert Advice("2 CPUs instead of 4 for the container main", 4) in fit(scenario(), pod(4, 1)).advice


@cases("nodes, shapes", {"twelve-nodes": (12, 1), "thirteen-nodes": (13, 0)})
def test_shapes_are_tried_on_at_most_twelve_numa_nodes_with_a_notice(nodes: int, shapes: int) -> None:
    many = Scenario(
        machine(packages=nodes, cores_per_numa_node=1, numa_memory_bytes=4 * GIB),
        {"topologyManagerPolicyOptions": {"max-allowable-numa-nodes": str(nodes)}},
        read_inventory({"nvidia.com/gpu": [0]}),
    )
    report = fit(many, pod(1, 1))
    assert report.configured.pods == 1
    assert (f"{nodes} NUMA nodes" in (report.not_tried or "")) is not bool(shapes)
    assert len(largest_shapes(many, "nvidia.com/gpu")) == shapes


def test_another_reservation_is_offered() -> None:
    report = fit(scenario(reservedSystemCPUs="0-1,8-9"), pod(6))
    assert report.configured.pods == 1
    assert Advice('reservedSystemCPUs: "0,4,8,12" (a whole core on each NUMA node)', 2) in report.advice


def test_largest_shape_uses_all_available_resources() -> None:
    spread = scenario(reservedSystemCPUs="0,4,8,12", topologyManagerPolicy="restricted")
    assert [(s.devices, s.pods, s.cpus) for s in largest_shapes(spread, "nvidia.com/gpu")] == [
        (1, 4, 2),
        (2, 2, 6),
        (3, 1, 12),
        (4, 1, 12),
    ]


def test_devices_that_never_fit_have_an_empty_shape() -> None:
    assert largest_shapes(scenario(), "nvidia.com/gpu")[2] == LargestShape(3, 0, 0, 0)


@pytest.mark.parametrize("policy", ["none", "best-effort", "restricted", "single-numa-node"])
def test_nothing_beyond_the_largest_shape_fits(policy: str) -> None:
    node = scenario(topologyManagerPolicy=policy)
    for shape in largest_shapes(node, "nvidia.com/gpu"):
        if shape.pods == 0:
            continue
        memory = str(shape.memory_bytes)
        assert fill(node, pod(shape.cpus, shape.devices, memory)).pods >= shape.pods
        assert fill(node, pod(shape.cpus + 2, shape.devices, memory)).pods < shape.pods


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("shape", [pod(2), pod(4, gpus=1), pod(8, gpus=3, memory="4Gi"), pod(1)])
def test_both_scopes_are_equal_for_a_single_container_pod(policy: str, shape: Pod) -> None:
    by_scope = [
        fill(scenario(topologyManagerPolicy=policy, topologyManagerScope=scope), shape)
        for scope in ("container", "pod")
    ]
    assert replace(by_scope[0], scope="pod") == by_scope[1]
