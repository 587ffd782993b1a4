"""What the device plugin advertises on a machine, as it is and as planned; on which machines it ends."""

from dataclasses import replace

import pytest

from numaforge.kubelet.admission.inventory import inventory_of
from numaforge.kubelet.admission.nvidia_resources import GPU_RESOURCE, mig_resource
from numaforge.machine.topology.model import ComputeInstance, Gpu, GpuInstance, MigProfileOffer
from numaforge.roles.device_plugin.advertised import (
    advertised,
    refused,
)
from numaforge.roles.device_plugin.config import parse_device_plugin
from numaforge.roles.mig.devices import mig_device_names, nvml_gpus
from numaforge.roles.mig.instance import MigGpu, MigInstance, MigPlan
from numaforge.roles.mig.models import models
from numaforge.roles.mig.plan import as_cut
from tests.fixtures.machines import cut_into, lab_node

NO_PLAN = MigPlan()
CUT = ("3g.40gb", "1g.10gb", "1g.10gb")


ADVERTISED = {
    "full GPUs": ((None, None), "{}", {"nvidia.com/gpu": 2}),
    "mixed names each profile": (
        (CUT, None),
        "flags: {migStrategy: mixed}",
        {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-3g.40gb": 1},
    ),
    "single counts MIG devices as GPUs": (
        (("1g.10gb",) * 7,) * 2,
        "flags: {migStrategy: single}",
        {"nvidia.com/gpu": 14},
    ),
    "none sees no MIG": ((CUT,), "{}", {"nvidia.com/gpu": 1}),
    "a GPU in MIG mode without instances is nothing": (((),), "flags: {migStrategy: mixed}", {}),
    "nothing where the plugin ends": ((CUT,), "flags: {migStrategy: single}", {}),
    "what is shared, and under which name": (
        (CUT, None),
        (
            "{flags: {migStrategy: mixed}, sharing: {timeSlicing: {renameByDefault: true, resources: "
            "[{name: gpu, replicas: 3}]}}}"
        ),
        {"nvidia.com/gpu.shared": 3, "nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-3g.40gb": 1},
    ),
}


@pytest.mark.parametrize(("gpus", "config", "counts"), ADVERTISED.values(), ids=ADVERTISED)
def test_advertised_resources_follow_the_config(gpus, config, counts):
    told = parse_device_plugin(config, "plugin.yaml")
    assert advertised(told, cut_into(*gpus)) == counts


@pytest.mark.parametrize(
    ("sharing", "refuses"),
    [
        ("timeSlicing: {resources: [{name: gpu, replicas: 2}]}", False),
        ("timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: gpu, replicas: 2}]}", True),
        ("mps: {failRequestsGreaterThanOne: false, resources: [{name: gpu, replicas: 2}]}", True),
    ],
    ids=["time-slicing does not", "time-slicing that is told to", "MPS does whatever it is told"],
)
def test_multi_replica_requests_are_refused_by_mps_and_on_request(sharing, refuses):
    config = parse_device_plugin(f"sharing: {{{sharing}}}", "plugin.yaml")
    [devices] = inventory_of(cut_into(None), shared=config.sharing.taken).values()
    assert {device.one_per_request for device in devices} == {refuses}


def test_gpus_of_other_vendors_are_not_advertised():
    first, second = cut_into(None, None).gpus
    machine = replace(cut_into(None, None), gpus=(first, replace(second, vendor="1002")))
    assert advertised(parse_device_plugin("{}", "plugin.yaml"), machine) == {"nvidia.com/gpu": 1}


@pytest.mark.parametrize(
    ("profile", "name"),
    [
        ("1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
        ("1g.24gb+me.all", "nvidia.com/mig-1g.24gb.me.all"),
        ("1g.24gb-me", "nvidia.com/mig-1g.24gb-me"),
    ],
)
def test_plus_becomes_a_dot_in_a_resource_name(profile, name):
    assert mig_resource(profile) == name


@pytest.mark.parametrize("suffix", ["", ".shared"])
def test_resource_of_every_known_profile_is_recognised(suffix):
    for model in models():
        for profile in model.profiles:
            assert GPU_RESOURCE.fullmatch(mig_resource(profile.name) + suffix), profile.name


@pytest.mark.parametrize("name", ["rdma/hca", "nvidia.com/GH100_H100", "nvidia.com/hostdev", "amd.com/gpu"])
def test_resources_of_other_plugins_are_not_recognised(name):
    assert not GPU_RESOURCE.fullmatch(name)


def gpu(bus: int, **fields) -> Gpu:
    return Gpu(f"0000:{bus:02x}:00.0", "10de", "2330", 0, **{"mig_mode": "disabled", **fields})


def found(*gpus: Gpu, plan: MigPlan = NO_PLAN) -> dict[int, tuple[str, ...] | None]:
    after = nvml_gpus(as_cut(replace(lab_node(), gpus=gpus), plan))
    return {
        index: mig_device_names(one) if one.mig_mode == "enabled" else None for index, one in after.items()
    }


def planned(bus: int, *instances: MigInstance, mode: str = "enabled") -> MigPlan:
    return MigPlan((MigGpu(f"0000:{bus:02x}:00.0", None, mode, instances),))


THERE = (GpuInstance(1, 19, 0, 1, (ComputeInstance(0, 1),)),)


def test_planned_gpus_follow_the_plan_and_others_their_current_state():
    cut = gpu(2, mig_mode="enabled", gpu_instances=THERE)
    plan = planned(1, MigInstance("3g.40gb", 9, 4, 4, (1, 2)))
    expected = {0: ("1c.3g.40gb", "2c.3g.40gb"), 1: ("1g.10gb",), 2: None}
    assert found(gpu(1), cut, gpu(3), plan=plan) == expected
    assert found(cut, plan=planned(2, mode="disabled")) == {0: None}


def test_profile_name_of_the_driver_overrides_ours():
    offer = MigProfileOffer(19, "1g.11gb", 1, 7, None, 1)
    named = gpu(1, mig_mode="enabled", gpu_instances=THERE, mig_profiles=(offer,))
    assert found(named) == {0: ("1g.11gb",)}


def test_gpus_of_other_drivers_and_vendors_do_not_count_for_nvml():
    gpus = (gpu(1, driver="vfio-pci"), replace(gpu(2), vendor="1002"), gpu(3, driver="nvidia"))
    assert len(found(*gpus)) == 1


UNKNOWN_PROFILE = (GpuInstance(1, 99, 0, 1, (ComputeInstance(0, 1),)),)


@pytest.mark.parametrize("instances", [UNKNOWN_PROFILE, None], ids=["a profile", "all instances"])
def test_unknown_mig_devices_are_not_refused(instances):
    machine = replace(lab_node(), gpus=(gpu(1, mig_mode="enabled", gpu_instances=instances),))
    assert mig_device_names(as_cut(machine, NO_PLAN).gpus[0]) is None
    assert refused(machine, "single") is None


# ---- lists that are too long for the kubelet ----
