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
from numaforge.machine.topology.model import Containerd, InstalledPackage, NodeTopology, Package, Userland
from numaforge.planning.document import dumps, loads
from numaforge.planning.plan import NodePlan
from numaforge.planning.profiles import load_profile
from numaforge.roles.device_plugin.plan import devices_of
from numaforge.roles.dra.plan import CpuDriverPlan, DraPlan, claims_of
from tests.fixtures.machines import KUBEADM_CONFIG, dgx_h100, kubeadm_kubelet, lab_node
from tests.fixtures.machines import machine as made
from tests.fixtures.plans import notices, planned, refusal

ENGINE = {"resource_engine": "dra"}
CRIO_SOCKET = ("--container-runtime-endpoint=unix:///var/run/crio/crio.sock",)


def plan(topology: NodeTopology, version: str = "1.36.2", **wish: Any) -> NodePlan:
    return planned(topology, version, **{"kubelet": ENGINE, **wish})


def refused(topology: NodeTopology, version: str = "1.36.2", **wish: Any) -> str:
    return refusal(topology, version, **{"kubelet": ENGINE, **wish})


def with_runtime(containerd: Containerd) -> NodeTopology:
    return replace(lab_node(), userland=Userland(containerd=containerd))


def with_crio(version: str) -> NodeTopology:
    return replace(
        lab_node(),
        kubelet=replace(kubeadm_kubelet(), flags=CRIO_SOCKET),
        userland=Userland(packages=(InstalledPackage("cri-o", version, "containerd"),)),
    )


STATIC = {"cpu_manager_policy": "static"}


def test_static_policy_is_refused_beside_a_running_cpu_driver():
    node = replace(lab_node(), userland=Userland(claim_drivers=("dra.cpu",)))
    message = refusal(node, "1.36.2", kubelet=STATIC)
    assert "dra.cpu has registered" in message
    assert "remove the driver" in message


@pytest.mark.parametrize(
    ("drivers", "kubelet"),
    [
        pytest.param(("gpu.nvidia.com",), STATIC, id="static-beside-a-driver-for-GPUs"),
        pytest.param((), STATIC, id="static-alone"),
        pytest.param(None, STATIC, id="drivers-are-not-known"),
        pytest.param(("dra.cpu",), {"cpu_manager_policy": "none"}, id="no-policy-beside-it"),
        pytest.param(("dra.cpu",), ENGINE, id="the-engine-that-it-belongs-to"),
    ],
)
def test_policy_is_planned_beside_drivers_that_leave_the_cpus_alone(drivers, kubelet):
    node = replace(lab_node(), userland=Userland(claim_drivers=drivers))
    assert planned(node, "1.36.2", kubelet=kubelet).kubelet


OFF = {"cpu_manager_policy": "none", "memory_manager_policy": "None"}


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param({"kubelet": ENGINE}, id="where-nothing-else-is-said"),
        pytest.param({"extends": "training", "kubelet": ENGINE}, id="over-a-profile-that-says-static"),
        pytest.param({"kubelet": {**ENGINE, **OFF}}, id="where-the-profile-says-the-same"),
    ],
)
def test_kubelet_managers_are_off_with_claims(profile):
    settings = planned(lab_node(), "1.36.2", **profile).kubelet.settings
    policies = ("cpuManagerPolicy", "memoryManagerPolicy", "topologyManagerPolicy")
    assert [settings[name] for name in policies] == ["none", "None", "none"]
    assert not {"cpuManagerPolicyOptions", "reservedMemory"} & settings.keys()


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
    "cpu_manager_policy": ("static", "cannot be static with"),
    "memory_manager_policy": ("Static", "cannot be Static with"),
    "topology_manager_policy": ("restricted", "cannot be restricted with"),
    "cpu_manager_options": ({"full-pcpus-only": True}, "has no effect with"),
}


@pytest.mark.parametrize("key", MANAGERS)
def test_kubelet_managers_beside_the_dra_engine_are_refused(key):
    value, why = MANAGERS[key]
    message = refused(lab_node(), kubelet={**ENGINE, key: value})
    assert f"kubelet.{key}: {why} resource_engine: dra" in message
    assert "set kubelet.resource_engine: kubelet" in message


def test_static_policy_over_an_inherited_dra_engine_is_refused(tmp_path):
    below = tmp_path / "claims.yaml"
    below.write_text("kubelet: {resource_engine: dra}\n")
    message = refusal(lab_node(), "1.36.2", extends=str(below), kubelet=STATIC)
    assert "cannot be static with resource_engine: dra" in message


WITH_STATIC = replace(kubeadm_kubelet(), config_text=KUBEADM_CONFIG + "cpuManagerPolicy: static\n")
SHARED = {"dra": {"gpus": "claims"}, "device_plugin": {"time_slicing": {"gpu": 4}}}
GROUPED = {"kubelet": {}, "dra": {"cpu_group_by": "machine"}}
FOUR_THREADS = made(cores_per_numa_node=4, threads=4, kubelet=kubeadm_kubelet())
NO_NRI = "NRI with disable = false"
REFUSED = {
    "static-in-its-file": (replace(lab_node(), kubelet=WITH_STATIC), {}, "kubelet.on_conflict: override"),
    "options-of-an-absent-driver": (lab_node(), GROUPED, "dra.cpu_group_by: has no effect"),
    "gpus-by-both": (dgx_h100(), SHARED, "leave the section out, or have dra.gpus be device-plugin"),
    "four-threads-per-core": (FOUR_THREADS, {}, "does not start on a machine with 4 threads to a core"),
    "containerd-1-without-NRI": (with_runtime(Containerd("1.7.28", cdi=True, nri=False)), {}, NO_NRI),
    "containerd-1-says-nothing": (with_runtime(Containerd("1.7.28")), {}, "enable_cdi = true"),
    "containerd-2-with-NRI-off": (with_runtime(Containerd("2.1.4", cdi=True, nri=False)), {}, NO_NRI),
    "CRI-O-1.29": (with_crio("1.29.4"), {}, "here is 1.29"),
}


@pytest.mark.parametrize(("machine", "wish", "message"), REFUSED.values(), ids=REFUSED)
def test_claims_are_refused_where_the_node_cannot_serve_them(machine, wish, message):
    assert message in refused(machine, **wish)


def test_kubelet_before_1_34_is_refused():
    message = refused(lab_node(), "1.33.5")
    assert "dra needs Kubernetes 1.34" in message
    assert "upgrade the kubelet" in message


@pytest.mark.parametrize(
    ("machine", "unknown"),
    [
        pytest.param(with_runtime(Containerd("2.1.4")), False, id="containerd-2"),
        pytest.param(with_runtime(Containerd("1.7.28", cdi=True, nri=True)), False, id="containerd-1"),
        pytest.param(with_crio("1.30.1"), False, id="CRI-O-1.30"),
        pytest.param(lab_node(), True, id="not-captured"),
    ],
)
def test_suitable_runtime_is_accepted_and_unknown_runtime_is_noticed(machine, unknown):
    assert ("runtime-unknown" in notices(plan(machine))) is unknown


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


def test_features_lost_with_dra_are_noticed():
    said = notices(plan(lab_node()))
    assert "memory" in said["alignment-by-claims-alone"]
    assert "full-pcpus-only" in said["cpu-driver-lacks"]
    assert "distribute-cpus-across-numa" in said["cpu-driver-lacks"]


def test_gpus_by_claims_are_left_out_of_allocatable():
    planned = plan(dgx_h100(), dra={"gpus": "claims"})
    assert "nvidia.com/gpu" not in planned.allocatable.quantities
    assert "nvidia.com/gpu" not in devices_of(dgx_h100(), planned)


NOTICED = {
    "claims-beside-static-cpus": (dgx_h100(), "1.36.2", {"kubelet": {}, "dra": {"gpus": "claims"}}),
    "gpus-by-device-plugin": (dgx_h100(), "1.36.2", {"dra": {"gpus": "device-plugin"}}),
    "pods-name-claims": (dgx_h100(), "1.35.4", {"dra": {"gpus": "claims"}}),
    "cpu-devices-one-by-one": (lab_node(), "1.36.2", {"dra": {"cpu_device_mode": "individual"}}),
    "cpus-chosen-outside": (lab_node(), "1.36.2", {"dra": {"cpu_group_by": "machine"}}),
}


@pytest.mark.parametrize("notice", NOTICED)
def test_drawback_of_claims_is_noticed(notice):
    machine, version, wish = NOTICED[notice]
    assert notice in notices(plan(machine, version, **wish))


def test_complete_change_to_dra_is_not_noticed():
    assert not {*NOTICED} & {*notices(plan(dgx_h100(), dra={"gpus": "claims"}))}


def test_claims_are_off_by_default():
    assert plan(lab_node(), kubelet={}).dra is None


@pytest.mark.parametrize(
    "lacking",
    [
        pytest.param({"numa_nodes": ()}, id="no-NUMA-nodes"),
        pytest.param({"l3_caches": ()}, id="no-caches"),
        pytest.param({"kubelet_packages": (Package(-1, lab_node().online),)}, id="packages-without-ids"),
    ],
)
def test_machine_without_usable_cpus_for_the_dra_driver_is_refused(lacking):
    found = replace(lab_node(), **lacking)
    for wish in ({}, {"cpu_group_by": "socket"}, {"cpu_device_mode": "individual"}):
        assert "the CPU driver offers no CPUs here" in refused(found, dra=wish)
    assert plan(found, dra={"cpu_group_by": "machine"}).dra.cpus is not None


@pytest.mark.parametrize(("version", "count"), [("1.35.4", 0), ("1.36.2", 8), ("1.37.2", 8)])
def test_gpu_requests_are_served_by_claims(version, count):
    served = claims_of(dgx_h100(), plan(dgx_h100(), version, dra={"gpus": "claims"}))
    assert served == ({"nvidia.com/gpu": count} if count else {})
    assert claims_of(dgx_h100(), plan(dgx_h100(), version)) == {}


def gpu_pod(name: str, gpus: int) -> Pod:
    resources = {"cpu": Fraction(2), "memory": Fraction(2**30), "nvidia.com/gpu": Fraction(gpus)}
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
