"""What is measured on a machine, with which programs, and what limits it."""

from dataclasses import replace

import pytest

from numaforge.fleet.measure.tasks import (
    OSNOISE,
    TIMERLAT,
    TOOLS,
    CpuSplit,
    Effort,
    MeasureTask,
    alignment_tasks,
    block_mib,
    gpu_limit,
    nvlink_limit,
    pcie_limit,
    tasks,
)
from numaforge.machine.topology.model import Gpu, NodeTopology, PciLink, RdmaDevice, RdmaPort
from tests.fixtures.machines import MIB, dgx_h100, epyc_nps4, lab_node, two_cpu_vm
from tests.fixtures.tables import cases

EFFORT = Effort(seconds=3, runs=3)
EVERYTHING = frozenset(TOOLS)


def split(machine: NodeTopology, reserved: frozenset[int] = frozenset()) -> CpuSplit:
    return CpuSplit(frozenset(machine.online) - reserved, reserved)


def wanted(machine: NodeTopology, programs: frozenset[str] = EVERYTHING) -> list[MeasureTask]:
    return tasks(machine, split(machine, frozenset({0, 1})), programs, EFFORT)[0]


def kinds(found: list[MeasureTask]) -> list[str]:
    return [each.kind for each in found]


def test_each_numa_node_measures_local_nearest_and_farthest_memory():
    places = [each.place for each in wanted(epyc_nps4()) if each.kind == "memory-bandwidth"]
    assert places[:6] == [
        "NUMA node 0",
        "NUMA node 0 to 1",
        "NUMA node 0 to 7",
        "NUMA node 1",
        "NUMA node 1 to 0",
        "NUMA node 1 to 7",
    ]


def test_task_runs_on_one_thread_of_each_pod_core():
    (first, *_) = wanted(lab_node())
    assert first.words[:3] == ("numactl", "--physcpubind=2", "--membind=0")  # 0 and 1 are reserved


def test_fully_reserved_numa_node_is_not_measured():
    machine = lab_node()
    found, _ = tasks(machine, split(machine, frozenset(range(4))), EVERYTHING, EFFORT)
    assert not [each for each in found if each.place.startswith("NUMA node 0")]


@pytest.mark.parametrize(
    ("machine", "threads", "expected"),
    [
        pytest.param(dgx_h100(), 56, 64, id="64 MiB are enough where many threads go through them"),
        pytest.param(dgx_h100(), 1, 256, id="one thread goes through twice the cache, a power of two"),
        pytest.param(lab_node(), 4, 64, id="on a small node 64 MiB"),
        pytest.param(lab_node(), 100, 4, id="no more than a fourth of the node's memory"),
    ],
)
def test_blocks_exceed_caches_and_leave_memory_free(machine, threads, expected):
    node = machine.numa_nodes[0]
    assert block_mib(machine, node, node, threads) == expected


PROGRAMS = {
    "sysbench comes first": (EVERYTHING, "memory-bandwidth", "sysbench"),
    "then stress-ng": (EVERYTHING - {"sysbench"}, "memory-bandwidth", "stress-ng"),
    "then mlc": (EVERYTHING - {"sysbench", "stress-ng"}, "memory-bandwidth", "mlc"),
    "without numactl mlc alone binds": (EVERYTHING - {"numactl"}, "memory-bandwidth", "mlc"),
    "rtla where the kernel has its tracer": (EVERYTHING, "timer-latency", "rtla"),
    "cyclictest where it has not": (EVERYTHING - {TIMERLAT}, "timer-latency", "cyclictest"),
}


@cases("there, kind, program", PROGRAMS)
def test_best_installed_program_is_used(there, kind, program):
    assert {each.program for each in wanted(lab_node(), there) if each.kind == kind} == {program}


def test_unmeasured_figures_name_programs_and_their_packages():
    machine = lab_node()
    _, missing = tasks(machine, split(machine), frozenset({"numactl", "rtla"}), EFFORT)
    assert {each.kind: each.why for each in missing} == {
        "memory-bandwidth": "there is no sysbench (package sysbench), no stress-ng (package stress-ng), "
        "no mlc (Intel Memory Latency Checker)",
        "memory-random": "there is no sysbench (package sysbench)",
        "memory-latency": "there is no mlc (Intel Memory Latency Checker)",
        "timer-latency": f"there is no {TIMERLAT} (CONFIG_TIMERLAT_TRACER of the kernel, and tracefs), "
        "no cyclictest (package rt-tests)",
        "os-noise": f"there is no {OSNOISE} (CONFIG_OSNOISE_TRACER of the kernel, and tracefs)",
    }


def test_timers_are_measured_with_and_without_load_on_the_reserved_cpus():
    found = [each for each in wanted(lab_node()) if each.kind.startswith("timer-latency")]
    assert [(each.kind, each.load) for each in found] == [
        ("timer-latency", frozenset()),
        ("timer-latency-loaded", frozenset({0, 1})),
    ]
    assert all("2-15" in each.words for each in found)


def test_no_load_runs_without_reserved_cpus():
    machine = two_cpu_vm()
    found, _ = tasks(machine, split(machine), EVERYTHING, EFFORT)
    assert "timer-latency-loaded" not in kinds(found)


def test_gpus_are_measured_by_their_addresses_with_the_limits_of_their_links():
    to_gpu = next(each for each in wanted(dgx_h100()) if each.kind == "to-gpu")
    assert to_gpu.words == (
        "env",
        "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        "nvbandwidth",
        "-t",
        "host_to_device_memcpy_ce",
    )
    assert (to_gpu.places or {})["0"] == "GPU 0000:1b:00.0"
    assert (to_gpu.limits or {})["0"] == pytest.approx(63.015, abs=0.001)


def test_machine_without_gpus_and_ports_measures_neither():
    assert not {"to-gpu", "between-gpus", "all-reduce", "rdma-write"} & {*kinds(wanted(lab_node()))}


def rdma(name: str, *, rate: str | None = "400 Gb/sec (4X NDR)", state: str = "ACTIVE") -> RdmaDevice:
    port = RdmaPort(1, "InfiniBand", state, rate)
    return RdmaDevice(name, "0000:18:00.0", None, "mlx5_core", 0, ports=(port,))


PORTS = {
    "each port sends to the next": ([rdma("a"), rdma("b")], ["a port 1 to b port 1", "b port 1 to a port 1"]),
    "a single port sends to itself": ([rdma("a")], ["a port 1 to a port 1"]),
    "one that is down is left out": ([rdma("a"), rdma("b", state="DOWN")], ["a port 1 to a port 1"]),
    "so is an NVSwitch": ([rdma("a"), replace(rdma("s"), management=True)], ["a port 1 to a port 1"]),
    "and a virtual function": (
        [rdma("a"), replace(rdma("v"), physical_function="0")],
        ["a port 1 to a port 1"],
    ),
}


@cases("devices, places", PORTS)
def test_rdma_ports_send_to_each_other(devices, places):
    machine = replace(lab_node(), rdma_devices=tuple(devices))
    found = [each for each in wanted(machine) if each.kind == "rdma-write"]
    assert [each.place for each in found] == places
    assert all(each.limits == {"": 400.0} for each in found)


def test_port_with_unknown_rate_has_no_limit():
    machine = replace(lab_node(), rdma_devices=(rdma("a", rate=None), rdma("b")))
    assert [each.limits for each in wanted(machine) if each.kind == "rdma-write"] == [None, None]


LINKS = {
    "PCIe 3 x16": (8.0, 16, 15.754),
    "PCIe 4 x16": (16.0, 16, 31.508),
    "PCIe 5 x16": (32.0, 16, 63.015),
    "PCIe 6 x16": (64.0, 16, 121.0),
    "PCIe 2 x8 loses a fifth to its coding": (5.0, 8, 4.0),
    "an unknown speed": (None, 16, None),
    "an unknown width": (32.0, None, None),
    "a speed that nobody knows yet": (256.0, 16, None),
}


@cases("speed, width, limit", LINKS)
def test_pcie_limit_follows_speed_and_width(speed, width, limit):
    assert pcie_limit(speed, width) == (limit if limit is None else pytest.approx(limit, abs=0.001))


def gpu(**more: object) -> Gpu:
    return replace(Gpu(pci_address="0000:1b:00.0", vendor="10de", device="2330", numa_node=0), **more)


NVLINKS = {
    "18 links to a switch": (gpu(architecture="hopper", nvlinks=18, nvlink_peers={"switch": 18}), 450.0),
    "Blackwell's are twice as fast": (
        gpu(architecture="Blackwell", nvlinks=18, nvlink_peers={"switch": 18}),
        900.0,
    ),
    "the peer with the fewest links counts": (
        gpu(architecture="ampere", nvlinks=12, nvlink_peers={"0000:2b:00.0": 8, "0000:3b:00.0": 4}),
        100.0,
    ),
    "no links": (gpu(architecture="hopper", nvlinks=0), None),
    "an architecture that is not known": (gpu(nvlinks=18, nvlink_peers={"switch": 18}), None),
}


@cases("each, limit", NVLINKS)
def test_nvlink_limit_is_that_of_the_weakest_peer(each, limit):
    assert nvlink_limit(each) == limit


def test_degraded_gpu_link_is_judged_by_its_maximum():
    now = PciLink(speed=16.0, width=8, max_speed=32.0, max_width=16)
    assert gpu_limit(gpu(link=now)) == pytest.approx(63.015, abs=0.001)


def test_alignment_compares_near_and_far_memory_on_the_same_cpus():
    found, missing = alignment_tasks(lab_node(), split(lab_node()), EVERYTHING, EFFORT)
    assert [(each.kind, each.place) for each in found] == [
        ("memory-bandwidth", "NUMA node 0"),
        ("memory-bandwidth", "NUMA node 0 to 3"),
        ("memory-random", "NUMA node 0"),
        ("memory-random", "NUMA node 0 to 3"),
    ]
    assert len({each.words[1] for each in found}) == 1
    assert not missing


ALIGNMENT = {
    "without sysbench stress-ng does it": (lab_node(), EVERYTHING - {"sysbench"}, "stress-ng", ""),
    "without either both are named": (
        lab_node(),
        frozenset({"numactl"}),
        "",
        "there is no sysbench (package sysbench), no stress-ng (package stress-ng)",
    ),
    "one NUMA node is always aligned": (
        two_cpu_vm(),
        EVERYTHING,
        "",
        "the machine has no second NUMA node with CPUs and memory",
    ),
}


@cases("machine, there, program, why", ALIGNMENT)
def test_alignment_needs_a_program_and_two_numa_nodes(machine, there, program, why):
    found, missing = alignment_tasks(machine, split(machine), there, EFFORT)
    assert {each.program for each in found} == ({program} if program else set())
    assert [each.why for each in missing] == ([why] if why else [])


def test_no_block_is_larger_than_the_memory_of_its_numa_node():
    tiny = replace(lab_node().numa_nodes[0], memory_bytes=3 * MIB)
    assert block_mib(lab_node(), tiny, tiny, 4) == 1
