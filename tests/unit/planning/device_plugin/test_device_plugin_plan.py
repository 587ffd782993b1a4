"""What the plan says of the device plugin, and which labels its Node gets."""

from dataclasses import replace

import pytest

from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.allocatable import plan_allocatable
from numaforge.planning.node_labels import plan_labels
from numaforge.planning.plan import NodePlan
from numaforge.planning.profile import NodeProfile
from numaforge.planning.profiles import load_profile
from numaforge.roles.device_plugin.config import parse_device_plugin
from numaforge.roles.device_plugin.manifests import device_plugin_config_map, device_plugin_text
from numaforge.roles.device_plugin.plan import plan_device_plugin
from numaforge.roles.mig.devices import nvidia_gpus
from numaforge.roles.mig.instance import MigGpu, MigInstance, MigPlan
from numaforge.roles.mig.plan import as_cut
from tests.fixtures.machines import dgx_h100
from tests.fixtures.plans import notices, planned, refusal

SEVEN = tuple(MigInstance("1g.10gb", 19, start, 1, (1,)) for start in range(7))
MIXED = (MigInstance("3g.40gb", 9, 4, 4, (3,)), MigInstance("1g.10gb", 19, 0, 1, (1,)))


def profile(**section: object) -> NodeProfile:
    return load_profile({"name": "serve", "device_plugin": section})


def bare() -> NodePlan:
    return planned(dgx_h100(), "1.36.2", name="serve")


def cut(*geometries: tuple[MigInstance, ...], **fields: str) -> MigPlan:
    """Return a plan that cuts the first GPUs so, and leaves the others whole."""
    gpus = nvidia_gpus(dgx_h100()).values()
    wanted = [*geometries, *[()] * (len(gpus) - len(geometries))]
    modes = ["enabled" if instances else "disabled" for instances in wanted]
    rows = zip(gpus, modes, wanted, strict=True)
    return MigPlan(tuple(MigGpu(gpu.pci_address, None, mode, cut) for gpu, mode, cut in rows), **fields)


def with_device_plugin(base: NodePlan, machine: NodeTopology, wish: NodeProfile) -> NodePlan:
    """Return a plan as the roles `device_plugin`, `allocatable` and `labels` go on from it."""
    machine = as_cut(machine, base.mig)
    plugin = plan_device_plugin(machine, wish, base.mig)
    labelled = plan_labels(machine, wish, base.mig, base.amd_partitions, base.rdma, base.kubelet)
    advertised = plugin.value.advertised
    return replace(
        base,
        device_plugin=plugin.value.plan,
        allocatable=plan_allocatable(base.allocatable, {}, advertised, base.amd_partitions, base.rdma).value,
        labels=labelled.value,
        decisions=(*base.decisions, *plugin.decisions, *labelled.decisions),
        notices=(*base.notices, *plugin.notices),
    )


def plan(mig: MigPlan, **section: object) -> NodePlan:
    return with_device_plugin(replace(bare(), mig=mig), dgx_h100(), profile(**section))


def test_profile_without_device_plugin_plans_no_config_or_label():
    assert (bare().device_plugin, bare().labels) == (None, {})
    with pytest.raises(PlanError, match="section device_plugin"):
        device_plugin_text(bare())


ADVERTISED = {
    "each GPU is advertised so often": (MigPlan(), {"time_slicing": {"gpu": 4}}, {"nvidia.com/gpu": 32}),
    "shared GPUs under another name": (
        MigPlan(),
        {"mps": {"nvidia.com/gpu": 8}, "rename_shared": True},
        {"nvidia.com/gpu.shared": 64},
    ),
    "MIG devices are shared by profile": (
        cut(MIXED, SEVEN),
        {"time_slicing": {"mig-1g.10gb": 2}},
        {"nvidia.com/gpu": 6, "nvidia.com/mig-1g.10gb": 16, "nvidia.com/mig-3g.40gb": 1},
    ),
    "single counts MIG devices as GPUs": (
        cut(*[SEVEN] * 8, strategy="single"),
        {"config": "small"},
        {"nvidia.com/gpu": 56},
    ),
}


@pytest.mark.parametrize(("mig", "section", "advertised"), ADVERTISED.values(), ids=ADVERTISED)
def test_advertised_devices_match_allocatable(mig, section, advertised):
    chosen = plan(mig, **section)
    assert chosen.device_plugin.advertised == chosen.allocatable.devices == advertised


@pytest.mark.parametrize(
    ("strategy", "devices"),
    [
        pytest.param("mixed", {}, id="not predicted"),
        pytest.param("none", {"nvidia.com/gpu": 16}, id="but for none, which looks at no MIG device"),
    ],
)
def test_unknown_mig_instances_are_not_predicted_unless_mig_is_ignored(strategy, devices):
    first, *others = dgx_h100().gpus
    unknown = replace(first, mig_mode="enabled", gpu_instances=None)
    wish = {"mig": {"strategy": strategy}, "device_plugin": {"time_slicing": {"gpu": 2}}}
    chosen = planned(replace(dgx_h100(), gpus=(unknown, *others)), "1.36.2", **wish)
    assert chosen.allocatable.devices == devices
    assert ("mig-devices-unknown" in notices(chosen)) is not bool(devices)


@pytest.mark.parametrize(
    ("section", "largest", "policy"),
    [
        pytest.param({}, range(1, 9), "best-effort", id="whole GPUs: for each number of them"),
        pytest.param({"time_slicing": {"gpu": 2}}, [1], "single-numa-node", id="replicas: with one"),
    ],
)
def test_largest_pods_have_one_replica_of_a_shared_gpu(section, largest, policy):
    chosen = planned(dgx_h100(), "1.36.2", device_plugin=section)
    assert [pod.devices for pod in chosen.largest_pods] == [*largest]
    assert chosen.kubelet.settings["topologyManagerPolicy"] == policy


def test_resources_of_other_plugins_stay_in_allocatable():
    known = {"nvidia.com/gpu": 8, "rdma/hca": 63}
    base = replace(bare(), allocatable=replace(bare().allocatable, devices=known))
    chosen = with_device_plugin(base, dgx_h100(), profile(time_slicing={"gpu": 2}))
    assert chosen.allocatable.devices == {"nvidia.com/gpu": 16, "rdma/hca": 63}


REFUSED = {
    "a DRA driver": (cut(managed_by="dra-driver"), {"time_slicing": {"gpu": 2}}, "a DRA driver has the GPUs"),
    "MPS with MIG": (cut(SEVEN), {"mps": {"gpu": 2}}, "using --mig-strategy=mixed is not supported with MPS"),
    "MPS with MIG devices as GPUs": (
        cut(*[SEVEN] * 8, strategy="single"),
        {"mps": {"gpu": 2}},
        "sharing using MPS is not supported for MIG devices",
    ),
    "single with some GPUs whole": (
        cut(SEVEN, strategy="single"),
        {"time_slicing": {"gpu": 2}},
        "all devices on the node must be configured with the same migEnabled value",
    ),
}


@pytest.mark.parametrize(("mig", "section", "said"), REFUSED.values(), ids=REFUSED)
def test_config_the_plugin_would_refuse_is_refused_while_planning(mig, section, said):
    with pytest.raises(PlanError, match=said):
        plan(mig, **section)


def test_sharing_a_missing_resource_is_noticed():
    said = notices(plan(MigPlan(), time_slicing={"mig-1g.10gb": 2}))
    assert said["shares-nothing"] == "this machine has no nvidia.com/mig-1g.10gb to share"


LABELS = {
    "the plugin's configuration": (
        MigPlan(),
        {"config": "shared"},
        {"nvidia.com/device-plugin.config": "shared"},
    ),
    "the strategy where a GPU is in MIG mode": (
        cut(SEVEN),
        {"config": "small"},
        {"nvidia.com/device-plugin.config": "small", "nvidia.com/mig.strategy": "mixed"},
    ),
    "feature discovery writes no label for none": (
        cut(SEVEN, strategy="none"),
        {"config": "small"},
        {"nvidia.com/device-plugin.config": "small"},
    ),
    "a node with MIG": (cut(SEVEN, label="mig-enabled"), {}, {"numaforge.io/mig": "mig-enabled"}),
    "a node without MIG": (cut(label="mig-disabled"), {}, {"numaforge.io/mig": "mig-disabled"}),
}


@pytest.mark.parametrize(("mig", "section", "labels"), LABELS.values(), ids=LABELS)
def test_node_gets_its_labels(mig, section, labels):
    chosen = plan(mig, **section)
    assert chosen.labels == labels
    said = {one.subject: one.value for one in chosen.decisions if one.subject.startswith("labels.")}
    assert said == {f"labels.{name}": value for name, value in labels.items()}


@pytest.mark.parametrize(
    "section",
    [
        {"time_slicing": {"gpu": 4}},
        {"mps": {"gpu": 8}, "rename_shared": True, "one_per_pod": False},
        {"time_slicing": {"gpu": 4}, "packed": True},
        {"config": "plain"},
    ],
    ids=["time-slicing", "MPS with another name", "one GPU filled first", "nothing shared"],
)
def test_rendered_config_reads_back_as_the_same_plan(section):
    chosen = plan(MigPlan(), **section)
    config = parse_device_plugin(device_plugin_text(chosen), "rendered")
    wish, cut_so = profile(**section), MigPlan(strategy=config.flags.mig_strategy)
    again = plan_device_plugin(dgx_h100(), wish, cut_so)
    assert again.value.plan == chosen.device_plugin
    assert config.sharing.taken.replicas == chosen.device_plugin.replicas
    policy = config.flags.plugin.shared_devices_allocation_policy
    assert policy == ("packed" if section.get("packed") else None)


def test_config_map_has_a_key_per_node_kind():
    shared = plan(MigPlan(), time_slicing={"gpu": 4}, config="shared")
    plans = [shared, shared, plan(cut(SEVEN), time_slicing={"mig-1g.10gb": 2})]
    manifest = device_plugin_config_map(plans, "plugin", "gpu-operator")
    assert (manifest["kind"], manifest["metadata"]["namespace"]) == ("ConfigMap", "gpu-operator")
    assert [*manifest["data"]] == ["serve", "shared"]
    other = plan(MigPlan(), time_slicing={"gpu": 2}, config="shared")
    with pytest.raises(PlanError, match="want different configurations under the key shared"):
        device_plugin_config_map([shared, other], "plugin", "gpu-operator")


@pytest.mark.parametrize(
    ("section", "said"),
    [
        pytest.param({"time_slicing": {"gpu": 1}}, "too small; write 2 or more", id="one replica"),
        pytest.param({"time_slicing": {"amd.com/gpu": 2}}, "not a resource of the", id="another vendor"),
        pytest.param({"time_slicing": {"gpu": 2}, "mps": {"gpu": 2}}, "mutually exclusive", id="both"),
        pytest.param({"mps": {"gpu": 49}}, "49", id="more clients than an MPS server has"),
        pytest.param({"config": "a b"}, "is not a label's value", id="a name that is no label"),
    ],
)
def test_invalid_device_plugin_settings_are_refused(section, said):
    assert said in refusal(dgx_h100(), device_plugin=section)


def test_mig_profile_is_planned_shared_and_labelled_together():
    mig = {"gpus": [{"devices": {"1g.10gb": 7}}], "label": True, "managed_by": "gpu-operator"}
    plugin = {"time_slicing": {"mig-1g.10gb": 2}, "config": "slices"}
    chosen = planned(dgx_h100(), "1.36.2", name="slices", mig=mig, device_plugin=plugin)
    assert chosen.allocatable.devices == {"nvidia.com/mig-1g.10gb": 112}
    config = chosen.labels["nvidia.com/mig.config"]
    assert config.startswith("slices-")
    assert chosen.labels == {
        "nvidia.com/mig.config": config,
        "numaforge.io/mig": "mig-enabled",
        "nvidia.com/device-plugin.config": "slices",
        "nvidia.com/mig.strategy": "mixed",
    }
