"""A node that admits pods: what always holds, and the rules between managers, predicates and state files."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.kubelet.admission.advice import advice as advise
from numaforge.kubelet.admission.masks import ids_of, mask_of
from numaforge.kubelet.admission.node import Admission, Node
from numaforge.kubelet.admission.pod import Pod
from numaforge.kubelet.admission.refusal import KubeletHangError
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import KubeletConfigError, NumaforgeError
from numaforge.machine.topology.model import HugepagePool, NodeTopology
from tests.fixtures.machines import GIB, gb200_cdmm, grace_blackwell_tray, laptop, machine, quad_gh200
from tests.fixtures.memory_state import memory_state
from tests.fixtures.tables import cases

SMALL = machine(packages=2, cores_per_numa_node=4, numa_memory_bytes=16 * GIB)
FOUR_NODES = machine(packages=2, numa_nodes_per_package=2, cores_per_numa_node=4, numa_memory_bytes=8 * GIB)
NO_SMT = machine(packages=2, cores_per_numa_node=6, threads=1, numa_memory_bytes=16 * GIB)
GPUS = {"nvidia.com/gpu": [0, 0, 1, 1]}

STATIC = {
    "cpuManagerPolicy": "static",
    "reservedSystemCPUs": "0,8",
    "evictionHard": {"memory.available": "0%"},
}


def pinned(topology: NodeTopology, **more: Any) -> dict[str, Any]:
    """A configuration with every manager on, that keeps back 1 GiB on each NUMA node."""
    return {
        **STATIC,
        "memoryManagerPolicy": "Static",
        "systemReserved": {"memory": f"{len(topology.numa_nodes)}Gi"},
        "reservedMemory": [{"numaNode": n.id, "limits": {"memory": "1Gi"}} for n in topology.numa_nodes],
        **more,
    }


def pod(cpu: str | int, memory: str = "1Gi", **more: Any) -> dict[str, Any]:
    limits = {"cpu": str(cpu), "memory": memory, **{resource: str(count) for resource, count in more.items()}}
    return {"containers": [{"name": "main", "resources": {"limits": limits}}]}


def cpus_of(admission: Admission, container: str = "main") -> str:
    return format_cpulist(admission.cpus.get(container, frozenset()))


WITH_INIT = {
    "initContainers": [{"name": "init", "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}],
    **pod(6),
}


@cases(
    "config, pods, advice",
    {
        "half a core under full-pcpus-only": (
            {**STATIC, "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}},
            [pod(1)],
            ["ask for a multiple of 2 CPUs"],
        ),
        "no pages": (
            pinned(SMALL, topologyManagerPolicy="single-numa-node"),
            [pod(2, **{"hugepages-2Mi": "64Mi"})],
            ["the node has no hugepages-2Mi: reserve more pages"],
        ),
        "memory of several NUMA nodes, one of which serves a pod alone": (
            pinned(SMALL),
            [pod(1), pod(1, "20Gi")],
            ["memory of several only where no pod has some of one alone"],
        ),
        "CPUs of an init container on a full NUMA node": (
            {**STATIC, "topologyManagerPolicy": "single-numa-node"},
            [pod(5), WITH_INIT],
            ["its init containers are in the way"],
        ),
        "an init container that is not the cause": (
            {**STATIC, "topologyManagerPolicy": "single-numa-node"},
            [pod(5), pod(6), WITH_INIT],
            [],
        ),
        "more than the node has": ({**STATIC, "topologyManagerPolicy": "restricted"}, [pod(40)], []),
    },
)
def test_refusal_comes_with_what_would_admit_the_pod(
    config: dict[str, Any], pods: list[dict[str, Any]], advice: list[str]
) -> None:
    node = Node(SMALL, config)
    *earlier, last = (Pod.from_manifest({"spec": spec}, f"p{number}") for number, spec in enumerate(pods))
    assert all(node.admit(one).admitted for one in earlier)
    refusal = node.admit(last)
    assert not refusal.admitted
    lines = list(advise(node, last, refusal))
    assert len(lines) == len(advice)
    assert all(said in line for said, line in zip(advice, lines, strict=True))
    assert node.pods == tuple(one.name for one in earlier)


def held(node: Node) -> Any:
    """Everything that the managers remember about pods."""
    assert node.cpu_manager
    memory = node.memory_manager
    return (
        node.cpu_manager.default,
        node.cpu_manager.assignments,
        {
            n: (m.assignments, m.group, {r: (t.free, t.reserved) for r, t in m.tables.items()})
            for n, m in memory.nodes.items()
        }
        if memory
        else {},
        memory.assignments if memory else {},
        node.device_manager.assignments,
        {resource: plugin.allocated for resource, plugin in node.device_manager.plugins.items()},
    )


RESOURCES = st.builds(
    lambda cpu, memory, gpus: (
        {"cpu": cpu, "memory": f"{memory}Mi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    ),
    st.sampled_from(["1", "2", "3", "4", "6", "10", "1500m"]),
    st.integers(1, 20000),
    st.integers(0, 3),
)
CONTAINERS = st.lists(RESOURCES, min_size=1, max_size=3)
PODS = st.builds(
    lambda apps, inits, sidecar: {
        "containers": [{"name": f"c{i}", "resources": {"limits": limits}} for i, limits in enumerate(apps)],
        "initContainers": [
            {"name": f"i{i}", "resources": {"limits": limits}}
            | ({"restartPolicy": "Always"} if sidecar else {})
            for i, limits in enumerate(inits)
        ],
    },
    CONTAINERS,
    st.lists(RESOURCES, max_size=1),
    st.booleans(),
)
OPTIONS = st.sampled_from(
    [
        {},
        {"full-pcpus-only": "true"},
        {"distribute-cpus-across-numa": "true"},
        {"full-pcpus-only": "true", "strict-cpu-reservation": "true"},
        {"distribute-cpus-across-cores": "true"},
        {"prefer-align-cpus-by-uncorecache": "true"},
    ]
)
OPERATIONS = st.lists(st.tuples(PODS, st.booleans()), min_size=1, max_size=8)
TOPOLOGIES = st.sampled_from([SMALL, FOUR_NODES, NO_SMT])
POLICIES = st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"])
SCOPES = st.sampled_from(["container", "pod"])


def node_of(topology: NodeTopology, policy: str, scope: str, options: Mapping[str, str]) -> Node:
    config = pinned(
        topology,
        reservedSystemCPUs="0,8" if topology is SMALL else "0,16" if topology is FOUR_NODES else "0",
        topologyManagerPolicy=policy,
        topologyManagerScope=scope,
        cpuManagerPolicyOptions=dict(options),
    )
    return Node(topology, config, GPUS)


@given(TOPOLOGIES, POLICIES, SCOPES, OPTIONS, OPERATIONS)
def test_cpus_and_devices_are_exclusive_and_reserved_cpus_stay_free(
    topology, policy, scope, options, operations
):
    node = node_of(topology, policy, scope, options)
    for number, (manifest, leaves) in enumerate(operations):
        admission = node.admit(manifest, f"p{number}")
        if admission.admitted and leaves:
            node.remove(admission.name)
        node.settle()
        pods = [
            mask_of(set().union(*map(ids_of, held.values())))
            for held in node.cpu_manager.assignments.values()
        ]
        together = 0
        for cpus in pods:
            assert cpus & together == 0
            assert cpus & node.cpu_manager.reserved == 0
            together |= cpus
        assert together & node.cpu_manager.default == 0
        assert set(node.cpu_manager.assignments) <= set(node.pods)
        given = 0
        for containers in node.device_manager.assignments.values():
            mine = 0
            for resources in containers.values():
                mine |= resources.get("nvidia.com/gpu", 0)
            assert mine & given == 0
            given |= mine


@given(TOPOLOGIES, POLICIES, SCOPES, OPTIONS, OPERATIONS)
def test_removal_restores_the_state(topology, policy, scope, options, operations):
    node = node_of(topology, policy, scope, options)
    fresh = held(node_of(topology, policy, scope, options))
    for number, (manifest, _) in enumerate(operations):
        node.admit(manifest, f"p{number}")
    for name in node.pods:
        node.remove(name)
    node.settle()
    assert held(node) == fresh


@given(TOPOLOGIES, SCOPES, OPTIONS, OPERATIONS)
def test_single_numa_node_refuses_spanning_pods(topology, scope, options, operations):
    node = node_of(topology, "single-numa-node", scope, options)
    node_of_cpu = {cpu: numa.id for numa in topology.numa_nodes for cpu in numa.cpus}
    for number, (manifest, _) in enumerate(operations):
        admission = node.admit(manifest, f"p{number}")
        used: dict[str, set[int]] = {}
        for container, cpus in admission.cpus.items():
            used.setdefault(container, set()).update(node_of_cpu[cpu] for cpu in cpus)
        for container, blocks in admission.memory.items():
            used.setdefault(container, set()).update(*(block.numa_nodes for block in blocks))
        for container, devices in admission.devices.items():
            used.setdefault(container, set()).update(int(i) // 2 for i in devices["nvidia.com/gpu"])
        assert all(len(nodes) <= 1 for nodes in used.values())
        if scope == "pod":
            assert len(set().union(*used.values())) <= 1


def test_partial_allocations_of_a_refused_pod_return_at_next_admission():
    node = Node(SMALL, {**STATIC, "topologyManagerPolicy": "restricted"}, GPUS)
    assert node.cpu_manager
    half = {"name": "side", "resources": {"limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "5"}}}
    manifest = pod(4)
    manifest["containers"].append(half)
    assert node.admit(manifest, "refused").reason == "TopologyAffinityError"
    assert node.cpu_manager.assignments["refused"].keys() == {"main"}
    assert node.admit(pod(8), "next").admitted
    assert node.cpu_manager.assignments.keys() == {"next"}


def test_predicates_run_after_the_managers():
    node = Node(SMALL, {**STATIC, "topologyManagerPolicy": "best-effort"}, GPUS)
    node.admit(
        {"containers": [{"name": "shared", "resources": {"requests": {"cpu": "10", "memory": "1Gi"}}}]}, "a"
    )
    refused = node.admit(pod(6), "b")
    assert (refused.reason, refused.message, refused.in_the_way) == (
        "OutOfcpu",
        "Node didn't have enough resource: cpu, requested: 6000, used: 10000, capacity: 14000",
        ("cpu",),
    )
    assert refused.status_message == f"Pod was rejected: {refused.message}"
    assert "b" in node.cpu_manager.assignments


@cases(
    "manifest, reason, in_the_way",
    {
        "more CPUs than there are": (pod(20), "TopologyAffinityError", ("cpu",)),
        "a pod that fits": (pod(2), None, ()),
        "too many GPUs": (pod(2, **{"nvidia.com/gpu": 5}), "TopologyAffinityError", ("nvidia.com/gpu",)),
        "memory that spans": (pod(2, "20Gi"), "TopologyAffinityError", ("memory",)),
        "a resource that no plugin has registered is ignored": (pod(2, **{"example.com/nic": 1}), None, ()),
    },
)
def test_limiting_resource_is_named(manifest, reason, in_the_way):
    config = pinned(SMALL, topologyManagerPolicy="single-numa-node")
    admission = Node(SMALL, config, GPUS).admit(manifest, "p")
    assert (admission.reason, admission.in_the_way) == (reason, in_the_way)


def test_resources_on_different_numa_nodes_are_named():
    node = Node(SMALL, pinned(SMALL, topologyManagerPolicy="single-numa-node"), GPUS)
    assert node.admit(pod(6), "cpus of node 0").admitted
    assert node.admit(pod(2, **{"nvidia.com/gpu": 2}), "gpus of node 1").admitted
    refused = node.admit(pod(4, **{"nvidia.com/gpu": 2}), "cpus of node 1, gpus of node 0")
    assert refused.in_the_way == ("nvidia.com/gpu", "cpu")


def test_pods_beyond_max_pods_are_refused():
    node = Node(SMALL, {**STATIC, "maxPods": 1}, GPUS)
    node.admit(pod("100m"), "a")
    refused = node.admit(pod("100m"), "b")
    assert refused.message == "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1"


def test_hugepages_reduce_allocatable_memory():
    topology = machine(
        packages=2, cores_per_numa_node=4, numa_memory_bytes=16 * GIB, hugepages={"1Gi": HugepagePool(4, 4)}
    )
    node = Node(topology, STATIC, {})
    assert node.allocatable.memory_bytes == 24 * GIB
    assert node.allocatable.scalars == {"hugepages-1Gi": 8 * GIB}
    refused = node.admit(pod("1", **{"hugepages-1Gi": "9Gi"}), "p")
    assert refused.reason == "OutOfhugepages-1Gi"


def test_reserving_more_memory_than_a_numa_node_has_underflows():
    config = pinned(SMALL, systemReserved={"memory": "21Gi"})
    config["reservedMemory"] = [
        {"numaNode": 0, "limits": {"memory": "20Gi"}},
        {"numaNode": 1, "limits": {"memory": "1Gi"}},
    ]
    node = Node(SMALL, config, {}, predicates=False)
    assert node.admit(pod(2, "100Gi"), "p").admitted


def test_init_containers_pass_on_their_cpus_devices_and_memory():
    node = Node(SMALL, pinned(SMALL, topologyManagerPolicy="single-numa-node"), GPUS)
    manifest = pod(4, "4Gi", **{"nvidia.com/gpu": 2})
    manifest["initContainers"] = [{"name": "init", "resources": manifest["containers"][0]["resources"]}]
    admission = node.admit(manifest, "p")
    assert admission.cpus["init"] == admission.cpus["main"]
    assert admission.devices["init"] == admission.devices["main"]
    assert [block.bytes for block in admission.memory["init"]] == [0]


def test_memory_of_finished_init_containers_returns_at_pod_start():
    node = Node(SMALL, pinned(SMALL, topologyManagerPolicy="single-numa-node"), GPUS, predicates=False)
    manifest = pod(2, "2Gi")
    manifest["initContainers"] = [{**pod(2, "15Gi")["containers"][0], "name": "init"}]
    node.admit(manifest, "p")
    node.admit(pod(2, "15Gi"), "other node")
    assert not node.admit(pod(2, "12Gi"), "early").admitted
    node.start("p")
    assert node.admit(pod(2, "12Gi"), "late").admitted


def test_device_plugin_is_unknown_until_it_registers():
    node = Node(SMALL, STATIC, {})
    assert node.admit(pod(1, **{"nvidia.com/gpu": 1}), "early").devices == {}
    node.register(GPUS)
    assert node.admit(pod(1, **{"nvidia.com/gpu": 1}), "late").devices == {"main": {"nvidia.com/gpu": ("0",)}}


def test_missing_healthy_device_is_reported_in_the_words_of_the_kubelet():
    node = Node(SMALL, STATIC, {"nvidia.com/gpu": [{"id": "GPU-1", "numa_nodes": [0], "healthy": False}]})
    refused = node.admit(pod(1, **{"nvidia.com/gpu": 1}), "p")
    assert refused.message == (
        "Allocate failed due to no healthy devices present; "
        "cannot allocate unhealthy devices nvidia.com/gpu, which is unexpected"
    )


POD_LEVEL_POLICY = {
    "topologyManagerPolicy": "single-numa-node",
    "topologyManagerScope": "pod",
    "featureGates": {"PodLevelResourceManagers": True},
}


def pod_level(cpu: int) -> dict[str, Any]:
    """A pod of `cpu` CPUs, with a container of two and a container that says nothing."""
    whole = {"cpu": str(cpu), "memory": "2Gi"}
    containers = [*pod(2)["containers"], {"name": "rest"}]
    return {"resources": {"limits": whole, "requests": whole}, "containers": containers}


def test_pod_managed_as_one_unit_divides_its_cpus_and_memory():
    node = Node(SMALL, pinned(SMALL, **POD_LEVEL_POLICY), GPUS)
    admission = node.admit(pod_level(4), "p")
    assert (cpus_of(admission, "main"), cpus_of(admission, "rest")) == ("1,9", "2,10")
    assert [str(block) for block in admission.memory["rest"]] == ["memory@[0]=1073741824"]


NO_HINT = "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"


@cases(
    "policy, reason, message",
    {
        "no hint where the shared pool would be empty": (
            "single-numa-node",
            "TopologyAffinityError",
            NO_HINT,
        ),
        "and no allocation where any hint is taken": (
            "best-effort",
            "EmptyPodSharedPoolError",
            "pod rejected, sum of exclusive container cpu requests equals pod budget, ",
        ),
    },
)
def test_pod_without_cpus_for_its_other_containers_is_refused(policy, reason, message):
    config = {**STATIC, **POD_LEVEL_POLICY, "topologyManagerPolicy": policy}
    refused = Node(SMALL, config, GPUS).admit(pod_level(2), "p")
    assert (refused.reason, message in refused.message) == (reason, True)


@cases(
    "policy, reason, message",
    {
        "no hint where a container asks for part of a byte": (
            "single-numa-node",
            "TopologyAffinityError",
            "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager",
        ),
        "and no allocation where any hint is taken": (
            "best-effort",
            "EmptyPodSharedPoolError",
            "[memorymanager] failed to represent quantity as int64",
        ),
    },
)
def test_pod_level_memory_with_a_fraction_of_a_byte_is_refused(policy, reason, message):
    manifest = pod_level(4)
    manifest["containers"][0] = pod(2, memory="1500m")["containers"][0]
    config = pinned(SMALL, **{**POD_LEVEL_POLICY, "topologyManagerPolicy": policy})
    refused = Node(SMALL, config, GPUS).admit(manifest, "p")
    assert (refused.reason, refused.message) == (reason, message)


def test_pod_managed_as_one_unit_returns_only_its_own_cpus():
    """kubernetes/kubernetes#140495: with uneven SMT a container may hold a CPU that its pod does not."""
    config = {**STATIC, **POD_LEVEL_POLICY, "reservedSystemCPUs": "12"}
    node = Node(laptop(), config, {})
    assert cpus_of(node.admit(pod_level(8), "unit")) == "0-1"
    assert cpus_of(node.admit(pod(1), "other")) == "1"
    node.remove("unit")
    assert node.free().numa_nodes[0].cpus == frozenset(range(20)) - {1, 12}


def test_pod_level_resources_are_not_pinned_without_the_feature_gate():
    config = pinned(SMALL, **{**POD_LEVEL_POLICY, "featureGates": {}})
    admission = Node(SMALL, config, GPUS).admit(pod_level(4), "p")
    assert (admission.qos, admission.cpus, admission.memory) == ("Guaranteed", {}, {})


def test_manifests_without_a_name_are_different_pods():
    node = Node(SMALL, STATIC, {})
    assert [node.admit(pod(4)).name, node.admit(pod(4)).name] == ["pod-0", "pod-1"]
    assert cpus_of(node.admit(pod(4))) == "5-6,13-14"


def test_removing_an_unknown_pod_is_an_error():
    with pytest.raises(NumaforgeError, match="no pod 'ghost'"):
        Node(SMALL, STATIC, {}).remove("ghost")


def cpu_state(default: str, entries: dict[str, dict[str, str]], policy: str = "static") -> str:
    return json.dumps({"policyName": policy, "defaultCpuSet": default, "entries": entries, "checksum": 0})


def test_a_node_starts_from_its_cpu_manager_state():
    state = {"cpu_manager_state": cpu_state("0,3-8,11-15", {"uid-1": {"main": "1-2,9-10"}})}
    node = Node(SMALL, STATIC, GPUS, state=state)
    assert node.pods == ("uid-1",)
    assert cpus_of(node.admit(pod(2), "new")) == "3,11"
    node.remove("uid-1")
    assert cpus_of(node.admit(pod(4), "after")) == "1-2,9-10"


def test_pod_in_the_state_file_is_readmitted_with_its_cpus():
    state = {"cpu_manager_state": cpu_state("0,3-8,11-15", {"uid-1": {"main": "1-2,9-10"}})}
    node = Node(SMALL, {**STATIC, "topologyManagerPolicy": "single-numa-node"}, GPUS, state=state)
    assert cpus_of(node.admit(pod(4), "uid-1")) == "1-2,9-10"


def test_full_pcpus_only_refuses_a_restarted_pod_for_its_own_cpus():
    """kubernetes/kubernetes#129078: alignment is enforced before the state is looked at."""
    options = {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}
    state = {"cpu_manager_state": cpu_state("0,5-8,13-15", {"uid-1": {"main": "1-4,9-12"}})}
    node = Node(SMALL, {**STATIC, **options}, GPUS, state=state, version="1.36")
    refused = node.admit(pod(8), "uid-1")
    assert refused.message == (
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 6, "
        "requested CPUs = 8, CPUs per core = 2"
    )


@cases(
    "default, held, count",
    {
        "more than are free": ("0,5-8,13-15", "1-4,9-12", 8),
        "halves of cores": ("0-1,4-15", "2-3", 2),
        "no multiple of a core": ("0-1,3-15", "2", 1),
    },
)
def test_since_1_37_a_pod_keeps_its_cpus_under_full_pcpus_only(default, held, count):
    options = {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}
    state = {"cpu_manager_state": cpu_state(default, {"uid-1": {"main": held}})}
    node = Node(SMALL, {**STATIC, **options}, GPUS, state=state, version="1.37.2")
    assert cpus_of(node.admit(pod(count), "uid-1")) == held


def test_a_node_starts_from_its_memory_manager_state():
    config = pinned(SMALL, topologyManagerPolicy="single-numa-node")
    first = Node(SMALL, config, GPUS)
    assert first.admit(pod(2, "12Gi"), "uid-1").admitted
    assert first.memory_manager
    node = Node(SMALL, config, GPUS, state={"memory_manager_state": memory_state(first.memory_manager)})
    assert node.admit(pod(2, "12Gi"), "second").memory["main"][0].numa_nodes == {1}
    assert node.admit(pod(2, "12Gi"), "third").in_the_way == ("memory",)
    node.remove("uid-1")
    assert node.admit(pod(2, "12Gi"), "fourth").memory["main"][0].numa_nodes == {0}


def test_a_node_starts_from_its_device_checkpoint():
    entry = {
        "PodUID": "u",
        "ContainerName": "c",
        "ResourceName": "nvidia.com/gpu",
        "DeviceIDs": {"0": ["0", "1"]},
    }
    text = json.dumps({"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {}}, "Checksum": 1})
    node = Node(SMALL, STATIC, GPUS, state={"kubelet_internal_checkpoint": text})
    assert node.admit(pod(1, **{"nvidia.com/gpu": 1}), "p").devices["main"] == {"nvidia.com/gpu": ("2",)}


@cases(
    "text, message",
    {
        "another policy": (cpu_state("", {}, "none"), "differs from state checkpoint policy"),
        "a reserved CPU is not shared": (cpu_state("1-15", {}), "not all reserved cpus"),
        "a CPU in both sets": (cpu_state("0-15", {"u": {"c": "1"}}), "overlaps with default cpuset"),
        "a CPU that is missing": (cpu_state("0-14", {}), "current set of available CPUs"),
        "damaged JSON": ("{", "unexpected end of JSON input"),
        "no CPU set": (cpu_state("x", {}), "could not parse default CPU set"),
    },
)
def test_state_that_prevents_a_kubelet_start_is_refused(text, message):
    with pytest.raises(KubeletConfigError, match=message):
        Node(SMALL, STATIC, GPUS, state={"cpu_manager_state": text})


@cases(
    "default, entries",
    {
        "CPUs that are given out or back": ("0-1,4-15", {"u": {"c": "2"}}),
        "a CPU in both sets": ("0-15", {"u": {"c": "1"}}),
        "the last container has left": ("", {}),
    },
)
def test_running_kubelet_may_hold_cpu_state_that_fails_a_restart(default, entries):
    state = {"cpu_manager_state": cpu_state(default, entries)}
    node = Node(SMALL, STATIC, GPUS, state=state, running=True)
    for name in node.pods:
        node.remove(name)
    node.settle()
    assert format_cpulist(ids_of(node.cpu_manager.available)) == "1-7,9-15"


def test_running_kubelet_may_have_assigned_its_last_cpu():
    """kubernetes/kubernetes#141196."""
    config = {**STATIC, "cpuManagerPolicyOptions": {"strict-cpu-reservation": "true"}}
    state = {"cpu_manager_state": cpu_state("", {"u": {"c": "1-7,9-15"}})}
    node = Node(SMALL, config, GPUS, state=state, running=True)
    assert node.admit(pod(1), "p").in_the_way == ("cpu",)
    with pytest.raises(KubeletConfigError, match="default cpuset cannot be empty"):
        Node(SMALL, config, GPUS, state=state)


@cases(
    "default, entries",
    {"another reservation": ("1-15", {}), "a CPU that the machine has not": ("0-15", {"u": {"c": "16"}})},
)
def test_cpu_state_of_another_machine_or_configuration_is_refused(default, entries):
    with pytest.raises(KubeletConfigError):
        Node(SMALL, STATIC, GPUS, state={"cpu_manager_state": cpu_state(default, entries)}, running=True)


def test_running_kubelet_may_hold_memory_state_that_fails_a_restart():
    """An init container's hugepages span NUMA nodes, on one of which is what its app container has."""
    pools = {"1Gi": HugepagePool(4, 4)}
    topology = machine(packages=2, cores_per_numa_node=4, numa_memory_bytes=16 * GIB, hugepages=pools)
    config = pinned(topology, topologyManagerPolicy="restricted", topologyManagerScope="pod")
    first = Node(topology, config, GPUS)
    init = {"name": "setup", "resources": {"limits": {"cpu": "2", "memory": "1Gi", "hugepages-1Gi": "6Gi"}}}
    assert first.admit({**pod(2, "1Gi"), "initContainers": [init]}, "p").admitted
    state = {"memory_manager_state": memory_state(first.memory_manager)}
    with pytest.raises(KubeletConfigError, match="the expected machine state is different"):
        Node(topology, config, GPUS, state=state)
    node = Node(topology, config, GPUS, state=state, running=True)
    assert memory_state(node.memory_manager) == state["memory_manager_state"]


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(("without", "with"), id="NUMA nodes have given what no container has"),
        pytest.param(("with", "without"), id="the container has more than NUMA nodes have given"),
    ],
)
def test_half_written_memory_state_follows_the_containers(file):
    """Allocate writes NUMA nodes, then the container; RemoveContainer the container, then NUMA nodes."""
    config = pinned(SMALL)
    first = Node(SMALL, config, GPUS)
    texts = {}
    for state, name in (("without", "a"), ("with", "b")):
        assert first.admit(pod(2, "3Gi"), name).admitted
        texts[state] = json.loads(memory_state(first.memory_manager))
    containers, nodes = (texts[each] for each in file)
    torn = {**containers, "machineState": nodes["machineState"]}
    node = Node(SMALL, config, GPUS, state={"memory_manager_state": json.dumps(torn)}, running=True)
    assert json.loads(memory_state(node.memory_manager)) == containers


def many_nodes(topology, **options):
    """Return the options with which a kubelet aligns pods on so many NUMA nodes."""
    limit = {"max-allowable-numa-nodes": str(len(topology.numa_nodes))}
    defaults = {"topologyManagerPolicy": "best-effort", "reservedSystemCPUs": "0"}
    return {**defaults, "topologyManagerPolicyOptions": limit, **options}


GRACE = [
    pytest.param(grace_blackwell_tray(), id="34, a tray"),
    pytest.param(gb200_cdmm(), id="34, CDMM"),
    pytest.param(quad_gh200(), id="36, four GH200"),
]


@pytest.mark.parametrize("topology", GRACE)
def test_34_numa_nodes_are_answered_without_the_memory_manager_alone(topology):
    node = Node(topology, {**STATIC, **many_nodes(topology)})
    assert node.admit(pod(8, **{"nvidia.com/gpu": 4})).admitted
    for policy in ("none", "best-effort", "single-numa-node"):
        node = Node(topology, pinned(topology, **many_nodes(topology, topologyManagerPolicy=policy)))
        with pytest.raises(KubeletHangError, match=f"every set of {len(topology.numa_nodes)} NUMA nodes"):
            node.admit(pod(8))
