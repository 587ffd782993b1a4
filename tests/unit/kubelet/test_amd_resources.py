"""What AMD's device plugin makes of GPUs and their partitions, and what a kubelet makes of that."""

from dataclasses import replace

import pytest

from numaforge.kubelet.admission.amd_resources import AmdPlugin
from numaforge.kubelet.admission.inventory import counts_of, inventory_of
from numaforge.kubelet.admission.node import Node
from numaforge.kubelet.admission.pod import Pod
from numaforge.machine.topology.model import Gpu, GpuPartition, NodeTopology
from tests.fixtures.machines import gaudi2, mi210, mi300x, mi300x_cpx, mi300x_cpx_kfd
from tests.fixtures.tables import cases

MIXED, OLD = AmdPlugin("mixed"), AmdPlugin("mixed", (1, 31, 0, 6))


def gpus(machine: NodeTopology, **more: object) -> NodeTopology:
    return replace(machine, gpus=tuple(replace(gpu, **more) for gpu in machine.gpus))


def cut(machine: NodeTopology, first: int = 8, **more: object) -> NodeTopology:
    """Change the partition of the first GPUs."""
    changed = [
        replace(gpu, partition=replace(gpu.partition, **more)) if number < first and gpu.partition else gpu
        for number, gpu in enumerate(machine.gpus)
    ]
    return replace(machine, gpus=tuple(changed))


@cases(
    "machine, plugin, counts",
    {
        "whole-GPUs": (mi300x(), AmdPlugin(), {"amd.com/gpu": 8}),
        "mixed-names-whole-GPUs-by-their-modes": (mi300x(), MIXED, {"amd.com/spx_nps1": 8}),
        "single-counts-partitions": (mi300x("DPX"), AmdPlugin(), {"amd.com/gpu": 16}),
        "CPX-has-one-per-die": (mi300x_cpx_kfd(), AmdPlugin(), {"amd.com/gpu": 64}),
        "mixed-names-the-modes": (mi300x_cpx_kfd(), MIXED, {"amd.com/cpx_nps4": 64}),
        "a-release-before-the-strategies": (mi300x_cpx_kfd(), OLD, {"amd.com/gpu": 64}),
        "by-the-dies-of-the-model": (cut(mi300x_cpx_kfd(), count=None), MIXED, {"amd.com/cpx_nps4": 64}),
        "GPUs-that-cannot-be-partitioned": (mi210(), MIXED, {"amd.com/gpu": 8}),
        "a-mode-that-is-not-known": (mi300x_cpx(), AmdPlugin(), {}),
        "several-modes": (
            cut(mi300x(), 4, compute="DPX"),
            MIXED,
            {"amd.com/dpx_nps1": 8, "amd.com/spx_nps1": 4},
        ),
        "single-ends-with-several-modes": (cut(mi300x(), 4, compute="DPX"), AmdPlugin(), {}),
        "names-with-a-dot-are-not-found": (
            cut(mi300x_cpx_kfd(), named="amdgpu_xcp."),
            AmdPlugin(),
            {"amd.com/gpu": 8},
        ),
        "partitions-without-a-node": (
            gpus(mi300x_cpx_kfd(), numa_node=None),
            AmdPlugin(),
            {"amd.com/gpu": 8},
        ),
        "which-older-releases-kept": (gpus(mi300x_cpx_kfd(), numa_node=None), OLD, {"amd.com/gpu": 64}),
        "handed-to-a-guest": (gpus(mi300x(), driver="vfio-pci"), AmdPlugin(), {}),
    },
)
def test_amd_resources_follow_partition_mode_and_naming(
    machine: NodeTopology, plugin: AmdPlugin, counts: dict[str, int]
) -> None:
    assert counts_of(inventory_of(machine, amd=plugin)) == counts


def test_partitions_belong_to_their_gpu_and_its_numa_node() -> None:
    devices = inventory_of(mi300x_cpx_kfd(), amd=MIXED)["amd.com/cpx_nps4"]
    assert [device.numa_nodes for device in devices] == [frozenset({0})] * 32 + [frozenset({1})] * 32
    assert {device.part_of for device in devices[:8]} == {"0000:05:00.0"}
    assert len({device.id for device in devices}) == 64


def test_whole_gpu_has_no_parent_device() -> None:
    assert {device.part_of for device in inventory_of(mi300x())["amd.com/gpu"]} == {None}


@pytest.mark.parametrize(
    ("policy", "admitted"),
    [("none", True), ("best-effort", True), ("restricted", False), ("single-numa-node", False)],
)
def test_numa_node_minus_one_gives_no_hint(policy: str, admitted: bool) -> None:
    machine = gpus(mi300x(), numa_node=None)
    node = Node(machine, {"topologyManagerPolicy": policy}, inventory_of(machine))
    pod = Pod.from_manifest(
        {
            "metadata": {"name": "one"},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"amd.com/gpu": 1}}}]},
        }
    )
    assert node.admit(pod).admitted is admitted


def test_pods_can_request_partitions() -> None:
    machine = mi300x_cpx_kfd()
    node = Node(machine, {}, inventory_of(machine, amd=MIXED))
    assert node.device_manager.allocatable() == {"amd.com/cpx_nps4": 64}


def test_a_gpu_knows_its_partition() -> None:
    gpu = Gpu("0000:05:00.0", "1002", "74a1", 0, partition=GpuPartition("CPX", "NPS4"))
    assert counts_of(inventory_of(replace(mi300x(), gpus=(gpu,)))) == {"amd.com/gpu": 8}


@pytest.mark.parametrize(("driver", "count"), [("habanalabs", {"habana.ai/gaudi": 8}), ("vfio-pci", {})])
def test_known_accelerators_count_unless_bound_to_vfio(driver: str, count: dict[str, int]) -> None:
    machine = gaudi2()
    there = tuple(replace(one, driver=driver) for one in machine.accelerators)
    assert counts_of(inventory_of(replace(machine, accelerators=there))) == count
