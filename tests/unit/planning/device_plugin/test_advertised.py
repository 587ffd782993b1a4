"""What the device plugin advertises: names, counts, and what sharing makes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.errors import PlanError
from numaforge.planning.device_plugin.advertised import advertised, shared
from numaforge.planning.device_plugin.names import GPU_RESOURCE, mig_resource
from numaforge.planning.mig.devices import FoundGpu, found_gpus
from numaforge.planning.mig.models import models
from numaforge.planning.model import MigGpu, MigInstance, MigPlan
from numaforge.topology.model import ComputeInstance, Gpu, GpuInstance, MigProfileOffer
from tests.fixtures.machines import lab_node

NO_PLAN = MigPlan()
CUT = FoundGpu(0, ("3g.40gb", "1g.10gb", "1g.10gb"))


@pytest.mark.parametrize(
    ("gpus", "strategy", "counts"),
    [
        pytest.param((FoundGpu(0), FoundGpu(1)), "none", {"nvidia.com/gpu": 2}, id="full GPUs"),
        pytest.param((FoundGpu(0), FoundGpu(1)), "mixed", {"nvidia.com/gpu": 2}, id="full GPUs with mixed"),
        pytest.param(
            (CUT, FoundGpu(1)),
            "mixed",
            {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-3g.40gb": 1},
            id="mixed names each profile",
        ),
        pytest.param(
            (FoundGpu(0, ("1g.10gb",) * 7),) * 2,
            "single",
            {"nvidia.com/gpu": 14},
            id="single counts MIG devices as GPUs",
        ),
        pytest.param((CUT,), "none", {"nvidia.com/gpu": 1}, id="none sees no MIG"),
        pytest.param((FoundGpu(0, ()),), "mixed", {}, id="a GPU in MIG mode without instances is nothing"),
        pytest.param((), "mixed", {}, id="no GPU"),
    ],
)
def test_resources_by_strategy(gpus, strategy, counts):
    assert advertised(gpus, strategy) == counts


def test_a_machine_that_the_plugin_refuses_has_no_resources():
    with pytest.raises(PlanError, match="more than one MIG device type present on node"):
        advertised((CUT,), "single")


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        ("1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
        ("1g.24gb+me.all", "nvidia.com/mig-1g.24gb.me.all"),
        ("1g.24gb-me", "nvidia.com/mig-1g.24gb-me"),
    ],
)
def test_a_plus_is_a_dot_in_a_resource(profile, name):
    assert mig_resource(profile) == name


@pytest.mark.parametrize("suffix", ["", ".shared"])
def test_the_resource_of_every_known_profile_is_recognised_as_the_plugins(suffix):
    for model in models():
        for profile in model.profiles:
            assert GPU_RESOURCE.fullmatch(mig_resource(profile.name) + suffix), profile.name


@pytest.mark.parametrize("name", ["rdma/hca", "nvidia.com/GH100_H100", "nvidia.com/hostdev", "amd.com/gpu"])
def test_resources_of_others_are_not_the_plugins(name):
    assert not GPU_RESOURCE.fullmatch(name)


COUNTS = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"]),
    st.integers(1, 56),
)
REPLICAS = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/mig-7g.80gb"]),
    st.integers(2, 48),
)


@given(COUNTS, REPLICAS, st.sampled_from(["", ".shared"]))
def test_sharing_multiplies_what_is_shared_and_nothing_else(counts, replicas, suffix):
    after = shared(counts, replicas, suffix)
    assert len(after) == len(counts)
    for name, count in counts.items():
        if name in replicas:
            assert after[name + suffix] == count * replicas[name]
        else:
            assert after[name] == count


def gpu(bus: int, **fields) -> Gpu:
    return Gpu(f"0000:{bus:02x}:00.0", "10de", "2330", 0, **{"mig_mode": "disabled", **fields})


def found(*gpus: Gpu, plan: MigPlan = NO_PLAN) -> list[tuple[int, tuple[str, ...] | None]]:
    return [(one.index, one.mig_devices) for one in found_gpus(replace(lab_node(), gpus=gpus), plan)]


def planned(bus: int, *instances: MigInstance, mode: str = "enabled") -> MigPlan:
    return MigPlan((MigGpu(f"0000:{bus:02x}:00.0", None, mode, instances),))


def test_a_planned_gpu_is_as_planned_and_another_as_it_is():
    there = (GpuInstance(1, 19, 0, 1, (ComputeInstance(0, 1),)),)
    plan = planned(1, MigInstance("3g.40gb", 9, 4, 4, (1, 2)))
    gpus = (gpu(1), gpu(2, mig_mode="enabled", gpu_instances=there), gpu(3))
    assert found(*gpus, plan=plan) == [(0, ("1c.3g.40gb", "2c.3g.40gb")), (1, ("1g.10gb",)), (2, None)]


def test_a_gpu_whose_mig_mode_is_planned_off_is_whole():
    there = (GpuInstance(1, 19, 0, 1, (ComputeInstance(0, 1),)),)
    cut = gpu(1, mig_mode="enabled", gpu_instances=there)
    assert found(cut, plan=planned(1, mode="disabled")) == [(0, None)]


def test_the_drivers_own_name_goes_before_ours():
    there = (GpuInstance(1, 19, 0, 1, (ComputeInstance(0, 1),)),)
    offer = MigProfileOffer(19, "1g.11gb", 1, 7, None, 1)
    assert found(gpu(1, mig_mode="enabled", gpu_instances=there, mig_profiles=(offer,))) == [
        (0, ("1g.11gb",))
    ]


def test_gpus_of_another_driver_and_of_other_vendors_are_not_counted():
    gpus = (gpu(1, driver="vfio-pci"), replace(gpu(2), vendor="1002"), gpu(3, driver="nvidia"))
    assert len(found(*gpus)) == 1


def test_an_instance_of_an_unknown_profile_is_refused_with_its_gpu():
    there = (GpuInstance(1, 99, 0, 1, (ComputeInstance(0, 1),)),)
    with pytest.raises(PlanError, match=r"GPU 0000:01:00.0: a GPU instance has the profile 99"):
        found(gpu(1, mig_mode="enabled", gpu_instances=there))
