"""One form for devices that are cut: MIG's instances and AMD's compute partitions."""

from __future__ import annotations

import pytest

from numaforge.kubelet.admission import inventory_of
from numaforge.topology.model import ComputeInstance, Gpu, GpuInstance, GpuPartition
from numaforge.topology.slices import countable_gpus, slicing_of
from tests.fixtures import machines


def gpu(**more):
    return Gpu("0000:01:00.0", "10de", "2330", 0, **more)


def instance(number, compute_instances):
    held = tuple(ComputeInstance(place, None) for place in range(compute_instances))
    return GpuInstance(number, profile_id=19, start=number, size=1, compute_instances=held)


@pytest.mark.parametrize(
    ("more", "technique", "mode", "slices"),
    [
        pytest.param(
            {"mig_capable": True, "mig_mode": "disabled"}, "mig", "disabled", 1, id="mig-off-is-whole"
        ),
        pytest.param(
            {"mig_capable": True, "mig_mode": "enabled", "gpu_instances": (instance(1, 1), instance(2, 2))},
            "mig",
            "enabled",
            3,
            id="a-slice-is-a-compute-instance",
        ),
        pytest.param(
            {"mig_capable": True, "mig_mode": "enabled", "gpu_instances": ()},
            "mig",
            "enabled",
            0,
            id="none-yet",
        ),
        pytest.param(
            {"mig_capable": True, "mig_mode": "enabled"}, "mig", "enabled", None, id="instances-are-not-known"
        ),
        pytest.param({"mig_capable": True}, "mig", None, None, id="the-mode-is-not-known"),
        *(
            pytest.param({"partition": GpuPartition(mode, "NPS1")}, "xcp", mode, slices, id=mode.lower())
            for mode, slices in {"SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4, "CPX": None}.items()
        ),
        pytest.param(
            {"partition": GpuPartition(None, "NPS4")}, "xcp", None, None, id="amds-mode-is-not-known"
        ),
    ],
)
def test_a_device_that_can_be_cut(more, technique, mode, slices):
    slicing = slicing_of(gpu(**more))
    assert (slicing.technique, slicing.mode, slicing.slices) == (technique, mode, slices)


def test_modes_are_those_that_the_device_offers():
    told = GpuPartition("CPX", "NPS4", ("SPX", "CPX"), ("NPS1", "NPS4"))
    slicing = slicing_of(gpu(partition=told))
    assert (slicing.modes, slicing.memory_mode, slicing.memory_modes) == (
        ("SPX", "CPX"),
        "NPS4",
        ("NPS1", "NPS4"),
    )
    assert slicing_of(gpu(mig_capable=True)).modes == ("disabled", "enabled")


def test_partitions_that_the_kernel_counts_are_slices_of_one_size():
    slicing = slicing_of(gpu(partition=GpuPartition("CPX", "NPS4", count=8, memory_bytes=24 * 2**30)))
    assert (slicing.slices, slicing.slice_bytes) == (8, 24 * 2**30)


@pytest.mark.parametrize("more", [{}, {"mig_capable": False}], ids=["not-known-to-be-cut", "always-whole"])
def test_a_device_that_is_whole(more):
    assert slicing_of(gpu(**more)) is None


@pytest.mark.parametrize(
    ("build", "resources"),
    [
        pytest.param(machines.mi300x, {"amd.com/gpu": 8}, id="whole"),
        pytest.param(lambda: machines.mi300x("DPX"), {"amd.com/gpu": 16}, id="partitioned"),
        pytest.param(machines.mi300x_cpx, {}, id="a-mode-is-not-known"),
        pytest.param(machines.dgx_h100, {"nvidia.com/gpu": 8}, id="another-vendor"),
    ],
)
def test_partitions_that_cannot_be_counted_are_not_promised(build, resources):
    topology = build()
    assert {name: len(devices) for name, devices in inventory_of(topology).items()} == resources
    assert bool(countable_gpus(topology.gpus)) is bool(resources)
