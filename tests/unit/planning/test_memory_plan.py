"""Reservations, the kubelet's percentages, and the split over NUMA nodes."""

from dataclasses import replace
from functools import partial

import pytest

from numaforge.machine.topology.model import HugepagePool, NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.roles.memory.plan import Room, eviction_bytes, split_reservation
from tests.fixtures.machines import kubeadm_kubelet, lab_node, machine
from tests.fixtures.plans import after, decided, notices, planned, refusal

MIB = 2**20
GIB = 2**30
WITHOUT_UNIT = "reservation-without-unit"


def plan(topology: NodeTopology, profile: dict) -> NodePlan:
    return planned(topology, **profile)


def shares(chosen: NodePlan) -> dict[int, int]:
    return {node.id: node.reserved_memory_bytes for node in chosen.memory.numa_nodes}


# What kubelet 1.36 computes (pkg/kubelet/eviction/helpers.go), float32 rounding included.
THRESHOLDS = {
    "quantity": ("100Mi", 32 * GIB, 100 * MIB),
    "5%-of-32Gi-is-not-a-twentieth": ("5%", 32 * GIB, 1717986944),
    "10%-of-32Gi": ("10%", 32 * GIB, 3435973888),
    "25%-is-exact": ("25%", 32 * GIB, 8 * GIB),
    "0%-means-none": ("0%", 32 * GIB, 0),
    "100%-means-none": ("100%", 32 * GIB, 0),
    "absent-means-none": (None, 32 * GIB, 0),
}


@pytest.mark.parametrize(("threshold", "capacity", "expected"), THRESHOLDS.values(), ids=THRESHOLDS.keys())
def test_eviction_threshold_is_converted_to_bytes(threshold, capacity, expected):
    assert eviction_bytes(threshold, capacity) == expected


SPLITS = {
    "proportional-to-memory": ("proportional", 300 * MIB, (2 * GIB, GIB), (200 * MIB, 100 * MIB)),
    "even-despite-memory": ("even", 300 * MIB, (2 * GIB, GIB), (150 * MIB, 150 * MIB)),
    "spare-mib-to-the-largest-remainder": ("proportional", 10 * MIB, (4 * GIB, 3 * GIB), (6 * MIB, 4 * MIB)),
    "spare-mib-to-the-lowest-on-a-tie": ("even", 5 * MIB, (GIB, GIB), (3 * MIB, 2 * MIB)),
    "bytes-on-the-lowest": ("even", 4 * MIB + 7, (GIB, GIB), (2 * MIB + 7, 2 * MIB)),
    "what-one-node-cannot-hold-moves": ("even", 40 * MIB, (10 * MIB, GIB), (10 * MIB, 30 * MIB)),
    "bytes-where-they-fit": ("even", 4 * MIB + 7, (2 * MIB, GIB), (2 * MIB, 2 * MIB + 7)),
    "the-last-byte": ("even", 5 * MIB, (2 * MIB + 5, 3 * MIB - 5), (2 * MIB + 5, 3 * MIB - 5)),
    "nothing": ("even", 0, (GIB, GIB), (0, 0)),
}


@pytest.mark.parametrize(("mode", "total", "memory", "expected"), SPLITS.values(), ids=SPLITS.keys())
def test_reservation_is_split_over_numa_nodes(mode, total, memory, expected):
    rooms = [Room(node, size, size) for node, size in enumerate(memory)]
    assert split_reservation(total, rooms, mode) == dict(enumerate(expected))


def test_profile_without_thresholds_keeps_kubelet_defaults():
    chosen = plan(lab_node(), {})
    assert chosen.memory.eviction_hard_bytes == 100 * MIB
    assert chosen.kubelet.settings["evictionHard"] == {
        "imagefs.available": "15%",
        "imagefs.inodesFree": "5%",
        "memory.available": "100Mi",
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
    }


def test_profile_threshold_keeps_the_other_defaults():
    chosen = plan(lab_node(), {"memory": {"eviction_hard": {"nodefs.available": "7%"}}})
    assert chosen.kubelet.settings["evictionHard"]["nodefs.available"] == "7%"
    assert chosen.kubelet.settings["evictionHard"]["memory.available"] == "100Mi"


def test_percentage_is_written_as_an_amount():
    topology = replace(lab_node(), memory_bytes=8 * GIB)
    chosen = plan(topology, {"memory": {"eviction_hard": {"memory.available": "5%"}}})
    amount = str(chosen.memory.eviction_hard_bytes)
    assert chosen.kubelet.settings["evictionHard"]["memory.available"] == amount
    assert "5% of memory, written as an amount" in decided(chosen, "memory.eviction_hard")[1]


def test_huge_pages_move_the_reservation_to_other_numa_nodes():
    wish = {
        "memory": {"system_reserved": "2Gi", "split": "even"},
        "hugepages": [{"size": "2Mi", "count": 950, "numa_node": 0}],
    }
    chosen = plan(lab_node(), wish)
    assert shares(chosen)[0] == (2043 - 1900) * MIB
    assert sum(shares(chosen).values()) == 2148 * MIB
    assert [notice.id for notice in chosen.notices] == ["reservation-moved"]


def test_huge_pages_and_reservations_beyond_memory_are_refused_with_sum():
    pages = [{"size": "2Mi", "count_per_numa_node": 900}]
    message = refusal(lab_node(), memory={"system_reserved": "2Gi"}, hugepages=pages)
    assert "2148Mi of memory would be reserved, but only 887Mi are left" in message
    assert "NUMA node 0: 2043Mi of memory - 900 x 2Mi wanted = 243Mi" in message
    assert "take 1262Mi from memory.system_reserved, memory.eviction_hard.memory.available, huge" in message


def test_static_memory_policy_without_reservation_is_refused():
    memory = {"kube_reserved": 0, "eviction_hard": {"memory.available": "0%"}}
    message = refusal(lab_node(), memory=memory, kubelet={"memory_manager_policy": "Static"})
    assert "the Static memory manager needs reserved memory, and none is reserved" in message


def test_allocatable_matches_the_kubelet():
    pools = {"2Mi": HugepagePool(100, 100), "1Gi": HugepagePool(0, 0)}
    topology = machine(packages=2, cores_per_numa_node=4, kubelet=kubeadm_kubelet())
    nodes = tuple(replace(node, hugepages=dict(pools)) for node in topology.numa_nodes)
    topology = replace(topology, memory_bytes=127 * GIB, numa_nodes=nodes)
    memory = {"kube_reserved": "1Gi", "system_reserved": "1Gi"}
    chosen = planned(topology, memory=memory, hugepages=[{"size": "1Gi", "count": 4}])
    assert chosen.allocatable.cpu_millis == 14000
    assert chosen.allocatable.hugepages_bytes == {"1Gi": 4 * GIB, "2Mi": 400 * MIB}
    assert chosen.allocatable.memory_bytes == 127 * GIB - 2 * GIB - 100 * MIB - 4 * GIB - 400 * MIB


BUILT = partial(machine, packages=2, cores_per_numa_node=4, kubelet=kubeadm_kubelet())


@pytest.mark.parametrize("each", [64 * GIB, 2 * GIB], ids=["large", "small"])
def test_small_memory_shift_at_reboot_changes_no_setting(each):
    wish = {"memory": {"system_reserved": "1Gi", "eviction_hard": {"memory.available": "5%"}}}
    first = plan(BUILT(numa_memory_bytes=(each, each)), wish)
    moved = BUILT(numa_memory_bytes=(each - 43 * MIB, each + 17 * MIB))
    assert plan(after(moved, first), wish).kubelet.settings == first.kubelet.settings


def test_more_memory_changes_the_split():
    wish = {"memory": {"system_reserved": "1Gi"}}
    larger = BUILT(numa_memory_bytes=(64 * GIB, 128 * GIB))
    assert plan(after(larger, plan(BUILT(), wish)), wish) == plan(larger, wish)


@pytest.mark.parametrize("key", ["kube_reserved", "system_reserved"])
def test_amount_without_unit_is_noticed(key):
    said = notices(planned(lab_node(), memory={key: 2048}))
    assert f"memory.{key}: 2048 bytes are less" in said[WITHOUT_UNIT]
    for amount in ("2Gi", 0):
        assert WITHOUT_UNIT not in notices(planned(lab_node(), memory={key: amount}))


def test_unknown_memory_leaves_the_rest_of_the_plan_intact():
    chosen = plan(replace(lab_node(), memory_bytes=None), {})
    assert chosen.cpus.reserved == {0, 1}
    assert chosen.allocatable is None
    assert [notice.id for notice in chosen.notices] == ["memory-unknown"]
    assert not {"evictionHard", "reservedMemory", "kubeReserved"} & set(chosen.kubelet.settings)
