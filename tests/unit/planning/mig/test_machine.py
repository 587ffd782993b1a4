"""What the GPUs of a machine get from a config."""

from dataclasses import replace

import pytest

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.roles.mig.machine import MachineMigPlan, plan_machine
from numaforge.roles.mig.section import parse_config
from tests.fixtures.machines import dgx_h100, grace_blackwell_tray, lab_node


def planned(topology: NodeTopology, *entries: str) -> MachineMigPlan:
    lines = "".join(f"    - {{{entry}}}\n" for entry in entries)
    config = parse_config(f"version: v1\nmig-configs:\n  a:\n{lines}", "config.yaml")["a"]
    return plan_machine(topology, "a", config)


def with_gpus(*gpus: Gpu) -> NodeTopology:
    return replace(lab_node(), gpus=gpus)


def gpu(device: str, bus: int = 1, *, mode: str | None = "disabled", capable: bool | None = True) -> Gpu:
    return Gpu(f"0000:{bus:02x}:00.0", "10de", device, 0, mig_capable=capable, mig_mode=mode)


def on(profiles: str, devices: str = "all") -> str:
    return f"devices: {devices}, mig-enabled: true, mig-devices: {{{profiles}}}"


OFF = "devices: all, mig-enabled: false"


def test_every_gpu_gets_placements():
    plan = planned(dgx_h100(), on("3g.40gb: 1, 2g.20gb: 1, 1g.10gb: 2"))
    assert plan.fits
    assert [one.index for one in plan.gpus] == [*range(8)]
    places = "2g.20gb at 0:2, 1g.10gb at 2:1, 1g.10gb at 3:1, 3g.40gb at 4:4"
    assert {", ".join(map(str, one.change.create)) for one in plan.gpus} == {places}


def test_only_nvidia_gpus_are_counted_and_in_pci_order():
    other = replace(gpu("0000", 0), vendor="1002")
    plan = planned(with_gpus(gpu("2330", 9), other, gpu("20b0", 3)), on("1g.5gb: 1", "[0]"), on("", "[1]"))
    assert [(one.index, one.model.key) for one in plan.gpus] == [(0, "a100-40gb"), (1, "h100-80gb")]


def test_gpus_without_an_entry_are_left_unchanged():
    plan = planned(dgx_h100(), on("1g.10gb: 7", "[0, 3]"))
    assert [one.index for one in plan.gpus] == [0, 3]
    assert plan.untouched == (1, 2, 4, 5, 6, 7)


def test_profiles_are_found_by_another_drivers_names():
    plan = planned(grace_blackwell_tray(), on("1g.24gb: 1, 3g.95gb: 1"))
    assert [each.profile for each in plan.gpus[0].change.create] == ["3g.93gb", "1g.23gb"]


OTHER_NAMES = {
    "94 GB are cut into 47": (94, "3g.48gb: 1, 1g.12gb: 1", ("3g.48gb", "3g.47gb")),
    "the name of this memory": (94, "3g.47gb: 1, 1g.12gb: 1", None),
    "a compute instance": (94, "1c.3g.48gb: 2", ("1c.3g.48gb", "1c.3g.47gb")),
    "a compute instance as large as its GPU instance": (94, "3c.3g.47gb: 1", None),
    "a memory that is not known": (None, "3g.48gb: 1", None),
}


@pytest.mark.parametrize(("memory", "profiles", "names"), OTHER_NAMES.values(), ids=OTHER_NAMES)
def test_name_that_mig_parted_would_refuse_is_noticed(memory, profiles, names):
    one = replace(gpu("2321"), memory_bytes=memory and memory * 2**30)
    plan = planned(with_gpus(one, replace(one, pci_address="0000:02:00.0")), on(profiles))
    assert plan.fits
    messages = [one.message for one in plan.notices if one.id == "mig-parted-name"]
    assert len(messages) == bool(names)
    for message in messages:
        assert message.startswith(f"GPU 0-1: mig-parted finds no {names[0]}, as it compares names exactly")
        assert message.endswith(f"creates no GPU instance at all; here it is taken for {names[1]}")


def test_compute_instances_are_placed_in_their_gpu_instance():
    plan = planned(dgx_h100(), on("1c.3g.40gb: 4"))
    assert [each.compute_instances for each in plan.gpus[0].change.create] == [(1, 1, 1), (1,)]


MODE_CHANGES = {
    "Ampere needs a reset": (
        gpu("20b0"),
        on(""),
        True,
        ("a change of the MIG mode needs a reset of the GPU (Ampere)",),
    ),
    "Ampere keeps its mode": (gpu("20b0", mode="enabled"), on(""), False, ()),
    "Hopper loses it": (gpu("2330"), on(""), True, ("the MIG mode is lost at a reboot (Hopper)",)),
    "off is not lost": (gpu("2901", mode="enabled"), OFF, True, ()),
    "no answer of the driver": (
        gpu("20b7", mode=None),
        on(""),
        None,
        ("its MIG mode is not known: it needs the driver's answer",),
    ),
    "no MIG, and off": (gpu("1db6", capable=False, mode=None), OFF, False, ()),
}


@pytest.mark.parametrize(("found", "entry", "changes", "notices"), MODE_CHANGES.values(), ids=MODE_CHANGES)
def test_mig_mode_change_needs_per_model(found, entry, changes, notices):
    plan = planned(with_gpus(found), entry)
    assert [(one.mode_changes, one.notices) for one in plan.gpus] == [(changes, notices)]
    assert plan.fits


def test_geometry_that_does_not_fit_gets_its_collision():
    collision = planned(dgx_h100(), on("3g.40gb: 2, 1g.10gb: 1")).gpus[0].collision
    assert collision.swapped


H100_FILTER = 'device-filter: "0x233010DE", '
A100_FILTER = 'device-filter: "0x20B010DE", '


def test_entry_that_matches_no_gpu_is_noticed_and_subsystem_ids_are_not_compared():
    plan = planned(dgx_h100(), A100_FILTER + on("1g.5gb: 7"), H100_FILTER + on("1g.10gb: 7"))
    assert plan.fits
    assert [one.message for one in plan.notices] == ["mig-configs.a[0] matches no GPU of this machine"]
    filters = 'device-filter: ["0x233110DE", "0x233010DE:0x16C010DE"], '
    plan = planned(dgx_h100(), filters + on("1g.10gb: 7"))
    assert len(plan.gpus) == 8
    assert "subsystem ids of GPUs are not known" in plan.notices[0].message


OTHER_MACHINES = {
    "a filter for others": (dgx_h100(), [A100_FILTER + on("1g.5gb: 7")], "its GPUs are 10de:2330"),
    "a machine without GPUs": (lab_node(), [OFF], "it has no NVIDIA GPU"),
    "an index beyond the last": (dgx_h100(), [on("", "[8]")], "there is no GPU 8"),
    "a GPU twice": (dgx_h100(), [on("", "[0, 1]"), OFF], "GPU 0 is named by mig-configs.a[0] already"),
}


@pytest.mark.parametrize(("machine", "entries", "said"), OTHER_MACHINES.values(), ids=OTHER_MACHINES)
def test_config_for_another_machine_is_refused(machine, entries, said):
    with pytest.raises(PlanError) as caught:
        planned(machine, *entries)
    assert said in str(caught.value)
    assert str(caught.value).startswith("mig-configs.a")
