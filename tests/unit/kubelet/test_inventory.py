"""What device plugins advertise: whole GPUs, MIG devices under each migStrategy, each near its GPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from numaforge.kubelet.admission import Node
from numaforge.kubelet.admission.inventory import inventory_of, whole_gpus
from numaforge.topology.model import ComputeInstance, Gpu, GpuInstance, MigProfileOffer, NodeTopology
from tests.fixtures.machines import GIB, machine

OFFERS = (
    MigProfileOffer(19, "1g.10gb", 1, 7, None, 1),
    MigProfileOffer(20, "1g.10gb+me", 1, 1, None, 1),
    MigProfileOffer(9, "3g.40gb", 3, 2, None, 4),
    MigProfileOffer(99, None, 1, 1, None, 1),
)


def gpu(number: int, *profiles: int, compute: tuple[int, ...] | None = None, **more: Any) -> Gpu:
    """Return a GPU near NUMA node `number` with GPU instances of these profile ids."""
    slices = {offer.id: offer.slices for offer in OFFERS}
    instances = tuple(
        GpuInstance(
            index,
            profile,
            index,
            1,
            tuple(ComputeInstance(n, size) for n, size in enumerate(compute or (slices[profile],))),
        )
        for index, profile in enumerate(profiles)
    )
    said = {"mig_mode": "enabled", "gpu_instances": instances} if profiles else {}
    return Gpu(f"0000:0{number}:00.0", "10de", "2330", number, mig_profiles=OFFERS, **{**said, **more})


def node(*gpus: Gpu) -> NodeTopology:
    small = machine(packages=2, cores_per_numa_node=4, numa_memory_bytes=16 * GIB)
    return replace(small, gpus=gpus)


@pytest.mark.parametrize(
    ("gpus", "strategy", "counts"),
    [
        pytest.param([gpu(0), gpu(1)], "mixed", {"nvidia.com/gpu": 2}, id="whole GPUs"),
        pytest.param(
            [gpu(0), gpu(1, 19, 19)],
            "mixed",
            {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 2},
            id="a cut GPU is not whole beside its slices",
        ),
        pytest.param([gpu(0, 20)], "mixed", {"nvidia.com/mig-1g.10gb.me": 1}, id="a plus becomes a dot"),
        pytest.param([gpu(0, 9, 19)], "single", {"nvidia.com/gpu": 2}, id="single"),
        pytest.param([gpu(0, 9, 19)], "none", {"nvidia.com/gpu": 1}, id="none"),
        pytest.param(
            [gpu(0, 9, compute=(2, 1))],
            "mixed",
            {"nvidia.com/mig-2c.3g.40gb": 1, "nvidia.com/mig-1c.3g.40gb": 1},
            id="compute instances by their own name",
        ),
        pytest.param(
            [gpu(0, 9, compute=(None,))],
            "mixed",
            {"nvidia.com/mig-3g.40gb": 1},
            id="slices that are not known",
        ),
        pytest.param([gpu(0, 99)], "mixed", {}, id="a profile whose name is not known"),
        pytest.param([gpu(0, mig_mode="enabled")], "mixed", {}, id="GPU instances that are not known"),
        pytest.param([replace(gpu(0), vendor="1002")], "mixed", {"amd.com/gpu": 1}, id="another vendor"),
    ],
)
def test_what_is_advertised(gpus, strategy, counts):
    found = inventory_of(node(*gpus), strategy)
    assert {resource: len(devices) for resource, devices in found.items()} == counts


def test_a_slice_is_near_the_numa_node_of_its_gpu():
    devices = inventory_of(node(gpu(0, 19), gpu(1, 19)))["nvidia.com/mig-1g.10gb"]
    assert [device.numa_nodes for device in devices] == [{0}, {1}]
    assert [device.part_of for device in devices] == ["0000:00:00.0", "0000:01:00.0"]
    assert len({device.id for device in devices}) == 2


@pytest.mark.parametrize(("strategy", "left"), [("mixed", ["nvidia.com/gpu"]), ("single", [])])
def test_slices_are_no_whole_gpus(strategy, left):
    assert [*whole_gpus(node(gpu(0), gpu(1, 19)), strategy)] == left


@pytest.mark.parametrize(
    ("slices", "admitted"),
    [
        pytest.param(2, True, id="two slices of one NUMA node"),
        pytest.param(3, False, id="three slices are on two NUMA nodes"),
        pytest.param(5, False, id="more than the node has"),
    ],
)
def test_a_pod_that_asks_for_several_slices(slices, admitted):
    resource = "nvidia.com/mig-1g.10gb"
    config = {
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": "0,4",
        "topologyManagerPolicy": "single-numa-node",
    }
    limits = {"cpu": "1", "memory": "1Gi", resource: str(slices)}
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    }
    answer = Node(node(gpu(0, 19, 19), gpu(1, 19, 19)), config).admit(pod)
    assert answer.admitted is admitted
    assert admitted or resource in answer.in_the_way
