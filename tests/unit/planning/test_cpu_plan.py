"""Which CPUs a profile reserves on machines of known shape, and what is refused."""

from dataclasses import replace

import pytest

from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import Gpu, L3Cache, NodeTopology
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from tests.fixtures.machines import (
    dgx_h100,
    epyc_nps4,
    gaudi2,
    grace_memory_only,
    lab_node,
    laptop,
    machine,
    mi300x_cpx,
    two_cpu_vm,
)


def plan(topology: NodeTopology, **reserved) -> NodePlan:
    return plan_node(topology, load_profile({"cpus": {"reserved": reserved}} if reserved else {}))


def refusal(topology: NodeTopology, **reserved) -> str:
    with pytest.raises(PlanError) as caught:
        plan(topology, **reserved)
    return str(caught.value)


def interleaved_l3() -> NodeTopology:
    """Return one NUMA node whose even and odd cores have an L3 each."""
    topology = machine(cores_per_numa_node=6, threads=1)
    return replace(
        topology, l3_caches=(L3Cache(frozenset({0, 2, 4}), None), L3Cache(frozenset({1, 3, 5}), None))
    )


def two_packages_one_numa_node() -> NodeTopology:
    """Return a machine with node interleaving: both packages' cores are on NUMA node 0."""
    topology = machine(packages=2, cores_per_numa_node=2, threads=1)
    node = replace(topology.numa_nodes[0], cpus=topology.online, distances={0: 10})
    return replace(
        topology, numa_nodes=(node,), cores=tuple(replace(core, numa_node=0) for core in topology.cores)
    )


CHOICES = {
    "per-numa-node-lowest-core-first": (lab_node, {"cores_per_numa_node": 1}, "0-1,4-5,8-9,12-13"),
    "per-numa-node-with-far-siblings": (dgx_h100, {"cores_per_numa_node": 1}, "0,56,112,168"),
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
    "unsaid-is-a-core-for-32-cpus": (lab_node, {}, "0-1"),
    "unsaid-on-one-core-is-none": (two_cpu_vm, {}, ""),
}


@pytest.mark.parametrize(("build", "reserved", "expected"), CHOICES.values(), ids=CHOICES.keys())
def test_reserved_cpus_follow_the_profile(build, reserved, expected):
    assert format_cpulist(plan(build(), **reserved).cpus.reserved) == expected


REFUSALS = {
    "cpu-that-does-not-exist": (
        lab_node,
        {"cpulist": "0-1,16"},
        "node1: cpus.reserved.cpulist: '0-1,16' names CPUs that this machine does not have: 16\n",
    ),
    "half-a-core-names-the-siblings": (
        dgx_h100,
        {"cpulist": "0-1"},
        "'0-1' cuts cores in two, without their siblings 112-113\n  reserve whole cores: \"0-1,112-113\"",
    ),
    "every-core-by-list": (lab_node, {"cpulist": "0-15"}, "all 16 online CPUs (0-15) would be reserved"),
    "every-core-by-count": (
        lab_node,
        {"cores_per_numa_node": 2},
        "all 16 online CPUs (0-15) would be reserved",
    ),
    "more-cores-than-the-numa-node-has": (
        lab_node,
        {"cores_per_numa_node": 3},
        "3 cores would be reserved on NUMA node 0, which has 2\n  set cpus.reserved.cores_per_numa_node: 1",
    ),
    "more-cores-than-the-package-has": (lab_node, {"cores_per_package": 5}, "on package 0, which has 4"),
    "more-cores-than-the-machine-has": (lab_node, {"cores": 9}, "on the machine, which has 8"),
    "one-core-of-each-package-where-that-is-all": (
        lambda: machine(packages=2, cores_per_numa_node=1),
        {"cores_per_package": 1},
        "no pod could ever get one\n  set cpus.reserved.cores: 1",
    ),
    "all-cpus-beside-accelerators": (
        gaudi2,
        {"cpulist": format_cpulist(gaudi2().numa_nodes[0].cpus)},
        "accelerators, whose pods need CPUs there\n  set cpus.reserved.cores: ",
    ),
    "all-cpus-beside-gpus-of-class-12": (
        mi300x_cpx,
        {"cpulist": format_cpulist(mi300x_cpx().numa_nodes[0].cpus)},
        "GPUs, whose pods need CPUs there\n  set cpus.reserved.cores: ",
    ),
    "the-only-core": (two_cpu_vm, {"cores": 1}, "leave cpus.reserved out: one core cannot be divided"),
}


@pytest.mark.parametrize(("build", "reserved", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_impossible_reservations_are_refused(build, reserved, message):
    assert message in refusal(build(), **reserved)


def test_offline_cpu_is_refused_as_offline():
    topology = replace(lab_node(), offline=frozenset({16, 17}))
    assert "names CPUs that are offline: 16-17" in refusal(topology, cpulist="0-1,16-17")


def with_gpus(count: int) -> NodeTopology:
    gpus = tuple(Gpu(f"0000:0{index}:00.0", "10de", "2330", numa_node=1) for index in range(count))
    return replace(lab_node(), gpus=gpus)


def test_numa_node_with_gpus_keeps_cpus():
    message = refusal(with_gpus(2), cpulist="4-7")
    assert "all CPUs of NUMA node 1 (4-7) would be reserved, but it has 2 GPUs" in message


def notices(chosen: NodePlan) -> dict[str, str]:
    return {notice.id: notice.message for notice in chosen.notices}


def test_fewer_cpus_than_gpus_give_a_notice():
    assert notices(plan(with_gpus(3)))["fewer-cpus-than-gpus"] == (
        "NUMA node 1 has 3 GPUs and 2 CPUs left for their pods"
    )


def test_enough_cpus_for_the_gpus_give_no_notice():
    assert "fewer-cpus-than-gpus" not in notices(plan(with_gpus(2)))


def test_uneven_smt_is_flagged():
    message = notices(plan(laptop()))["uneven-smt"]
    assert "8 cores with 1 and 6 cores with 2 online threads: the kubelet counts 1 per core" in message


def test_even_smt_gives_no_notice():
    assert "uneven-smt" not in notices(plan(dgx_h100()))


def test_offline_cpus_are_flagged():
    topology = replace(lab_node(), offline=parse_cpulist("16-17"))
    assert "CPUs 16-17 are offline" in notices(plan(topology))["offline-cpus"]


def test_reserving_isolated_cpus_is_flagged():
    topology = replace(lab_node(), isolated=parse_cpulist("1-7"))
    chosen = plan(topology, cpulist="0-1,4-5")
    assert "reserved CPUs 1,4-5 are isolated" in notices(chosen)["reserved-isolated"]


def test_isolated_cpus_for_workloads_are_not_flagged():
    topology = replace(lab_node(), isolated=parse_cpulist("2-3,6-7"))
    assert "reserved-isolated" not in notices(plan(topology))
