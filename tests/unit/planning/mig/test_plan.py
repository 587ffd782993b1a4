"""What a plan says of MIG: the smallest change, refusals before a host is touched, what is advertised."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import (
    ComputeInstance,
    DeviceHolder,
    Gpu,
    GpuInstance,
    GpuProcess,
    MigProfileOffer,
    NodeTopology,
    NvidiaDriver,
    NvidiaInstall,
)
from numaforge.planning.document import dumps, loads
from numaforge.planning.profile import NodeProfile
from numaforge.planning.profiles import load_profile
from numaforge.roles.mig.geometry import profiles_of
from numaforge.roles.mig.instance import MigInstance, MigPlan
from numaforge.roles.mig.machine import plan_profile
from numaforge.roles.mig.models import MigModel, MigProfile, model_named
from numaforge.roles.mig.plan import as_cut, plan_mig
from tests.fixtures.machines import dgx_h100, lab_node
from tests.fixtures.plans import planned
from tests.fixtures.tables import cases, tables
from tests.unit.planning.mig.oracle import allowed, fewest_destroyed

CASES = tables(__file__)

GIB = 2**30
H100 = model_named("h100-80gb")


def wish(*gpus: dict[str, Any], **mig: Any) -> NodeProfile:
    return load_profile({"name": "t", "mig": {"gpus": [*gpus], **mig}})


def gpu(device: str = "2330", bus: int = 1, **more: Any) -> Gpu:
    said: dict[str, Any] = {"mig_capable": True, "mig_mode": "disabled", "gpu_instances": ()}
    return Gpu(f"0000:{bus:02x}:00.0", "10de", device, 0, uuid=f"GPU-{bus}", **{**said, **more})


def cut(*texts: str, device: str = "2330", **more: Any) -> Gpu:
    """Return a GPU with GPU instances written as `19@0`, or `9@4:1+2` with compute instances, `!` in use."""
    sizes = {profile.id: profile for profile in model_named(device).profiles}
    instances = []
    for number, text in enumerate(texts):
        profile, place = text.rstrip("!").split("@")
        start, _, compute = place.partition(":")
        model = sizes[int(profile)]
        slices = [int(one) for one in compute.split("+")] if compute else [model.slices]
        instances.append(
            GpuInstance(
                number + 3,
                model.id,
                int(start),
                model.size,
                tuple(ComputeInstance(n, each, f"MIG-{number}-{n}") for n, each in enumerate(slices)),
                (100 + number,) if text.endswith("!") else (),
            )
        )
    pids = tuple(pid for one in instances for pid in one.pids)
    return gpu(device, mig_mode="enabled", gpu_instances=tuple(instances), pids=pids, **more)


def machine(*gpus: Gpu, **more: Any) -> NodeTopology:
    return replace(lab_node(), gpus=gpus, **more)


def lies(plan: MigPlan, index: int = 0) -> str:
    return ", ".join(f"{one.profile}@{one.start}" for one in plan.gpus[index].instances)


def refused(topology: NodeTopology, profile: NodeProfile) -> str:
    with pytest.raises(PlanError) as caught:
        plan_mig(topology, profile)
    return str(caught.value)


# ---- what is wanted ----


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        pytest.param({"3g.40gb": 1, "1g.10gb": 2}, "3g.40gb@0, 1g.10gb@4, 1g.10gb@5", id="by full name"),
        pytest.param({"1g": 1, "1g+me": 1}, "1g.10gb@0, 1g.10gb+me@1", id="by slices: the smallest memory"),
        pytest.param({"1g": "all"}, ", ".join(f"1g.10gb@{n}" for n in range(7)), id="as many as fit"),
        pytest.param(
            {"4g": 1, "1g": "all"}, "4g.40gb@0, 1g.10gb@4, 1g.10gb@5, 1g.10gb@6", id="as many as fit beside"
        ),
    ],
)
def test_device_counts_are_placed(devices, expected):
    assert lies(plan_mig(machine(gpu()), wish({"devices": devices})).value) == expected


def test_given_placements_are_used_unchanged():
    plan = plan_mig(machine(gpu()), wish({"placements": {"3g": [4], "1g.10gb": [2, 0]}})).value
    assert lies(plan) == "1g.10gb@0, 1g.10gb@2, 3g.40gb@4"


@cases("selection, chosen", CASES["mode_alone_is_planned_for_the_named_gpus_without_instances"])
def test_mode_alone_is_planned_for_the_named_gpus_without_instances(selection, chosen):
    found = machine(gpu(bus=1), gpu("20b0", bus=2), gpu(bus=3))
    gpus = plan_mig(found, wish({**selection, "mode": "enabled"})).value.gpus
    assert [(one.uuid, one.mode, one.instances) for one in gpus] == [(each, "enabled", ()) for each in chosen]


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        pytest.param((1, 0), ["GPU-2", "GPU-1"], id="NVML's"),
        pytest.param((None, None), ["GPU-1", "GPU-2"], id="PCI order without NVML"),
        pytest.param((None, 0), ["GPU-2", "GPU-1"], id="a lost GPU gets the number that is left"),
    ],
)
def test_gpus_are_counted_in_nvml_order(indices, expected):
    found = machine(*(gpu(bus=bus, index=index) for bus, index in enumerate(indices, 1)))
    plans = [plan_mig(found, wish({"indices": [index], "mode": "enabled"})).value for index in (0, 1)]
    assert [plan.gpus[0].uuid for plan in plans] == expected


def test_gpu_without_mig_satisfies_mig_off():
    plan = plan_mig(machine(gpu("1db6", mig_capable=False, mig_mode=None)), wish({"mode": "disabled"}))
    assert plan.value.gpus == ()


def test_machine_without_nvidia_gpus_has_nothing_to_partition():
    planned = plan_mig(machine(replace(gpu(), vendor="1002")), wish({"devices": {"1g": "all"}}))
    assert planned.value == MigPlan()
    assert [one.id for one in planned.notices] == ["no-mig-gpu"]


def test_profile_without_mig_plans_nothing():
    planned = plan_mig(dgx_h100(), load_profile({}))
    assert (planned.value, planned.decisions, planned.notices) == (MigPlan(), (), ())


def test_mig_parted_file_plans_mig_as_well():
    entry = {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.10gb": 2}}
    parted = {"version": "v1", "mig-configs": {"a": [entry], "b": [{**entry, "devices": [0]}]}}
    profile = load_profile({"mig": {"mig_parted": parted, "config": "a"}})
    [one] = plan_mig(machine(gpu(), gpu(bus=2)), profile).value.gpus
    assert (one.uuid, [each.start for each in one.instances]) == ("GPU-2", [0, 1])


def test_boards_are_distinguished_by_subsystem():
    filters = {"device-filter": "0x233010DE:0x16C110DE", "devices": "all", "mig-enabled": False}
    profile = load_profile({"mig": {"mig_parted": {"version": "v1", "mig-configs": {"a": [filters]}}}})
    found = machine(gpu(bus=1, subsystem="10de:16c0"), gpu(bus=2, subsystem="10de:16c1"))
    planned = plan_mig(found, profile)
    assert [one.uuid for one in planned.value.gpus] == ["GPU-2"]
    assert planned.notices == ()


# ---- what is there ----


def test_instance_of_an_unknown_profile_makes_room():
    found = cut("19@0")
    unknown = GpuInstance(9, 99, 4, 2)
    plan = machine(replace(found, gpu_instances=(*(found.gpu_instances or ()), unknown)))
    assert lies(plan_mig(plan, wish({"devices": {"1g": 1, "3g": 1}})).value) == "1g.10gb@0, 3g.40gb@4"


IN_USE = "what would have to go is in use: 1g.10gb at 0:1 by"
PODS = (DeviceHolder("MIG-0-0", "nvidia.com/mig-1g.10gb", "a/web", "main", present=True),)


GPUS_IN_USE = {
    "a process": (
        machine(cut("19@0!")),
        {"devices": {"7g": 1}},
        f"mig: GPU 0: {IN_USE} process 100\n  end them, or let a drain do it with mig.in_use: drain",
    ),
    "a process of a pod": (
        machine(cut("19@0!"), gpu_processes={100: GpuProcess("python", "a/web")}),
        {"mode": "disabled"},
        f"{IN_USE} process 100 (a/web)",
    ),
    "a pod to which the kubelet has given it": (
        machine(cut("19@0"), device_holders=PODS),
        {"devices": {"7g": 1}},
        f"{IN_USE} pod a/web",
    ),
    "a pod that the kubelet's checkpoint names": (
        machine(cut("19@0"), device_holders=PODS, holders_doubt="the host has no python3"),
        {"devices": {"7g": 1}},
        f"{IN_USE} pod a/web, which may have ended (the kubelet did not say: the host has no python3)",
    ),
    "other compute instances": (
        machine(cut("9@0!")),
        {"devices": {"1c.3g.40gb": 3}},
        "what would have to go is in use: 3g.40gb at 0:4 by process 100",
    ),
    "a change of the mode": (
        machine(gpu(pids=(7, 8))),
        {"mode": "enabled"},
        "its MIG mode has to change while it is in use by process 7, process 8",
    ),
    "a shared GPU": (
        machine(
            gpu(),
            device_holders=(DeviceHolder("GPU-1::2", "nvidia.com/gpu", "a/web", "main", present=True),),
        ),
        {"mode": "enabled"},
        "in use by pod a/web",
    ),
}


@pytest.mark.parametrize(("found", "entry", "said"), GPUS_IN_USE.values(), ids=GPUS_IN_USE)
def test_gpu_in_use_is_refused_unless_a_drain_is_allowed(found, entry, said):
    assert said in refused(found, wish(entry, strategy="none"))
    assert plan_mig(found, wish(entry, strategy="none", in_use="drain")).value.gpus


@cases("claims, mig, told", CASES["registered_dra_driver_is_noticed_unless_it_manages_mig"])
def test_registered_dra_driver_is_noticed_unless_it_manages_mig(claims, mig, told):
    found = machine(gpu(), nvidia_install=NvidiaInstall(gpu_claims=claims))
    notices = plan_mig(found, wish({"mode": "enabled"}, **mig)).notices
    assert ("mig-dra-driver" in [notice.id for notice in notices]) is told


def test_holder_of_a_deleted_pod_counts_as_free():
    found = machine(cut("19@0"), device_holders=tuple(replace(one, present=False) for one in PODS))
    assert plan_mig(found, wish({"devices": {"7g": 1}})).value.gpus


# ---- what cannot be ----

A100 = {"device": "20b0"}


REFUSALS = {
    "a profile that the model does not have": (
        machine(gpu(), gpu(bus=2)),
        wish({"devices": {"1g.99gb": 1}}),
        "mig: GPU 0-1: H100-SXM5-80GB has no profile 1g.99gb\n  choose among 1g.10gb, 1g.10gb+me",
    ),
    "a short name, too": (machine(gpu("20b7")), wish({"devices": {"3g": 1}}), "A30 has no profile 3g\n"),
    "what does not fit": (
        machine(gpu()),
        wish({"devices": {"3g": 2, "1g": 1}}),
        (
            "mig: GPU 0: these do not fit together: 2 x 3g.40gb, 1g.10gb\n"
            "  they need 9 memory slices, the GPU has 8\n"
            "  what fits: 2 x 3g.40gb, or 3g.40gb, 1g.10gb, or 3g.40gb, 2g.20gb, 1g.10gb"
        ),
    ),
    "none of all": (machine(gpu()), wish({"devices": {"7g": 1, "1g": "all"}}), "do not fit together"),
    "all of two": (
        machine(gpu()),
        wish({"devices": {"1g": "all", "2g": "all"}}),
        "1g and 2g cannot both be all\n  give one of them a number",
    ),
    "a start that a profile does not have": (
        machine(gpu()),
        wish({"placements": {"3g.40gb": [1]}}),
        "no 3g.40gb starts at 1\n  choose among 0, 4",
    ),
    "placements that overlap": (
        machine(gpu()),
        wish({"placements": {"3g.40gb": [0], "1g.10gb": [3]}}),
        "3g.40gb at 0 and 1g.10gb at 3 overlap",
    ),
    "placements beyond a limit": (
        machine(gpu()),
        wish({"placements": {"1g.10gb+me": [0, 1]}}),
        "at most 1 of 1g.10gb+me can exist at once, not 2",
    ),
    "no MIG": (machine(gpu("1db6", mig_capable=False)), wish({"mode": "enabled"}), "has no MIG"),
    "an unknown model": (machine(gpu("1db6")), wish({"mode": "enabled"}), "10de:1db6 is not among"),
    "a vGPU": (
        machine(gpu(virtualization="vgpu")),
        wish({"mode": "disabled"}),
        "it is a vGPU\n  its host decides about MIG",
    ),
    "a lost GPU": (
        machine(gpu(unanswered="GPU is lost")),
        wish({"mode": "disabled"}),
        "NVML has no answer for it: GPU is lost\n  reset the GPU",
    ),
    "a GPU for virtual machines": (
        machine(gpu(driver="vfio-pci")),
        wish({"mode": "enabled"}),
        "the kernel driver vfio-pci has it\n  bind it to nvidia",
    ),
    "another mode is pending": (
        machine(gpu(mig_pending="enabled")),
        wish({"mode": "disabled"}),
        (
            "its MIG mode is disabled, and enabled after the next reset or reboot\n"
            "  set it back: `nvidia-smi -i 0000:01:00.0 -mig 0`"
        ),
    ),
    "confidential computing": (
        machine(gpu(), nvidia=NvidiaDriver("580", confidential_computing="on")),
        wish({"mode": "enabled"}),
        "confidential computing is on, and MIG needs it off",
    ),
    "compute instances that the device plugin does not take": (
        machine(gpu()),
        wish({"devices": {"1c.3g.40gb": 2}}),
        "MIG profile '1c.3g.40gb' does not match any resource patterns)",
    ),
    "single with a whole GPU": (
        machine(gpu(), gpu(bus=2)),
        wish({"indices": [0], "devices": {"1g": 1}}, strategy="single"),
        ": all devices on the node must be configured with the same migEnabled value)",
    ),
    "single with two kinds": (
        machine(gpu()),
        wish({"devices": {"1g": 1, "2g": 1}}, strategy="single"),
        ": more than one MIG device type present on node)",
    ),
    "single without any": (
        machine(gpu()),
        wish({"mode": "enabled"}, strategy="single"),
        "device 0 has no MIG devices configured)",
    ),
    "an index that is not there": (
        machine(gpu()),
        wish({"indices": [1], "mode": "enabled"}),
        "mig.gpus[0].indices: there is no GPU 1\n  its GPUs are 0",
    ),
    "a UUID that is not there": (
        machine(gpu()),
        wish({"uuids": ["GPU-7"], "mode": "enabled"}),
        "mig.gpus[0].uuids: there is no GPU GPU-7\n  its GPUs are GPU-1",
    ),
    "a model that is not there": (
        machine(gpu()),
        wish({"model": "a30-24gb", "mode": "enabled"}),
        "mig.gpus[0].model: no GPU is a a30-24gb\n  its GPUs are 10de:2330",
    ),
    "a model that does not exist": (
        machine(gpu()),
        wish({"model": "h100", "mode": "enabled"}),
        "mig.gpus[0].model: 'h100' is not among the GPUs",
    ),
    "a GPU that two entries name": (
        machine(gpu()),
        wish({"mode": "enabled"}, {"indices": [0], "mode": "disabled"}),
        "mig.gpus[1]: GPU 0 is named by mig.gpus[0] already",
    ),
    "an index, no GPUs": (machine(), wish({"indices": [0], "mode": "enabled"}), "it has no NVIDIA GPU"),
}


@pytest.mark.parametrize(("found", "profile", "said"), REFUSALS.values(), ids=REFUSALS)
def test_impossible_plan_is_refused_before_a_host_is_touched(found, profile, said):
    assert said in refused(found, profile)


def test_each_reason_is_reported_once_with_its_gpus():
    found = machine(gpu(bus=1, unanswered="GPU is lost"), gpu("20b7", bus=2), gpu("20b7", bus=3))
    lines = refused(found, wish({"devices": {"3g": 1}})).splitlines()
    assert lines[0].startswith("mig: GPU 0: NVML has no answer")
    assert lines[2].startswith("GPU 1-2: A30 has no profile 3g")


def test_pending_mode_that_is_wanted_is_accepted():
    assert plan_mig(machine(gpu(**A100, mig_pending="enabled")), wish({"mode": "enabled"})).value.gpus


# ---- models that NVML describes ----


def offers(model: MigModel, **names: str) -> tuple[MigProfileOffer, ...]:
    """Return what NVML offers of a model, with other names for some ids."""
    rows = ((one, names.get(f"_{one.id}", one.name)) for one in model.profiles)
    return tuple(
        MigProfileOffer(one.id, name, one.slices, one.limit, None, one.size, one.starts) for one, name in rows
    )


def test_profile_names_come_from_the_driver():
    found = gpu("2941", memory_bytes=186 * GIB, mig_profiles=offers(model_named("GB200"), _19="1g.24gb"))
    planned = plan_mig(machine(found), wish({"devices": {"1g": 1}}))
    assert lies(planned.value) == "1g.24gb@0"
    assert "mig-not-confirmed" not in [one.id for one in planned.notices]


OFFERS = (
    MigProfileOffer(5, "2g.24gb", 2, 2, None, 6, (0, 6)),
    MigProfileOffer(14, "1g.12gb", 1, 4, None, 3, (0, 3, 6, 9)),
    MigProfileOffer(21, "1g.12gb+me", 1, 1, None, 3, (0, 3, 6, 9)),
)


def of_an_unknown_model(*profiles: MigProfileOffer) -> NodeTopology:
    return machine(gpu("2bb3", memory_bytes=48 * GIB, mig_profiles=profiles))


def test_model_missing_from_the_table_uses_nvml_offers():
    found = of_an_unknown_model(*OFFERS)
    placed = lies(plan_mig(found, wish({"devices": {"1g": 2, "2g": 1}})).value)
    assert placed == "2g.24gb@0, 1g.12gb@6, 1g.12gb@9"
    message = refused(found, wish({"devices": {"2g": 3}}))
    assert "only one GPU instance can have the OFA" not in message


@pytest.mark.parametrize(
    "change", [{"starts": ()}, {"size": None}, {"name": None}, {"name": "nonsense"}], ids=str
)
def test_unknown_model_needs_every_nvml_answer(change):
    found = of_an_unknown_model(replace(OFFERS[1], **change))
    assert "10de:2bb3 is not among the GPUs" in refused(found, wish({"devices": {"1g": 1}}))


# ---- what is said ----


@pytest.mark.parametrize(
    ("found", "entry", "said"),
    [
        pytest.param(
            gpu(**A100), {"devices": {"3g": 1}},
            ("MIG enabled: 3g.20gb at 0:4", "needs a reset of the GPU (Ampere)"), id="Ampere: a reset",
        ),
        pytest.param(
            gpu(), {"mode": "enabled"}, ("MIG enabled: no GPU instances", "lost at a reboot (Hopper)"),
            id="Hopper: a reboot loses it",
        ),
        pytest.param(gpu(), {"mode": "disabled"}, ("MIG disabled", "the profile's choice"), id="Hopper, off"),
    ],
)  # fmt: skip
def test_decision_names_the_consequences_of_a_mode_change(found, entry, said):
    decision = plan_mig(machine(found), wish(entry)).decisions[0]
    assert decision.subject == "mig.gpu[0]"
    assert (decision.value, decision.reason[-len(said[1]) :]) == said


@pytest.mark.parametrize(
    ("found", "mig", "notice"),
    [
        pytest.param(gpu(gpu_instances=None), {}, "mig-instances-unknown", id="what is there is not known"),
        pytest.param(gpu(nvlinks=18), {}, "mig-beside-nvlink", id="links that MIG cannot use"),
        pytest.param(gpu(nvlink_peers={"switch": 18}), {}, "mig-beside-nvlink", id="peers behind switches"),
        pytest.param(gpu("3182"), {}, "mig-not-confirmed", id="placements of a family"),
        pytest.param(gpu(), {"strategy": "none"}, "mig-not-advertised", id="none advertises whole GPUs"),
        pytest.param(gpu(), {}, None, id="nothing to know"),
    ],
)
def test_gpus_get_their_mig_notices(found, mig, notice):
    planned = plan_mig(machine(found), wish({"devices": {"1g": 1}}, **mig))
    assert [one.id for one in planned.notices] == ([notice] if notice else [])


GUEST = {**A100, "virtualization": "passthrough"}


def test_guest_reboots_for_the_mode_of_an_ampere():
    profile = load_profile({"mig": {"gpus": [{"mode": "enabled"}]}, "maintenance": {"reboot": "allowed"}})
    planned = plan_mig(machine(gpu(**GUEST)), profile)
    assert [one.id for one in planned.notices] == ["mig-reboot"]
    assert "needs a reboot of this virtual machine" in planned.decisions[0].reason


def test_gpus_needing_a_forbidden_reboot_stay_unchanged():
    there = machine(gpu(**GUEST, pids=(4711,)), gpu(**GUEST, bus=2, mig_mode="enabled"))
    planned = plan_mig(there, wish({"devices": {"1g": 1}}))
    assert [one.pci_address for one in planned.value.pending] == ["0000:01:00.0"]
    assert [(one.pci_address, len(one.instances)) for one in planned.value.gpus] == [("0000:02:00.0", 1)]
    assert [one.id for one in planned.notices] == ["mig-reboot", "reboot-pending"]


UNKNOWN = ["mig-label-unknown"]
ON, OFF = [{"mode": "enabled"}], [{"mode": "disabled"}]
LABELS = {
    "some MIG": ((gpu(),), ON, True, "mig-enabled", []),
    "no MIG": ((gpu(),), OFF, True, "mig-disabled", []),
    "not asked": ((gpu(),), ON, False, None, []),
    "a mode that waits": ((gpu(**GUEST, mig_mode="enabled"),), OFF, True, "mig-enabled", None),
    "none as it is": ((gpu(),), [], True, "mig-disabled", []),
    "some as it is": ((gpu(), gpu(mig_mode="enabled")), [], True, "mig-enabled", []),
    "unknown as it is": ((gpu(mig_mode=None),), [], True, None, UNKNOWN),
    "no GPU": ((), [], True, None, UNKNOWN),
}


@pytest.mark.parametrize(("gpus", "entries", "asked", "label", "noticed"), LABELS.values(), ids=LABELS)
def test_mig_label_is_set_on_request_and_says_the_mode(gpus, entries, asked, label, noticed):
    planned = plan_mig(machine(*gpus), wish(*entries, label=asked))
    assert planned.value.label == label
    assert noticed is None or [notice.id for notice in planned.notices] == noticed


def test_dra_driver_keeps_its_gpu_instances():
    found = machine(cut("19@0!"))
    profile = wish({"mode": "enabled"}, managed_by="dra-driver")
    assert plan_mig(found, profile).value.gpus[0].instances == ()
    assert as_cut(found, plan_mig(found, profile).value).gpus[0].gpu_instances == found.gpus[0].gpu_instances


# ---- what the node advertises ----


@cases("gpus, mig, devices", CASES["advertised"])
def test_allocatable_lists_the_planned_mig_devices(gpus, mig, devices):
    assert planned(dgx_h100(), mig={"gpus": gpus, **mig}).allocatable.devices == devices


def test_gpus_outside_the_plan_count_as_currently_cut():
    found = machine(gpu(bus=0), cut("19@0", "19@1", mig_profiles=offers(H100)))
    plan = planned(found, "1.36.0", mig={"gpus": [{"indices": [0], "devices": {"7g": 1}}]})
    assert plan.allocatable.devices == {"nvidia.com/mig-7g.80gb": 1, "nvidia.com/mig-1g.10gb": 2}


# ---- the same before and after ----


MODELS = [model_named(key) for key in ("a30-24gb", "a100-40gb", "rtx-pro-6000-96gb")]


@st.composite
def reachable(draw: st.DrawFn, model: MigModel) -> tuple[list[MigInstance], list[bool]]:
    """Draw GPU instances that a GPU can hold, and which of them are in use."""
    places = [profile.at(start) for profile in model.profiles for start in profile.starts]
    present: list[MigInstance] = []
    for placement in draw(st.lists(st.sampled_from(places), max_size=6)):
        if allowed(model, [*present, placement]):
            present.append(placement)
    return present, draw(st.lists(st.booleans(), min_size=len(present), max_size=len(present)))


@st.composite
def changes(draw: st.DrawFn) -> tuple[MigModel, list[MigInstance], list[bool], list[MigProfile]]:
    model = draw(st.sampled_from(MODELS))
    present, busy = draw(reachable(model))
    kept = [profile for profile in profiles_of(model, present) if draw(st.booleans())]
    return model, present, busy, kept + draw(st.lists(st.sampled_from(model.profiles), max_size=2))


def holding(
    model: MigModel, present: list[MigInstance], busy: list[bool], split: set[MigProfile] | None = None
) -> NodeTopology:
    """Return a machine with these GPU instances, those of `split` in compute instances of one slice."""
    instances = []
    for number, (one, profile) in enumerate(zip(present, profiles_of(model, present), strict=True)):
        sizes = [1] * profile.slices if profile in (split or ()) else [profile.slices]
        compute = tuple(ComputeInstance(n, size) for n, size in enumerate(sizes))
        pids = (100 + number,) if busy[number] else ()
        instances.append(GpuInstance(number, one.profile_id, one.start, one.size, compute, pids))
    return machine(gpu(model.devices[0], mig_mode="enabled", gpu_instances=tuple(instances)))


def asking(profiles: list[MigProfile], split: set[MigProfile] | None = None, **mig: Any) -> NodeProfile:
    counts = {
        f"1c.{one.name}" if one in (split or ()) else one.name: profiles.count(one)
        * (one.slices if one in (split or ()) else 1)
        for one in profiles
    }
    return wish({"devices": counts} if counts else {"mode": "enabled"}, **mig)


@given(changes())
def test_no_other_plan_destroys_fewer_instances(case):
    model, present, busy, wanted = case
    [one] = plan_profile(holding(model, present, busy), asking(wanted)).gpus
    fewest = fewest_destroyed(model, [*zip(present, busy, strict=True)], wanted)
    assert (one.refusal is None) == (fewest is not None)
    if fewest is not None:
        assert len(one.change.destroy) == fewest
        assert not any(instance.busy for instance in one.change.destroy)
        assert len(one.change.keep) + fewest == len(present)
        after = [*one.change.keep, *one.change.create]
        assert allowed(model, after)
        assert sorted(made.profile for made in after) == sorted(profile.name for profile in wanted)


@given(changes(), st.data())
def test_mig_plan_is_unchanged_after_being_applied(case, data):
    model, present, busy, wanted = case
    has, gets = (data.draw(st.sets(st.sampled_from(model.profiles))) for _ in range(2))
    before = holding(model, present, busy, has)
    profile = asking(wanted, gets, in_use="drain", strategy="none")
    try:
        planned = plan_mig(before, profile)
    except PlanError:
        return
    after = as_cut(before, planned.value)
    assert plan_mig(after, profile) == planned
    [one] = plan_profile(after, profile).gpus
    assert (one.mode_changes, one.change.destroy, one.change.create, one.change.recut) == (False, (), (), ())
    assert allowed(model, [*one.change.instances])


def test_plan_document_is_unchanged_after_being_applied():
    profile = {"extends": "inference-mig", "mig": {"strategy": "single"}}
    before = dgx_h100()
    before = replace(before, gpus=tuple(replace(one, gpu_instances=()) for one in before.gpus))
    plan = planned(before, **profile)
    assert dumps(planned(as_cut(before, plan.mig), **profile)) == dumps(plan)
    assert loads(dumps(plan)).mig == plan.mig
