"""What device plugins advertise: whole GPUs, MIG devices under each migStrategy, each near its GPU."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.kubelet.admission.inventory import Shared, counts_of, inventory_of, whole_gpus
from numaforge.kubelet.admission.node import Node
from numaforge.machine.topology.model import ComputeInstance, Gpu, GpuInstance, MigProfileOffer, NodeTopology
from tests.fixtures.machines import GIB, machine
from tests.fixtures.tables import cases

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
    place = {"pci_address": f"0000:0{number}:00.0", "vendor": "10de", "device": "2330", "numa_node": number}
    return Gpu(**{**place, "mig_profiles": OFFERS, **said, **more})


def node(*gpus: Gpu) -> NodeTopology:
    small = machine(packages=2, cores_per_numa_node=4, numa_memory_bytes=16 * GIB)
    return replace(small, gpus=gpus)


@cases(
    "gpus, strategy, counts",
    {
        "whole GPUs": ([gpu(0), gpu(1)], "mixed", {"nvidia.com/gpu": 2}),
        "a cut GPU is not whole beside its slices": (
            [gpu(0), gpu(1, 19, 19)],
            "mixed",
            {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 2},
        ),
        "a plus becomes a dot": ([gpu(0, 20)], "mixed", {"nvidia.com/mig-1g.10gb.me": 1}),
        "single": ([gpu(0, 9, 19)], "single", {"nvidia.com/gpu": 2}),
        "none": ([gpu(0, 9, 19)], "none", {"nvidia.com/gpu": 1}),
        "compute instances by their own name": (
            [gpu(0, 9, compute=(2, 1))],
            "mixed",
            {"nvidia.com/mig-2c.3g.40gb": 1, "nvidia.com/mig-1c.3g.40gb": 1},
        ),
        "slices that are not known": ([gpu(0, 9, compute=(None,))], "mixed", {"nvidia.com/mig-3g.40gb": 1}),
        "a profile whose name is not known": ([gpu(0, 99)], "mixed", {}),
        "GPU instances that are not known": ([gpu(0, mig_mode="enabled")], "mixed", {}),
        "another vendor": ([replace(gpu(0), vendor="1002")], "mixed", {"amd.com/gpu": 1}),
        "what another driver has is not advertised": (
            [gpu(0, driver="nvidia"), gpu(1, driver="vfio-pci"), gpu(2, driver="nouveau")],
            "mixed",
            {"nvidia.com/gpu": 1},
        ),
        "a GPU for virtual machines is not advertised": (
            [gpu(0, vendor="1002", driver="amdgpu"), gpu(1, vendor="1002", driver="vfio-pci")],
            "mixed",
            {"amd.com/gpu": 1},
        ),
        "no GPU": ([], "mixed", {}),
    },
)
def test_inventory_per_mig_strategy(gpus, strategy, counts):
    assert counts_of(inventory_of(node(*gpus), strategy)) == counts


def test_mig_slice_is_near_the_numa_node_of_its_gpu():
    devices = inventory_of(node(gpu(0, 19), gpu(1, 19)))["nvidia.com/mig-1g.10gb"]
    assert [device.numa_nodes for device in devices] == [{0}, {1}]
    assert [device.part_of for device in devices] == ["0000:00:00.0", "0000:01:00.0"]
    assert len({device.id for device in devices}) == 2


@pytest.mark.parametrize(("strategy", "left"), [("mixed", ["nvidia.com/gpu"]), ("single", [])])
def test_mig_slices_do_not_count_as_whole_gpus(strategy, left):
    assert [*whole_gpus(inventory_of(node(gpu(0), gpu(1, 19)), strategy))] == left


def test_a_replica_is_named_after_its_device_and_near_its_gpu():
    shared = Shared({"nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 2}, renamed=True)
    found = inventory_of(node(gpu(0, uuid="GPU-0"), gpu(1, 19, 9)), "mixed", shared)
    assert [device.id for device in found["nvidia.com/gpu.shared"]] == ["GPU-0::0", "GPU-0::1"]
    assert {device.part_of for device in found["nvidia.com/gpu.shared"]} == {"0000:00:00.0"}
    assert {device.part_of for device in found["nvidia.com/mig-1g.10gb.shared"]} == {"0000:01:00.0"}
    assert [device.numa_nodes for device in found["nvidia.com/mig-1g.10gb.shared"]] == [{1}, {1}]
    assert len(found["nvidia.com/mig-3g.40gb"]) == 1
    assert not whole_gpus(found)


def test_replicas_are_spread_over_devices_before_sharing():
    devices = inventory_of(node(gpu(0), gpu(1)), "mixed", Shared({"nvidia.com/gpu": 2}))["nvidia.com/gpu"]
    assert [device.part_of for device in devices] == ["0000:00:00.0", "0000:01:00.0"] * 2


SHAREABLE = ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"]


@given(
    st.lists(st.lists(st.sampled_from([9, 19]), max_size=3), max_size=4),
    st.dictionaries(st.sampled_from(SHAREABLE), st.integers(2, 48)),
    st.booleans(),
)
def test_sharing_multiplies_only_shared_resources(cut, replicas, renamed):
    machine = node(*(gpu(number, *profiles) for number, profiles in enumerate(cut)))
    before = counts_of(inventory_of(machine))
    after = inventory_of(machine, "mixed", Shared(replicas, renamed))
    assert len(after) == len(before)
    for name, count in before.items():
        shared = f"{name}.shared" if renamed and name in replicas else name
        assert len({device.id for device in after[shared]}) == count * replicas.get(name, 1)


@cases(
    "shared, asked, said",
    {
        "time-slicing gives several replicas": (Shared({"nvidia.com/gpu": 2}), (2,), None),
        "one each": (Shared({"nvidia.com/gpu": 2}, one_per_request=True), (1, 1), None),
        "failRequestsGreaterThanOne": (
            Shared({"nvidia.com/gpu": 2}, one_per_request=True),
            (2,),
            (
                'invalid allocation request for "nvidia.com/gpu": invalid request: maximum request size for '
                "shared resources is 1; found 2, which is unexpected"
            ),
        ),
        "what is not shared is not limited": (
            Shared({"nvidia.com/mig-1g.10gb": 2}, one_per_request=True),
            (2,),
            None,
        ),
    },
)
def test_several_replicas_need_a_plugin_that_allows_them(shared, asked, said):
    machine = node(gpu(0), gpu(0, pci_address="0000:09:00.0"))
    devices = inventory_of(machine, "mixed", shared)
    offered = len(devices["nvidia.com/gpu"])
    kubelet = Node(machine, {}, devices)
    containers = [
        {"name": f"c{number}", "resources": {"limits": {"nvidia.com/gpu": str(count)}}}
        for number, count in enumerate(asked)
    ]
    answer = kubelet.admit({"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}})
    refused = f"Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = {said}"
    assert answer.status_message == (said and refused)
    assert answer.reason == (said and "UnexpectedAdmissionError")
    held = sum(asked) if answer.admitted else 0
    assert [sum(near.devices.values()) for near in kubelet.free().numa_nodes] == [offered - held, 0]


@pytest.mark.parametrize(
    ("slices", "admitted"),
    [
        pytest.param(2, True, id="two slices of one NUMA node"),
        pytest.param(3, False, id="three slices are on two NUMA nodes"),
        pytest.param(5, False, id="more than the node has"),
    ],
)
def test_slices_of_one_pod_must_share_a_numa_node(slices, admitted):
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
