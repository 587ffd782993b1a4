"""The geometry in mig-parted's words: what our own strict reader makes of it is the plan again."""

import re
from collections import Counter
from dataclasses import replace

import pytest
import yaml

from numaforge.lib.errors import PlanError
from numaforge.lib.kubernetes_objects import as_yaml
from numaforge.machine.topology.model import ComputeInstance, Gpu, GpuInstance, NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.roles.device_plugin.manifests import operator_config_map
from numaforge.roles.mig.devices import mig_device_names, nvml_gpus
from numaforge.roles.mig.instance import MigGpu, MigInstance, MigPlan
from numaforge.roles.mig.machine import plan_machine
from numaforge.roles.mig.models import profile_of
from numaforge.roles.mig.operator import operator_entries, operator_name
from numaforge.roles.mig.plan import as_cut
from numaforge.roles.mig.section import parse_config
from tests.fixtures.machines import lab_node
from tests.fixtures.plans import planned

PARTS = (MigInstance("3g.40gb", 9, 4, 4, (2, 1)), MigInstance("1g.10gb", 19, 0, 1, (1,)))
SEVEN = tuple(MigInstance("1g.10gb", 19, start, 1, (1,)) for start in range(7))
A100 = (MigInstance("7g.40gb", 0, 0, 8, (7,)),)


def gpu(bus: int, device: str = "2330", **fields) -> Gpu:
    return Gpu(f"0000:{bus:02x}:00.0", "10de", device, 0, **{"mig_mode": "disabled", **fields})


def machine(*gpus: Gpu) -> NodeTopology:
    return replace(lab_node(), gpus=gpus)


def plan(**geometries: tuple[MigInstance, ...] | None) -> MigPlan:
    """Return a plan by bus: `b01=SEVEN`; None turns MIG off."""
    modes = {bus: "disabled" if cut is None else "enabled" for bus, cut in geometries.items()}
    rows = ((f"0000:{bus[1:]}:00.0", modes[bus], cut or ()) for bus, cut in geometries.items())
    return MigPlan(tuple(MigGpu(address, None, mode, cut) for address, mode, cut in rows))


ENTRIES = {
    "GPUs that are alike are one entry": (
        machine(gpu(1), gpu(2)),
        plan(b01=SEVEN, b02=SEVEN),
        [("all", "0x233010DE", {"1g.10gb": 7})],
    ),
    "else they are named by index": (
        machine(gpu(1), gpu(2)),
        plan(b01=SEVEN, b02=PARTS),
        [
            ([0], "0x233010DE", {"1g.10gb": 7}),
            ([1], "0x233010DE", {"1c.3g.40gb": 1, "1g.10gb": 1, "2c.3g.40gb": 1}),
        ],
    ),
    "each model has its filter": (
        machine(gpu(1), gpu(2, "20b0")),
        plan(b01=SEVEN, b02=A100),
        [("all", "0x233010DE", {"1g.10gb": 7}), ("all", "0x20B010DE", {"7g.40gb": 1})],
    ),
    "MIG off, and the mode alone": (
        machine(gpu(1), gpu(2)),
        plan(b01=None, b02=()),
        [([0], "0x233010DE", None), ([1], "0x233010DE", {})],
    ),
    "GPUs outside the plan are said as they are, those without MIG too": (
        machine(gpu(1), gpu(2), gpu(3, "26b9", mig_mode=None)),
        plan(b01=SEVEN),
        [([0], "0x233010DE", {"1g.10gb": 7}), ([1], "0x233010DE", None), ("all", "0x26B910DE", None)],
    ),
    "instances outside the plan stay": (
        machine(
            gpu(1),
            gpu(2, mig_mode="enabled", gpu_instances=(GpuInstance(1, 9, 4, 4, (ComputeInstance(0, 3),)),)),
        ),
        plan(b01=SEVEN),
        [([0], "0x233010DE", {"1g.10gb": 7}), ([1], "0x233010DE", {"3g.40gb": 1})],
    ),
}


@pytest.mark.parametrize(("topology", "mig", "entries"), ENTRIES.values(), ids=ENTRIES)
def test_machine_gets_its_operator_entries(topology, mig, entries):
    keys = ("devices", "device-filter", "mig-devices")
    rows = [[entry.get(key) for key in keys] for entry in operator_entries(mig, topology)]
    assert [(devices, filters[0], cut) for devices, filters, cut in rows] == entries


def there(*instances: GpuInstance) -> NodeTopology:
    """Return a machine whose second GPU, outside the plan, has these GPU instances."""
    return machine(gpu(1), gpu(2, mig_mode="enabled", gpu_instances=instances))


OUTSIDE = "GPU 1: is in no plan"
INEXPRESSIBLE = {
    "the mode is not known": (machine(gpu(1), gpu(2, mig_mode=None)), OUTSIDE),
    "the instances are not known": (machine(gpu(1), gpu(2, mig_mode="enabled")), OUTSIDE),
    "a GPU instance without compute instances": (there(GpuInstance(1, 9, 4, 4)), OUTSIDE),
    "an unknown profile": (there(GpuInstance(1, 99, 0, 1, (ComputeInstance(0, 1),))), OUTSIDE),
    "a GPU that is passed through": (machine(gpu(1), gpu(2, driver="vfio-pci")), "another driver"),
}


@pytest.mark.parametrize(("topology", "said"), INEXPRESSIBLE.values(), ids=INEXPRESSIBLE)
def test_machine_that_mig_parted_cannot_express_is_refused(topology, said):
    with pytest.raises(PlanError, match=said):
        operator_entries(plan(b01=SEVEN), topology)


def test_config_name_depends_on_profile_and_geometry():
    seven, parts = (operator_entries(plan(b01=cut), machine(gpu(1))) for cut in (SEVEN, PARTS))
    assert operator_name("serve", seven) == operator_name("serve", seven)
    others = {operator_name("serve", seven), operator_name("serve", parts), operator_name("train", seven)}
    assert len(others) == 3


@pytest.mark.parametrize("profile", ["my profile/ä", "x" * 80, "-", "a.b-"])
def test_config_name_is_a_valid_label_value(profile):
    name = operator_name(profile, [])
    assert re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,61}[A-Za-z0-9])?", name)


def node(name: str, **geometries: tuple[MigInstance, ...] | None) -> tuple[NodePlan, NodeTopology]:
    topology = replace(machine(gpu(1), gpu(2), gpu(3, "20b0")), hostname=name)
    return replace(planned(topology, "1.36.2", name="serve"), mig=plan(**geometries)), topology


def test_config_map_survives_a_round_trip_through_the_strict_reader():
    nodes = [
        node("n1", b01=SEVEN, b02=SEVEN, b03=A100),
        node("n2", b01=PARTS, b02=SEVEN, b03=None),
        node("n3", b01=SEVEN, b02=SEVEN, b03=A100),
    ]
    manifest, labels = operator_config_map(nodes, "mig", "gpu-operator")
    text = yaml.safe_load(as_yaml(manifest))["data"]["config.yaml"]
    configs = parse_config(text, "config.yaml")
    assert len(configs) == 2
    assert labels["n1"] == labels["n3"] != labels["n2"]
    for wanted, topology in nodes:
        name = labels[wanted.hostname]["nvidia.com/mig.config"]
        given = plan_machine(topology, name, configs[name])
        assert given.fits
        assert not given.untouched
        after = nvml_gpus(as_cut(topology, wanted.mig))
        for gpu_after, planned_gpu in zip(after.values(), given.gpus, strict=True):
            assert planned_gpu.mode == gpu_after.mig_mode
            names = [
                one.profile
                if size == profile_of(planned_gpu.model, one.profile).slices
                else f"{size}c.{one.profile}"
                for one in planned_gpu.change.create
                for size in one.compute_instances
            ]
            assert Counter(names) == Counter(mig_device_names(gpu_after))


def test_refusal_names_the_host():
    wanted, topology = node("n1", b01=SEVEN)
    topology = replace(topology, gpus=(*topology.gpus, gpu(9, mig_mode="enabled")))
    with pytest.raises(PlanError, match="n1: GPU 3"):
        operator_config_map([(wanted, topology)], "mig", "gpu-operator")
