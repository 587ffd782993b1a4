"""Which settings admit most of what a fleet runs, and what is left that no shape can use."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaforge.kubelet.admission.device_manager import read_inventory
from numaforge.kubelet.admission.fit import Scenario, fill
from numaforge.kubelet.admission.pod import Pod
from numaforge.kubelet.admission.shapes import (
    Load,
    NodeKind,
    SettingOutcome,
    Shape,
    ShapesReport,
    best_settings,
)
from numaforge.lib.errors import KubeletConfigError
from numaforge.machine.topology.model import HugepagePool
from tests.fixtures.machines import GIB, machine

GPU = "nvidia.com/gpu"
SMALL = machine(packages=2, cores_per_numa_node=4, numa_memory_bytes=16 * GIB)
STATIC = {
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0,8",
    "topologyManagerPolicy": "single-numa-node",
    "evictionHard": {"memory.available": "0%"},
}


def kind(nodes: int = 1, name: str = "gpu", gpus: tuple[int, ...] = (0, 0, 1, 1), **config: Any) -> NodeKind:
    devices = read_inventory({GPU: list(gpus)} if gpus else {})
    names = tuple(f"{name}-{number}" for number in range(nodes))
    return NodeKind(names, Scenario(SMALL, {**STATIC, **config}, devices))


def shape(name: str, count: int, cpu: object = 1, gpus: int = 0, memory: str = "1Gi") -> Shape:
    limits = {"cpu": str(cpu), "memory": memory} | ({GPU: str(gpus)} if gpus else {})
    manifest = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    return Shape(name, Pod.from_manifest(manifest, name), count)


def of(report: ShapesReport, policy: str) -> SettingOutcome:
    return next(each for each in report.policies if each.policy == policy)


@pytest.mark.parametrize("nodes", [1, 3, 1000])
@pytest.mark.parametrize(
    "one",
    [shape("a", 10_000, 2, 1), shape("b", 10_000, 3), shape("c", 10_000, 1, 0, "9Gi")],
    ids=lambda s: s.name,
)
def test_single_shape_fills_nodes_as_in_fit(one, nodes):
    only = kind(nodes)
    report = best_settings([only], Load((one,)))
    assert report.configured.pods == nodes * fill(only.scenario, one.pod).pods


def test_best_setting_serves_all_pods_and_aligns_most():
    load = Load((shape("near", 4, 3, 2), shape("far", 2, 12, 3)))
    report = best_settings([kind(4)], load)
    assert report.configured.never == ("far",)
    assert (of(report, "best-effort").pods, of(report, "restricted").pods) == (6, 6)
    assert report.best.policy == "restricted"
    assert sum(report.best.aligned.values()) == 6


def test_scheduler_counts_at_least_as_many_pods_as_kubelets_admit():
    report = best_settings([kind(3)], Load((shape("a", 100, 7, 1),)))
    assert report.sums.pods == 6
    assert of(report, "single-numa-node").pods == 3
    assert of(report, "single-numa-node").refused == {"a": 3}


def test_pods_without_devices_fill_nodes_without_devices_first():
    load = Load((shape("cpu", 3, 4), shape("gpu", 4, 1, 2)))
    report = best_settings([kind(2), kind(3, "cpu", gpus=())], load)
    assert {each.names[0]: dict(each.admitted) for each in report.configured.kinds} == {
        "cpu-0": {"cpu": 3},
        "gpu-0": {"gpu": 4},
    }


def test_leftover_is_the_free_capacity_of_a_filled_node():
    report = best_settings([kind(10)], Load((shape("a", 10, 3, 1),)))
    [left] = report.configured.kinds
    assert [(len(node.cpus or ()), node.devices[GPU]) for node in left.free.numa_nodes] == [(0, 0), (2, 0)]
    assert left.free.cpu_milli == 14_000 - 4 * 3_000


def test_memory_manager_reports_free_hugepages_by_numa_node():
    pages = machine(
        packages=2,
        cores_per_numa_node=4,
        numa_memory_bytes=16 * GIB,
        hugepages={"1Gi": HugepagePool(2, 2)},
    )
    managed = {
        "memoryManagerPolicy": "Static",
        "systemReserved": {"memory": "1Gi"},
        "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}],
    }
    one = kind(1, **managed)
    one = one._replace(scenario=replace(one.scenario, topology=pages))
    report = best_settings([one], Load((shape("a", 1, 7),)))
    free = report.configured.kinds[0].free
    assert [dict(node.hugepages) for node in free.numa_nodes] == [{"hugepages-1Gi": 2 * GIB}] * 2


def test_daemon_pods_are_placed_first():
    agent = shape("agent", 1, 4).pod
    one = shape("a", 100, 4)
    assert best_settings([kind(2)], Load((one,))).configured.pods == 6
    assert best_settings([kind(2)], Load((one,), (agent,))).configured.pods == 4


def test_cpu_manager_options_are_tried_with_the_best_policy():
    load = Load((shape("odd", 20, 3),))
    report = best_settings([kind(1, cpuManagerPolicyOptions={"full-pcpus-only": "true"})], load)
    assert report.configured.never == ("odd",)
    without = next(each for each in report.options if each.change == "without full-pcpus-only")
    assert (without.pods, report.best.change) == (4, "without full-pcpus-only")


def test_another_reservation_may_be_best():
    load = Load((shape("half", 2, 7, 2),))
    report = best_settings([kind(1, reservedSystemCPUs="0,8,4,12")], load)
    assert report.configured.never == ("half",)
    assert report.best.change == "the reserved cores on one NUMA node"
    assert report.best.pods == 1


def test_setting_that_prevents_kubelet_start_is_reported():
    options = {"cpuManagerPolicyOptions": {"align-by-socket": "true"}, "topologyManagerPolicy": "restricted"}
    report = best_settings([kind(1, **options)], Load((shape("a", 1),)))
    assert "incompatible" in (of(report, "single-numa-node").error or "")
    with pytest.raises(KubeletConfigError):
        best_settings([kind(1, cpuManagerPolicy="nope")], Load((shape("a", 1),)))


@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    asked=st.lists(
        st.tuples(st.integers(1, 9), st.integers(0, 4), st.integers(1, 12)), min_size=4, max_size=4
    ),
    nodes=st.lists(st.integers(1, 20), min_size=1, max_size=2),
)
@settings(max_examples=10, deadline=None)
def test_no_pod_is_placed_twice_and_no_node_is_overfilled(counts, asked, nodes):
    shapes = tuple(
        shape(f"s{number}", count, cpu, gpus, f"{memory}Gi")
        for number, (count, (cpu, gpus, memory)) in enumerate(zip(counts, asked, strict=False))
    )
    kinds = [kind(count, f"kind{number}") for number, count in enumerate(nodes)]
    report = best_settings(kinds, Load(shapes))
    for outcome in (report.sums, report.configured, *report.policies, *report.options, report.best):
        for each in shapes:
            assert 0 <= outcome.admitted.get(each.name, 0) <= each.count
            assert outcome.aligned.get(each.name, 0) <= outcome.admitted.get(each.name, 0)
        assert outcome.devices <= 4 * sum(nodes)
        assert outcome.devices == sum(
            outcome.admitted.get(each.name, 0) * int(each.pod.containers[0].limits.get(GPU, 0))
            for each in shapes
        )
        used = sum(
            outcome.admitted.get(each.name, 0) * int(each.pod.containers[0].requests["cpu"])
            for each in shapes
        )
        assert used <= 14 * sum(nodes)
        busy = dict.fromkeys(outcome.admitted, 0)
        for each_kind in outcome.kinds:
            assert each_kind.busy <= len(each_kind.names)
            for name, count in each_kind.admitted.items():
                busy[name] += count
        assert busy == dict(outcome.admitted)
    assert report.best.rank >= report.configured.rank
