"""What a plan predicts goes by the CPUs that the kubelet finds, which are not always those that are there."""

from dataclasses import replace
from functools import cache

import pytest

from numaforge.kubelet.admission.machine import MachineInfo, cpu_capacity
from numaforge.kubelet.startup.check import check
from numaforge.lib.cpulist import parse_cpulist
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.planning.plan import NodePlan
from tests.fixtures.machines import epyc_nps4, kubeadm_kubelet, machine
from tests.fixtures.plans import notices, planned, refusal
from tests.machines.files import stored


@cache
def captured(name: str) -> NodeTopology:
    return read_topology(stored(name).snapshot())


def plan(topology: NodeTopology, **sections: object) -> NodePlan:
    return planned(replace(topology, swap_bytes=0, cgroup_version=2), "1.36.0", **sections)


def test_cpus_outside_numa_nodes_are_neither_reserved_nor_promised() -> None:
    machine = captured("dell-r630-node0-offline")
    chosen = plan(machine)
    assert chosen.cpus.reserved == parse_cpulist("5")
    assert chosen.cpus.allocatable == parse_cpulist("7,9,11,13,15,17,19")
    assert chosen.allocatable.cpu_millis == 7000
    assert "CPUs 4,6,8,10,12,14,16,18,20 are in no NUMA node" in notices(chosen)["cpus-in-no-numa-node"]
    message = refusal(replace(machine, swap_bytes=0), cpus={"reserved": {"cpulist": "4-5"}})
    assert "does not find them: 4\n  choose among the CPUs that it finds: 5,7" in message


@pytest.mark.parametrize(
    ("name", "sockets"),
    [
        pytest.param("dell-r630-node0-offline", 2, id="one-whose-CPUs-are-in-no-NUMA-node"),
        pytest.param("ibm-9179-power7", 1, id="a-kernel-that-writes--1-for-each"),
        pytest.param("itanium2-16p-8n", 8, id="ids-that-repeat"),
        pytest.param("nvidia-dgx-h100", 2, id="as-the-masks-say"),
    ],
)
def test_sockets_are_counted_by_their_ids(name: str, sockets: int) -> None:
    assert MachineInfo.from_topology(captured(name)).cpus.num_sockets == sockets


def test_align_by_socket_with_a_package_outside_numa_nodes_is_refused() -> None:
    text = (
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        'cpuManagerPolicy: static\nreservedSystemCPUs: "5"\ntopologyManagerPolicy: restricted\n'
        'cpuManagerPolicyOptions: {align-by-socket: "true"}\n'
        "featureGates: {CPUManagerPolicyAlphaOptions: true}\nfailCgroupV1: false\nfailSwapOn: false\n"
    )
    report = check(text, version="1.36", topology=captured("dell-r630-node0-offline"))
    assert "number of sockets are more than number of NUMA" in (report.error or "")


def test_cores_the_kubelet_merges_on_s390x_are_reserved_whole() -> None:
    chosen = plan(captured("ibm-z-drawers"), cpus={"reserved": {"cores": 1}})
    assert chosen.cpus.reserved == parse_cpulist("0-2")


def test_offline_cpus_are_promised_by_a_kernel_without_numa_nodes() -> None:
    there = machine(cores_per_numa_node=4, threads=1, kubelet=kubeadm_kubelet())
    whole = replace(
        there,
        numa_nodes=(),
        cores=tuple(replace(core, numa_node=None) for core in there.cores if core.cpus != {3}),
        cpus=replace(there.cpus, online=there.online - {3}, offline=frozenset({3})),
    )
    chosen = plan(whole)
    assert chosen.allocatable.cpu_millis == 3000
    assert chosen.cpus.allocatable == {1, 2}
    assert "counts the offline CPUs 3" in notices(chosen)["offline-cpus-counted"]


def test_offline_cpus_are_not_promised_where_the_kernel_has_numa_nodes() -> None:
    topology = captured("epyc-7763-smt-off-isolated")
    assert topology.offline
    assert cpu_capacity(topology) == len(topology.online)
    assert "offline-cpus-counted" not in notices(plan(topology))


def test_split_ignored_by_the_kubelet_refuses_nothing() -> None:
    wish = {"memory": {"system_reserved": "4700Mi"}}
    topology = replace(captured("qemu-memory-tiers"), swap_bytes=0, cgroup_version=2)
    chosen = plan(topology, **wish, kubelet={"memory_manager_policy": "None"})
    assert "it is not divided among them" in notices(chosen)["reservation-not-split"]
    assert "reservedMemory" not in chosen.kubelet.settings
    message = refusal(topology, "1.36.0", **wish, kubelet={"memory_manager_policy": "Static"})
    assert "or set kubelet.memory_manager_policy: None" in message


def test_nothing_left_for_pods_is_refused_under_every_policy() -> None:
    wish = {"hugepages": [{"size": "2Mi", "share": "99%"}], "memory": {"system_reserved": "2Gi"}}
    topology = machine(cores_per_numa_node=4, kubelet=kubeadm_kubelet())
    message = refusal(topology, **wish, kubelet={"memory_manager_policy": "None"})
    assert "of memory would be reserved, but only" in message


@pytest.mark.parametrize("profile", ["cpu-only", "training"])
def test_machine_without_cpus_visible_to_the_kubelet_is_refused(profile: str) -> None:
    whole = epyc_nps4()
    astray = replace(whole, cores=tuple(replace(core, numa_node=None) for core in whole.cores))
    message = refusal(astray, extends=profile)
    assert "no CPU is in a NUMA node, so the kubelet finds none" in message
