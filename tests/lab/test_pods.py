"""Guaranteed pods on a provisioned node: what the real kubelet gave them, read back from its state files."""

import json
from collections.abc import Iterator

import pytest

from lab.cluster import Lab
from lab.node import Node
from numaforge.lib.cpulist import parse_cpulist
from numaforge.lib.file_content import PLAN_PATH
from numaforge.machine.snapshot.capture import parse_output, script
from numaforge.machine.topology.model import NodeTopology
from numaforge.machine.topology.read import read_topology
from numaforge.planning.document import loads
from numaforge.planning.plan import NodePlan
from tests.lab.placements import GPU, STATE, Placement, placements_of
from tests.lab.rollouts import PROFILE, kubectl, rehearsed
from tests.lab.running_pods import pod, uid_of_running

COUNT = 3
MEMORY = 128 * 2**20
HELD = f"""
systemctl show -p MainPID -p NRestarts kubelet containerd lab-deviceplugin
find /sys/fs/cgroup/kubepods.slice -name cpuset.cpus -o -name cpuset.mems -o -name cgroup.procs | sort |
    xargs grep -H ''
cat {STATE}/cpu_manager_state {STATE}/memory_manager_state {STATE}/device-plugins/kubelet_internal_checkpoint
ls -i {STATE}/device-plugins
"""
"""What pods and the kubelet hold: processes, control groups, CPUs, memory, devices and their sockets."""
HALVED = {
    **PROFILE,
    "cpus": {"smt": "off"},
    "hugepages": [{"size": "2Mi", "count_per_numa_node": 64}],
    "maintenance": {"rehearsal": "required"},
}
"""The plan of a machine without the second thread of each core."""


@pytest.fixture(scope="module")
def pods(lab: Lab, provisioned: Node) -> Iterator[list[str]]:
    """The UIDs of Guaranteed pods with two CPUs, memory and a GPU each."""
    resources = {"cpu": "2", "memory": str(MEMORY), GPU: "1"}
    names = [f"guaranteed-{number}" for number in range(COUNT)]
    for name in names:
        kubectl(lab, "create", "-f", "-", manifest=pod(name, resources))
    yield [uid_of_running(lab, name) for name in names]
    kubectl(lab, "delete", "pod", "--selector=test=placement", "--wait")


@pytest.fixture(scope="module")
def plan(provisioned: Node) -> NodePlan:
    return loads(provisioned.run(f"cat {PLAN_PATH}"))


@pytest.fixture(scope="module")
def topology(provisioned: Node) -> NodeTopology:
    return read_topology(parse_output(provisioned.run("sh -s", input_text=script())))


@pytest.fixture(scope="module")
def placements(provisioned: Node, pods: list[str]) -> list[Placement]:
    """What the kubelet gave each pod."""
    return placements_of(provisioned, pods)


def test_every_pod_gets_the_requested_cpus_memory_and_gpu(placements):
    got = [(len(p.cpus), sum(p.memory.values()), len(p.gpus)) for p in placements]
    assert got == [(2, MEMORY, 1)] * COUNT


def test_no_cpu_belongs_to_two_pods(placements):
    assert len(frozenset().union(*(p.cpus for p in placements))) == 2 * COUNT


def test_no_gpu_belongs_to_two_pods(placements):
    assert len(frozenset().union(*(p.gpus for p in placements))) == COUNT


def test_pod_cpus_are_whole_cores(placements, topology):
    for placement in placements:
        touched = frozenset().union(*(core.cpus for core in topology.cores if core.cpus & placement.cpus))
        assert touched == placement.cpus


def test_no_pod_has_a_reserved_cpu(placements, plan):
    assert all(placement.cpus.isdisjoint(plan.cpus.reserved) for placement in placements)


def test_pod_gets_cpus_memory_and_gpu_of_one_numa_node(placements, topology):
    for placement in placements:
        of_cpus = {node.id for node in topology.numa_nodes if node.cpus & placement.cpus}
        of_memory = set(frozenset().union(*placement.memory))
        of_gpus = {gpu.numa_node for gpu in topology.gpus if gpu.pci_address in placement.gpus}
        assert len(of_cpus) == 1
        assert of_cpus == of_memory == of_gpus


def test_shared_pool_is_allocatable_minus_exclusive_cpus(placements, plan, provisioned, pods):
    state = json.loads(provisioned.run(f"cat {STATE}/cpu_manager_state"))
    exclusive = frozenset().union(*(p.cpus for p in placements))
    # With strict-cpu-reservation the reserved CPUs are not in it.
    assert parse_cpulist(state["defaultCpuSet"]) == plan.cpus.allocatable - exclusive


def test_kubelet_names_the_gpus_of_each_pod(provisioned, placements):
    found = read_topology(parse_output(provisioned.run("sh -s", input_text=script())))
    assert found.holders_doubt is None
    given = {(one.pod, one.device) for one in found.device_holders or () if one.resource == GPU}
    assert given == {
        (f"default/guaranteed-{number}", gpu)
        for number, placement in enumerate(placements)
        for gpu in placement.gpus
    }


@pytest.mark.long
def test_rehearsal_of_another_plan_leaves_running_pods_unchanged(lab, provisioned, pods, tmp_path):
    held, before = provisioned.run(HELD), lab.get("pods")
    assert held.count("cpuset.cpus:") > COUNT
    code, shown = rehearsed(lab, tmp_path, HALVED)
    assert (code, shown["verdict"], shown["differences"]) == (0, "starts", []), shown
    assert shown["shared_cpus"] == "2,6,10,14"
    assert provisioned.run(HELD).splitlines() == held.splitlines()
    runs = [(pod["metadata"]["uid"], pod["status"]["containerStatuses"]) for pod in lab.get("pods")["items"]]
    assert runs == [(pod["metadata"]["uid"], pod["status"]["containerStatuses"]) for pod in before["items"]]
