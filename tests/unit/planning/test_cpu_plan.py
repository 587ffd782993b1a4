"""Which CPUs a profile reserves on machines of known shape, and what is refused."""

from dataclasses import replace

import pytest

from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.machine.topology.model import Gpu, L3Cache, NodeTopology
from tests.fixtures.machines import (
    dgx_h100,
    epyc_nps4,
    gaudi2,
    grace_memory_only,
    lab_node,
    laptop,
    machine,
    mi300x_cpx,
    one_numa_node,
    two_cpu_vm,
    with_cpu_states,
)
from tests.fixtures.plans import notices, planned, refusal


def interleaved_l3() -> NodeTopology:
    """Return one NUMA node whose even and odd cores have an L3 each."""
    caches = tuple(L3Cache(frozenset(range(first, 6, 2)), None) for first in (0, 1))
    return replace(machine(cores_per_numa_node=6, threads=1), l3_caches=caches)


def two_packages_one_numa_node() -> NodeTopology:
    return one_numa_node(machine(packages=2, cores_per_numa_node=2, threads=1))


def with_gpus(count: int) -> NodeTopology:
    gpus = tuple(Gpu(f"0000:0{index}:00.0", "10de", "2330", numa_node=1) for index in range(count))
    return replace(lab_node(), gpus=gpus)


CHOICES = {
    "per-numa-node-lowest-core-first": (lab_node, {"cores_per_numa_node": 1}, "0-1,4-5,8-9,12-13"),
    "per-numa-node-several": (dgx_h100, {"cores_per_numa_node": 2}, "0-1,56-57,112-113,168-169"),
    "per-package-takes-turns-over-its-numa-nodes": (
        epyc_nps4,
        {"cores_per_package": 5},
        "0-1,24,48,72,96-97,120,144,168,192-193,216,240,264,288-289,312,336,360",
    ),
    "per-package-with-one-numa-node-for-both": (two_packages_one_numa_node, {"cores_per_package": 1}, "0,2"),
    "total-takes-turns-over-numa-nodes": (lab_node, {"cores": 3}, "0-1,4-5,8-9"),
    "total-goes-round-again": (lab_node, {"cores": 5}, "0-5,8-9,12-13"),
    "one-l3-group-while-it-lasts": (interleaved_l3, {"cores": 2}, "0,2"),
    "then-the-next-l3-group": (interleaved_l3, {"cores": 4}, "0-2,4"),
    "never-on-memory-only-numa-nodes": (grace_memory_only, {"cores_per_numa_node": 1}, "0"),
    "explicit": (lab_node, {"cpulist": "2-3,10-11"}, "2-3,10-11"),
    "unsaid-on-one-core-is-none": (two_cpu_vm, None, ""),
}


@pytest.mark.parametrize(("build", "reserved", "expected"), CHOICES.values(), ids=CHOICES)
def test_reserved_cpus_follow_the_profile(build, reserved, expected):
    assert format_cpulist(planned(build(), cpus={"reserved": reserved}).cpus.reserved) == expected


def first_node(topology: NodeTopology) -> dict[str, str]:
    return {"cpulist": format_cpulist(topology.numa_nodes[0].cpus)}


REFUSALS = {
    "cpu-that-does-not-exist": (
        lab_node(),
        {"cpulist": "0-1,16"},
        "node1: cpus.reserved.cpulist: '0-1,16' names CPUs that this machine does not have: 16\n",
    ),
    "cpu-that-is-offline": (
        with_cpu_states(lab_node(), offline=frozenset({16, 17})),
        {"cpulist": "0-1,16-17"},
        "names CPUs that are offline: 16-17",
    ),
    "half-a-core-names-the-siblings": (
        dgx_h100(),
        {"cpulist": "0-1"},
        "'0-1' cuts cores in two, without their siblings 112-113\n  reserve whole cores: \"0-1,112-113\"",
    ),
    "every-core-by-list": (lab_node(), {"cpulist": "0-15"}, "all 16 online CPUs (0-15) would be reserved"),
    "every-core-by-count": (lab_node(), {"cores_per_numa_node": 2}, "all 16 online CPUs (0-15) would be"),
    "more-cores-than-the-numa-node-has": (
        lab_node(),
        {"cores_per_numa_node": 3},
        "3 cores would be reserved on NUMA node 0, which has 2\n  set cpus.reserved.cores_per_numa_node: 1",
    ),
    "more-cores-than-the-package-has": (lab_node(), {"cores_per_package": 5}, "on package 0, which has 4"),
    "more-cores-than-the-machine-has": (lab_node(), {"cores": 9}, "on the machine, which has 8"),
    "all-cpus-beside-gpus": (
        with_gpus(2),
        {"cpulist": "4-7"},
        "all CPUs of NUMA node 1 (4-7) would be reserved, but it has 2 GPUs",
    ),
    "all-cpus-beside-accelerators": (
        gaudi2(),
        first_node(gaudi2()),
        "accelerators, whose pods need CPUs there\n  set cpus.reserved.cores: ",
    ),
    "all-cpus-beside-gpus-of-class-12": (
        mi300x_cpx(),
        first_node(mi300x_cpx()),
        "GPUs, whose pods need CPUs there\n  set cpus.reserved.cores: ",
    ),
}


@pytest.mark.parametrize(("topology", "reserved", "message"), REFUSALS.values(), ids=REFUSALS)
def test_impossible_reservations_are_refused(topology, reserved, message):
    assert message in refusal(topology, cpus={"reserved": reserved})


NOTICED = {
    "fewer-cpus-than-gpus": (with_gpus(3), {}, "NUMA node 1 has 3 GPUs and 2 CPUs left for their pods"),
    "uneven-smt": (
        laptop(),
        {},
        "8 cores with 1 and 6 cores with 2 online threads: the kubelet counts 1 per core",
    ),
    "offline-cpus": (
        with_cpu_states(lab_node(), offline=parse_cpulist("16-17")),
        {},
        "CPUs 16-17 are offline",
    ),
    "reserved-isolated": (
        with_cpu_states(lab_node(), isolated=parse_cpulist("1-7")),
        {"reserved": {"cpulist": "0-1,4-5"}},
        "reserved CPUs 1,4-5 are isolated",
    ),
}


@pytest.mark.parametrize("name", NOTICED)
def test_doubtful_choice_of_cpus_is_noticed(name):
    topology, cpus, message = NOTICED[name]
    assert message in notices(planned(topology, cpus=cpus))[name]


def test_usual_choice_of_cpus_is_not_noticed():
    isolated = with_cpu_states(with_gpus(2), isolated=parse_cpulist("2-3,6-7"))
    assert not {*NOTICED} & {*notices(planned(isolated))}
