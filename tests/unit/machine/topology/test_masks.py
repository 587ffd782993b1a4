"""CPU sets from the kernel's bitmaps, and what is made of them on strange machines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.errors import TopologyError
from numaforge.machine.snapshot.model import Snapshot
from numaforge.machine.topology.cpus import parse_mask, read_core_ids, read_inventory
from numaforge.machine.topology.read import read_topology
from tests.fixtures.tables import cases
from tests.fixtures.trees import mask

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"


@given(st.frozensets(st.integers(0, 1023)), st.integers(0, 1024))
def test_bitmap_round_trip_keeps_the_cpus(cpus, width):
    assert parse_mask(mask(cpus, max([width, *(cpu + 1 for cpu in cpus)]))) == cpus


@cases(
    "text, cpus",
    {
        "one-short-word": ("ff\n", set(range(8))),
        "the-highest-word-may-be-shorter": ("0000,000000ff,ffffffff", set(range(40))),
        "words-are-32-bits": ("00000001,00000000", {32}),
        "nothing": ("0", set()),
    },
)
def test_bitmap_is_read(text, cpus):
    assert parse_mask(text) == cpus


def topology(files):
    return read_topology(Snapshot(files=files))


def cpus_with(attribute, values, online="0-3"):
    return {f"{CPU}/online": online} | {
        f"{CPU}/cpu{cpu}/topology/{attribute}": text for cpu, text in enumerate(values)
    }


def cores_of(files):
    return [sorted(core.cpus) for core in topology(files).cores]


def test_repeated_core_ids_do_not_merge_cores():
    files = cpus_with("thread_siblings", ["1", "2", "4", "8"]) | cpus_with("core_id", ["0", "0", "1", "1"])
    assert cores_of(files) == [[0], [1], [2], [3]]


@cases("written", {"longer-than-python-reads": "9" * 5000, "digits-of-another-script": "٣", "nothing": ""})
def test_core_ids_that_no_kernel_writes_are_unknown(written):
    files = cpus_with("core_id", ["0", "0", "1", written]) | cpus_with("physical_package_id", ["0"] * 4)
    assert read_core_ids(read_inventory(files)) is None


def test_offline_siblings_are_left_out():
    files = cpus_with("thread_siblings", ["3", "3", "c", "c"], online="0,2-3")
    assert cores_of(files) == [[0], [2, 3]]


def test_package_ids_of_minus_one_are_renumbered():
    files = cpus_with("core_siblings", ["3", "3", "c", "c"]) | cpus_with("physical_package_id", ["-1"] * 4)
    assert [(package.id, sorted(package.cpus)) for package in topology(files).packages] == [
        (0, [0, 1]),
        (1, [2, 3]),
    ]


def test_repeated_package_ids_are_renumbered():
    files = cpus_with("core_siblings", ["3", "3", "c", "c"]) | cpus_with("physical_package_id", ["7"] * 4)
    assert [package.id for package in topology(files).packages] == [0, 1]


def test_cpu_lists_are_read_where_bitmaps_are_missing():
    assert cores_of(cpus_with("core_cpus_list", ["0,2", "1,3", "0,2", "1,3"])) == [[0, 2], [1, 3]]


def test_each_cpus_online_file_counts_where_the_online_list_is_missing():
    files = {f"{CPU}/cpu{cpu}/topology/core_id": "0" for cpu in range(3)} | {
        f"{CPU}/cpu1/online": "0",
        f"{CPU}/cpu2/online": "1",
    }
    read = topology(files)
    assert (sorted(read.online), sorted(read.offline)) == ([0, 2], [1])


def test_cpus_come_from_cpuinfo_without_sysfs():
    stanza = "processor\t: {}\nphysical id\t: {}\ncore id\t: {}\n\n"
    cpuinfo = "".join(stanza.format(cpu, cpu // 4, cpu % 2) for cpu in range(8))
    read = topology({"/proc/cpuinfo": cpuinfo})
    assert [sorted(package.cpus) for package in read.packages] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [sorted(core.cpus) for core in read.cores] == [[0, 2], [1, 3], [4, 6], [5, 7]]


def test_deepest_cache_groups_cpus_and_instruction_caches_do_not_count():
    files = {f"{CPU}/online": "0-1"}
    for cpu in range(2):
        for index, (level, kind, shared) in enumerate(
            (("1", "Data", f"{1 << cpu:x}"), ("2", "Unified", "3"), ("3", "Instruction", "1"))
        ):
            folder = f"{CPU}/cpu{cpu}/cache/index{index}"
            values = {"level": level, "type": kind, "size": "512K", "shared_cpu_map": shared}
            files |= {f"{folder}/{name}": text for name, text in values.items()}
    (cache,) = topology(files).l3_caches
    assert (cache.cpus, cache.level, cache.size_bytes) == ({0, 1}, 2, 512 * 1024)


def test_unreadable_cpu_set_is_refused_by_name():
    with pytest.raises(TopologyError, match=r"thread_siblings: 'zz' is not a set of CPUs"):
        topology(cpus_with("thread_siblings", ["zz"], online="0"))


@cases(
    "row, listed, distances",
    {
        "one-number-per-node-that-is-shown": ("10 20", {}, {0: 10, 4: 20}),
        "a-node-that-went-offline-still-counts": ("10 30 20", {"possible": "0,2,4"}, {0: 10, 4: 20}),
        "a-row-that-fits-nothing-is-unknown": ("10 20 30 40", {}, {}),
    },
)
def test_numa_distances_are_read(row, listed, distances):
    files = {f"{CPU}/online": "0-3", f"{NODE}/node0/cpumap": "f", f"{NODE}/node4/cpumap": "0"}
    files |= {f"{NODE}/node0/distance": row} | {f"{NODE}/{name}": text for name, text in listed.items()}
    assert dict(topology(files).numa_nodes[0].distances) == distances


def test_numa_nodes_without_cpus_and_gaps_in_ids_are_kept():
    files = {f"{CPU}/online": "0-3", f"{NODE}/node0/cpumap": "f", f"{NODE}/node4/cpulist": ""}
    assert [(node.id, sorted(node.cpus)) for node in topology(files).numa_nodes] == [
        (0, [0, 1, 2, 3]),
        (4, []),
    ]
