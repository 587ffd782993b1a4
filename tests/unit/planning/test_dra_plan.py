"""CPUs and GPUs by claims: the kubelet is the consistent other half, and what cannot be is refused."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from numaforge.cluster.explain.claims import NOTHING_KNOWN
from numaforge.cluster.explain.node_claims import with_claims
from numaforge.kubelet.admission.fit import Scenario
from numaforge.kubelet.admission.pod import Container, Pod
from numaforge.kubelet.admission.scheduler import unschedulable
from numaforge.lib.errors import PlanError
from numaforge.machine.topology.model import Containerd, InstalledPackage, NodeTopology, Package, Userland
from numaforge.planning.document import dumps, loads
from numaforge.planning.node import plan_node
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.roles.device_plugin.plan import devices_of
from numaforge.roles.dra.plan import CpuDriverPlan, DraPlan, claims_of
from tests.fixtures.machines import KUBEADM_CONFIG, dgx_h100, kubeadm_kubelet, lab_node
from tests.fixtures.machines import machine as made

ENGINE = {"resource_engine": "dra"}
CRIO_SOCKET = ("--container-runtime-endpoint=unix:///var/run/crio/crio.sock",)


def plan(topology: NodeTopology, version: str = "1.36.2", **wish: Any) -> NodePlan:
    return plan_node(topology, load_profile({"kubelet": ENGINE, **wish}), version)


def refusal(topology: NodeTopology, version: str = "1.36.2", **wish: Any) -> str:
    with pytest.raises(PlanError) as caught:
        plan(topology, version, **wish)
    return str(caught.value)


def notices(planned: NodePlan) -> set[str]:
    return {notice.id for notice in planned.notices}


def with_runtime(containerd: Containerd) -> NodeTopology:
    return replace(lab_node(), userland=Userland(containerd=containerd))


def with_crio(version: str) -> NodeTopology:
    return replace(
        lab_node(),
        kubelet=replace(kubeadm_kubelet(), flags=CRIO_SOCKET),
        userland=Userland(packages=(InstalledPackage("cri-o", version, "containerd"),)),
    )


STATIC = {"cpu_manager_policy": "static"}


@pytest.mark.parametrize(
    ("drivers", "kubelet", "refused"),
    [
        pytest.param(("dra.cpu",), STATIC, True, id="static-beside-the-CPU-driver"),
        pytest.param(("gpu.nvidia.com",), STATIC, False, id="static-beside-a-driver-for-GPUs"),
        pytest.param((), STATIC, False, id="static-alone"),
        pytest.param(None, STATIC, False, id="drivers-are-not-known"),
        pytest.param(("dra.cpu",), {"cpu_manager_policy": "none"}, False, id="no-policy-beside-it"),
        pytest.param(("dra.cpu",), ENGINE, False, id="the-engine-that-it-belongs-to"),
    ],
)
def test_static_policy_is_refused_beside_a_running_cpu_driver(drivers, kubelet, refused):
    node = replace(lab_node(), userland=Userland(claim_drivers=drivers))
    profile = load_profile({"kubelet": kubelet})
    if not refused:
        assert plan_node(node, profile, "1.36.2").kubelet
        return
    with pytest.raises(PlanError, match=r"dra\.cpu has registered(?s:.*)remove the driver"):
        plan_node(node, profile, "1.36.2")


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param({"kubelet": ENGINE}, id="where-nothing-else-is-said"),
        pytest.param({"extends": "training", "kubelet": ENGINE}, id="over-a-profile-that-says-static"),
        pytest.param(
            {"kubelet": {**ENGINE, "cpu_manager_policy": "none", "memory_manager_policy": "None"}},
            id="where-the-profile-says-the-same",
        ),
    ],
)
def test_kubelet_managers_are_off_with_claims(profile):
    planned = plan_node(lab_node(), load_profile(profile), "1.36.2")
    settings = planned.kubelet.settings
    policies = ("cpuManagerPolicy", "memoryManagerPolicy", "topologyManagerPolicy")
    assert [settings[name] for name in policies] == ["none", "None", "none"]
    assert "cpuManagerPolicyOptions" not in settings
    assert "reservedMemory" not in settings


def test_cpu_driver_gets_the_reserved_cpus_of_the_kubelet():
    planned = plan(lab_node())
    reserved = planned.kubelet.settings["reservedSystemCPUs"]
    assert reserved
    assert planned.dra == DraPlan(CpuDriverPlan("grouped", "numanode", reserved))
    assert loads(dumps(planned)) == planned


def test_cpu_driver_settings_come_from_the_profile():
    planned = plan(lab_node(), dra={"cpu_device_mode": "individual", "cpu_group_by": "socket"})
    assert (planned.dra.cpus.device_mode, planned.dra.cpus.group_by) == ("individual", "socket")


def test_sources_of_replaced_settings_are_dropped():
    profile = load_profile({"extends": "training", "kubelet": ENGINE})
    assert not [path for path in profile.sources if path.startswith(("kubelet.cpu", "kubelet.memory"))]
    assert profile.sources["tuning.governor"]


MANAGERS = {
    "static-cpus": (
        {"cpu_manager_policy": "static"},
        "kubelet.cpu_manager_policy: cannot be static with resource_engine: dra",
    ),
    "static-memory": (
        {"memory_manager_policy": "Static"},
        "kubelet.memory_manager_policy: cannot be Static with resource_engine: dra",
    ),
    "alignment": (
        {"topology_manager_policy": "restricted"},
        "kubelet.topology_manager_policy: cannot be restricted with resource_engine: dra",
    ),
    "options-of-a-manager-that-is-off": (
        {"cpu_manager_options": {"full-pcpus-only": True}},
        "kubelet.cpu_manager_options: has no effect with resource_engine: dra",
    ),
}


@pytest.mark.parametrize(("said", "message"), MANAGERS.values(), ids=MANAGERS)
def test_kubelet_managers_beside_the_dra_engine_are_refused(said, message):
    told = refusal(lab_node(), kubelet={**ENGINE, **said})
    assert message in told
    assert "set kubelet.resource_engine: kubelet" in told


def test_static_policy_over_an_inherited_dra_engine_is_refused(tmp_path):
    below = tmp_path / "claims.yaml"
    below.write_text("kubelet: {resource_engine: dra}\n")
    above = tmp_path / "mine.yaml"
    above.write_text("extends: ./claims.yaml\nkubelet: {cpu_manager_policy: static}\n")
    with pytest.raises(PlanError, match="cannot be static with resource_engine: dra"):
        plan_node(lab_node(), load_profile(above), "1.36.2")


def test_static_policy_in_the_kubelet_file_is_a_conflict():
    own = replace(kubeadm_kubelet(), config_text=KUBEADM_CONFIG + "cpuManagerPolicy: static\n")
    told = refusal(replace(lab_node(), kubelet=own))
    assert "cpuManagerPolicy: static" in told
    assert "kubelet.on_conflict: override" in told


@pytest.mark.parametrize(
    ("version", "gates"),
    [
        pytest.param("1.34.4", {"DRAConsumableCapacity": True}, id="1.34-turns-it-on"),
        pytest.param("1.35.4", {"DRAConsumableCapacity": True}, id="1.35-turns-it-on"),
        pytest.param("1.36.2", {}, id="1.36-has-it-on"),
    ],
)
def test_feature_gate_is_set_where_the_version_needs_it(version, gates):
    planned = plan(lab_node(), version)
    assert planned.kubelet.settings.get("featureGates", {}) == gates
    assert ("gate-of-the-control-plane" in notices(planned)) is bool(gates)


def test_kubelet_before_1_34_is_refused():
    told = refusal(lab_node(), "1.33.5")
    assert "dra needs Kubernetes 1.34" in told
    assert "upgrade the kubelet" in told


@pytest.mark.parametrize(
    ("machine", "lacks"),
    [
        pytest.param(
            with_runtime(Containerd("1.7.28", cdi=True, nri=False)),
            "NRI with disable = false",
            id="containerd-1-without-NRI",
        ),
        pytest.param(with_runtime(Containerd("1.7.28")), "enable_cdi = true", id="containerd-1-says-nothing"),
        pytest.param(
            with_runtime(Containerd("2.1.4", cdi=True, nri=False)),
            "NRI with disable = false",
            id="containerd-2-with-NRI-off",
        ),
        pytest.param(with_crio("1.29.4"), "here is 1.29", id="CRI-O-1.29"),
    ],
)
def test_runtime_without_cpu_pinning_is_refused(machine, lacks):
    assert lacks in refusal(machine)


@pytest.mark.parametrize(
    ("machine", "unknown"),
    [
        pytest.param(with_runtime(Containerd("2.1.4")), False, id="containerd-2"),
        pytest.param(
            with_runtime(Containerd("1.7.28", cdi=True, nri=True)), False, id="containerd-1-with-both"
        ),
        pytest.param(with_crio("1.30.1"), False, id="CRI-O-1.30"),
        pytest.param(lab_node(), True, id="not-captured"),
    ],
)
def test_suitable_runtime_is_accepted_and_unknown_runtime_is_noticed(machine, unknown):
    assert ("runtime-unknown" in notices(plan(machine))) is unknown


def test_features_lost_with_dra_are_noticed():
    said = {notice.id: notice.message for notice in plan(lab_node()).notices}
    assert "memory" in said["alignment-by-claims-alone"]
    assert "full-pcpus-only" in said["cpu-driver-lacks"]
    assert "distribute-cpus-across-numa" in said["cpu-driver-lacks"]


def test_options_of_an_absent_driver_are_refused():
    assert "dra.cpu_group_by: has no effect" in refusal(
        lab_node(), kubelet={}, dra={"cpu_group_by": "machine"}
    )


def test_gpus_by_claims_are_left_out_of_allocatable():
    planned = plan(dgx_h100(), dra={"gpus": "claims"})
    assert "nvidia.com/gpu" not in planned.allocatable.quantities
    assert "nvidia.com/gpu" not in devices_of(dgx_h100(), planned)


def test_gpus_by_both_claims_and_device_plugin_are_refused():
    told = refusal(dgx_h100(), dra={"gpus": "claims"}, device_plugin={"time_slicing": {"gpu": 4}})
    assert "leave the section out, or have dra.gpus be device-plugin" in told


@pytest.mark.parametrize(
    ("kubelet", "gpus", "version", "notice"),
    [
        pytest.param({}, "claims", "1.36.2", "claims-beside-static-cpus", id="GPUs-by-claims-CPUs-static"),
        pytest.param(ENGINE, "device-plugin", "1.36.2", "gpus-by-device-plugin", id="CPUs-by-claims-alone"),
        pytest.param(
            ENGINE, "claims", "1.35.4", "pods-name-claims", id="before-extended-resources-by-claims"
        ),
    ],
)
def test_partial_move_to_claims_is_noticed(kubelet, gpus, version, notice):
    assert notice in notices(plan(dgx_h100(), version, kubelet=kubelet, dra={"gpus": gpus}))


def test_complete_change_to_dra_is_not_noticed():
    told = notices(plan(dgx_h100(), dra={"gpus": "claims"}))
    assert not told & {"claims-beside-static-cpus", "gpus-by-device-plugin", "pods-name-claims"}


def test_claims_are_off_by_default():
    assert plan(lab_node(), kubelet={}).dra is None


def test_four_threads_per_core_are_refused():
    told = refusal(made(cores_per_numa_node=4, threads=4, kubelet=kubeadm_kubelet()))
    assert "does not start on a machine with 4 threads to a core" in told


def without_packages(found: NodeTopology) -> NodeTopology:
    return replace(found, kubelet_packages=(Package(-1, found.online),))


@pytest.mark.parametrize(
    "lacking",
    [
        pytest.param(lambda found: replace(found, numa_nodes=()), id="no-NUMA-nodes"),
        pytest.param(lambda found: replace(found, l3_caches=()), id="no-caches"),
        pytest.param(without_packages, id="packages-numbered-minus-one"),
    ],
)
def test_machine_without_usable_cpus_for_the_dra_driver_is_refused(lacking):
    found = lacking(lab_node())
    for wish in ({}, {"cpu_group_by": "socket"}, {"cpu_device_mode": "individual"}):
        assert "the CPU driver offers no CPUs here" in refusal(found, dra=wish)
    dra = plan(found, dra={"cpu_group_by": "machine"}).dra
    assert dra.cpus is not None


@pytest.mark.parametrize(
    ("said", "notice"),
    [
        pytest.param({"cpu_device_mode": "individual"}, "cpu-devices-one-by-one", id="individual"),
        pytest.param({"cpu_group_by": "machine"}, "cpus-chosen-outside", id="machine"),
    ],
)
def test_modes_with_drawbacks_are_noticed(said, notice):
    assert notice in notices(plan(lab_node(), dra=said))


@pytest.mark.parametrize(
    ("version", "served"),
    [
        pytest.param("1.35.4", {}, id="before-1.36-none"),
        pytest.param("1.36.2", {"nvidia.com/gpu": 8}, id="from-1.36-on"),
        pytest.param("1.37.2", {"nvidia.com/gpu": 8}, id="in-1.37"),
    ],
)
def test_gpu_requests_are_served_by_claims(version, served):
    assert claims_of(dgx_h100(), plan(dgx_h100(), version, dra={"gpus": "claims"})) == served


def test_device_plugin_gpus_need_no_claims():
    assert claims_of(dgx_h100(), plan(dgx_h100())) == {}


def gpu_pod(name: str, gpus: int) -> Pod:
    asked = {"cpu": 2, "memory": 2**30, "nvidia.com/gpu": gpus}
    resources = {name: Fraction(amount) for name, amount in asked.items()}
    return Pod(name, (Container("main", requests=resources, limits=resources),))


def test_scheduler_counts_claims_and_kubelet_ignores_them():
    machine_by_claims = dgx_h100()
    planned = plan(machine_by_claims, dra={"gpus": "claims"})
    scenario = Scenario(machine_by_claims, dict(planned.kubelet.settings), {})
    node = with_claims(scenario, planned, NOTHING_KNOWN).node()
    six, four = gpu_pod("six", 6), gpu_pod("four", 4)
    assert unschedulable(node, six) is None
    assert node.admit(six).admitted
    refused = unschedulable(node, four)
    assert refused.message == "0/1 nodes are available: 1 cannot allocate all claims."
    assert unschedulable(node, gpu_pod("two", 2)) is None
