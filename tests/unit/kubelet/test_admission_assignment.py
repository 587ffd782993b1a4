"""Which CPUs a request gets, where the kubelet's ways surprise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.kubelet.admission.assignment import take_distributed, take_packed
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


@cases(
    "available, count, expected",
    {
        "a whole core before two half ones": ("0-15", 2, "0,8"),
        "a whole NUMA node": ("0-15", 8, "0-3,8-11"),
        "the NUMA node that is whole": ("1-15", 8, "4-7,12-15"),
        "the fuller NUMA node first, its whole cores before the half one": ("1-15", 2, "1,9"),
        "the half core for a single CPU": ("1-15", 1, "8"),
        "nothing for nothing": ("0-15", 0, ""),
    },
)
def test_packed_takes_the_largest_whole_units(available, count, expected):
    assert format_cpulist(ids_of(take_packed(SMALL, cpus(available), count))) == expected


def test_distributed_gives_every_numa_node_the_same_share():
    taken = take_distributed(SMALL, SMALL.cpus, 10)
    assert [(taken & node).bit_count() for node in SMALL.numa_nodes.values()] == [5, 5]


FOUR_NODES = MachineInfo.from_topology(
    machine(packages=2, numa_nodes_per_package=2, cores_per_numa_node=4)
).cpus


@cases(
    "reserved, count, group, before, since",
    {
        "as many on both NUMA nodes of a socket": (
            "4-5,20-21",
            12,
            1,
            "0-2,8-10,16-18,24-26",
            "8-10,12-14,24-26,28-30",
        ),
        "whole cores, one more from one node": ("8,24", 14, 2, "0-2,12-18,28-31", "0-6,16-22"),
        "a socket that has just enough": ("1-3,17-19,8", 14, 1, "4-7,12-15,20-22,28-30", "9-15,24-30"),
        "one NUMA node is enough": ("0,16", 4, 1, "4-5,20-21", "4-5,20-21"),
    },
)
def test_align_by_socket_distributes_within_a_socket_from_1_37(reserved, count, group, before, since):
    offered = FOUR_NODES.cpus & ~cpus(reserved)
    for minor, expected in ((36, before), (37, since)):
        taken = take_distributed(FOUR_NODES, offered, count, group=group, by_socket=True, minor=minor)
        assert format_cpulist(ids_of(taken)) == expected


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
