"""Which CPUs a request gets, where the kubelet's ways surprise."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numaforge.kubelet.admission.assignment import AssignmentError, take_distributed, take_packed
from numaforge.kubelet.admission.machine import CpuPlace, CpuTopology, MachineInfo
from numaforge.kubelet.admission.masks import ids_of, mask_of
from numaforge.kubelet.admission.refusal import KubeletHangError
from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from tests.fixtures.machines import dgx_h100, epyc_nps4, machine
from tests.fixtures.tables import cases

SMALL = MachineInfo.from_topology(machine(packages=2, cores_per_numa_node=4)).cpus
UNCORE = MachineInfo.from_topology(machine(packages=1, cores_per_numa_node=8, cores_per_l3=4)).cpus
EIGHT_NODES = MachineInfo.from_topology(epyc_nps4()).cpus
DGX = MachineInfo.from_topology(dgx_h100()).cpus


def cpus(text: str) -> int:
    return mask_of(parse_cpulist(text))


@pytest.mark.parametrize(
    ("available", "count", "expected"),
    [
        pytest.param("0-15", 2, "0,8", id="a whole core before two half ones"),
        pytest.param("0-15", 8, "0-3,8-11", id="a whole NUMA node"),
        pytest.param("1-15", 8, "4-7,12-15", id="the NUMA node that is whole"),
        pytest.param("1-15", 2, "1,9", id="the fuller NUMA node first, its whole cores before the half one"),
        pytest.param("1-15", 1, "8", id="the half core for a single CPU"),
        pytest.param("0-15", 0, "", id="nothing for nothing"),
    ],
)
def test_packed_takes_the_largest_whole_units(available, count, expected):
    assert format_cpulist(ids_of(take_packed(SMALL, cpus(available), count))) == expected


def test_shortage_is_reported_in_the_words_of_the_kubelet():
    with pytest.raises(AssignmentError) as refused:
        take_packed(SMALL, cpus("0-3"), 5)
    assert refused.value.message == "not enough cpus available to satisfy request: requested=5, available=4"


def test_spread_takes_cpus_in_order_without_regard_to_cores():
    assert format_cpulist(ids_of(take_packed(SMALL, SMALL.cpus, 3, spread=True))) == "0-2"


@pytest.mark.parametrize(
    ("available", "count", "expected"),
    [
        pytest.param("0-15", 8, "0-3,8-11", id="a whole cache"),
        pytest.param("1-15", 8, "4-7,12-15", id="the cache that is whole"),
        pytest.param("0-15", 3, "0-1,8", id="an odd number leaves the last thread"),
        pytest.param("0,4-7,8,12-15", 4, "4-5,12-13", id="the cache that holds all of it"),
    ],
)
def test_uncore_option_keeps_a_request_below_one_cache(available, count, expected):
    assert format_cpulist(ids_of(take_packed(UNCORE, cpus(available), count, align_uncore=True))) == expected


def test_distributed_gives_every_numa_node_the_same_share():
    taken = take_distributed(SMALL, SMALL.cpus, 10)
    assert [(taken & node).bit_count() for node in SMALL.numa_nodes.values()] == [5, 5]


def test_half_reserved_core_looks_free_with_uneven_threads():
    """kubernetes/kubernetes#124066: CPU 0 is not on offer, and is handed out with its core."""
    places = {cpu: place for cpu, place in SMALL.places.items() if cpu != 15}
    uneven = CpuTopology.of(places)
    assert uneven.cpus_per_core == 1
    assert format_cpulist(ids_of(take_packed(uneven, uneven.cpus & ~1, 2))) == "0,8"


FOUR_NODES = MachineInfo.from_topology(
    machine(packages=2, numa_nodes_per_package=2, cores_per_numa_node=4)
).cpus


@cases(
    "reserved, count, group, expected",
    {
        "the socket of which both NUMA nodes have as many": (
            "4-5,20-21",
            12,
            1,
            {36: "0-2,8-10,16-18,24-26", 37: "8-10,12-14,24-26,28-30"},
        ),
        "whole cores, one more from one node": ("8,24", 14, 2, {36: "0-2,12-18,28-31", 37: "0-6,16-22"}),
        "a socket that has just enough": (
            "1-3,17-19,8",
            14,
            1,
            {36: "4-7,12-15,20-22,28-30", 37: "9-15,24-30"},
        ),
        "one NUMA node is enough": ("0,16", 4, 1, {36: "4-5,20-21", 37: "4-5,20-21"}),
    },
)
def test_align_by_socket_distributes_within_a_socket_from_1_37(reserved, count, group, expected):
    offered = FOUR_NODES.cpus & ~cpus(reserved)
    taken = {
        minor: take_distributed(FOUR_NODES, offered, count, group=group, by_socket=True, minor=minor)
        for minor in expected
    }
    assert {minor: format_cpulist(ids_of(mask)) for minor, mask in taken.items()} == expected


HALF_RESERVED_CORES = "1-5,7-11,13-17,19-23"  # of four NUMA nodes with six CPUs each


def six_cpus_on_each_of_four_numa_nodes() -> CpuTopology:
    return CpuTopology.of({cpu: CpuPlace(cpu // 2 * 2, cpu // 12, cpu // 6, cpu // 12) for cpu in range(24)})


@pytest.mark.parametrize(("count", "expected"), [(12, "2-5,8-11,14-17"), (16, "2-5,8-11,14-17,20-23")])
def test_distributed_in_whole_cores_skips_half_reserved_cores(count, expected):
    taken = take_distributed(six_cpus_on_each_of_four_numa_nodes(), cpus(HALF_RESERVED_CORES), count, group=2)
    assert format_cpulist(ids_of(taken)) == expected


def test_endless_kubelet_allocation_is_an_error():
    """Two NUMA nodes with three CPUs left cannot give six in pairs; kubelet 1.36.3 loops here for ever."""
    with pytest.raises(KubeletHangError, match="loops for ever"):
        take_distributed(six_cpus_on_each_of_four_numa_nodes(), cpus(HALF_RESERVED_CORES), 14, group=2)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), topology=st.sampled_from([SMALL, UNCORE, EIGHT_NODES, DGX]))
def test_assigned_cpus_were_available_and_match_the_requested_count(data, topology):
    available = mask_of(data.draw(st.sets(st.sampled_from(sorted(ids_of(topology.cpus))), min_size=1)))
    count = data.draw(st.integers(1, available.bit_count()))
    for taken in (
        take_packed(topology, available, count),
        take_packed(topology, available, count, spread=True),
        take_packed(topology, available, count, align_uncore=True),
        take_distributed(topology, available, count),
    ):
        assert taken & ~available == 0
        assert taken.bit_count() == count
