"""Pods that claim devices: what the scheduler says of nodes, by a cluster's objects and by a plan alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from numaforge.cluster.explain.candidates import Candidate, GivenMachine, candidates
from numaforge.cluster.explain.claims import ClaimWorld, claim_world
from numaforge.cluster.explain.cluster import read_cluster
from numaforge.cluster.explain.explanation import Explanation, explain
from numaforge.cluster.explain.workload import workloads_of
from numaforge.cluster.schedulers.dra import planned_classes
from numaforge.kubelet.admission.device_manager import read_inventory
from numaforge.kubelet.admission.fit import Scenario
from tests.fixtures.machines import GIB, machine
from tests.fixtures.tables import cases

GPU = "nvidia.com/gpu"
CLASS = "gpu.nvidia.com"
API = "resource.k8s.io/v1"
SMALL = machine(packages=2, cores_per_numa_node=4, numa_memory_bytes=16 * GIB)
CLASSES = [*planned_classes([GPU])]


def limits(cpu: int = 1, gpus: int = 0) -> dict[str, Any]:
    asked = {"cpu": str(cpu), "memory": "1Gi"} | ({GPU: str(gpus)} if gpus else {})
    return {"containers": [{"name": "main", "resources": {"limits": asked}}]}


def claiming(template: str | None = None, claim: str | None = None) -> dict[str, Any]:
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    return {**limits(), "resourceClaims": [{"name": "gpu", **source}]}


def pod(name: str, spec: Mapping[str, Any], on: str | None = None, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}"}
    placed = {**spec, "nodeName": on} if on else dict(spec)
    phase = {"phase": "Running" if on else "Pending"}
    return {"kind": "Pod", "metadata": metadata, "spec": placed, "status": {**phase, **status}}


def job(count: int, spec: Mapping[str, Any]) -> dict[str, Any]:
    inner = {"parallelism": count, "template": {"spec": dict(spec)}}
    return {"kind": "Job", "metadata": {"name": "j", "namespace": "ml"}, "spec": inner}


def node(name: str, gpus: int = 0) -> dict[str, Any]:
    allocatable = {"cpu": "14", "memory": "30Gi", "pods": "110"} | ({GPU: str(gpus)} if gpus else {})
    return {"kind": "Node", "metadata": {"name": name}, "spec": {}, "status": {"allocatable": allocatable}}


def request(count: int = 1, device_class: str = CLASS) -> dict[str, Any]:
    return {"name": "g", "exactly": {"deviceClassName": device_class, "count": count}}


def template(name: str, *requests: Mapping[str, Any]) -> dict[str, Any]:
    spec = {"devices": {"requests": list(requests or [request()])}}
    metadata = {"name": name, "namespace": "ml"}
    return {"apiVersion": API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": spec}}


def claim(
    name: str, *devices: str, on: str = "one", users: Sequence[str] = (), count: int = 1
) -> dict[str, Any]:
    results = [{"request": "g", "driver": CLASS, "pool": on, "device": each} for each in devices]
    fields = [{"key": "metadata.name", "operator": "In", "values": [on]}]
    selector = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"devices": {"requests": [request(count)]}},
        "status": {
            "allocation": {"devices": {"results": results}, "nodeSelector": selector},
            "reservedFor": [{"uid": each} for each in users],
        }
        if devices
        else {},
    }


def offered(name: str, gpus: int) -> dict[str, Any]:
    devices = [{"name": f"gpu-{each}", "attributes": {"type": {"string": "gpu"}}} for each in range(gpus)]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": CLASS, "nodeName": name, "pool": pool, "devices": devices}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def scenario(gpus: Sequence[int] = ()) -> Scenario:
    inventory = read_inventory({GPU: list(gpus)}) if gpus else {}
    return Scenario(SMALL, {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,8"}, inventory)


def nodes_of(
    *documents: Mapping[str, Any], without: str = "", gpus: Sequence[int] = ()
) -> tuple[Candidate, ...]:
    cluster = read_cluster(documents)
    machines = [GivenMachine(name, scenario(gpus)) for name in cluster.nodes]
    return candidates(machines, cluster.nodes, frozenset({without} if without else ()), cluster.claims)


def explained(nodes: Sequence[Candidate], *documents: object) -> Explanation:
    [workload] = workloads_of(documents, "pods.yaml").workloads
    return explain(workload, nodes)[0]


def reasons(answer: Explanation) -> dict[str, tuple[str, ...]]:
    return {each.node: each.judgement.reasons for each in answer.verdicts}


WHOLE = (*CLASSES, offered("one", 2), template("one-gpu"), template("two-gpus", request(2)))
NOT_ALL = "cannot allocate all claims"


@cases(
    "objects, spec, expected",
    {
        "as many as a slice offers": (WHOLE, claiming("two-gpus"), ()),
        "one of what is left": ((*WHOLE, claim("c", "gpu-0")), claiming("one-gpu"), ()),
        "more than is left": ((*WHOLE, claim("c", "gpu-0")), claiming("two-gpus"), (NOT_ALL,)),
        "no such template": (WHOLE, claiming("none"), ("ResourceClaimTemplate ml/none does not exist",)),
        "no such claim": (WHOLE, claiming(claim="none"), ("ResourceClaim ml/none does not exist",)),
        "no such class": (
            (*WHOLE, template("other", request(device_class="tpu"))),
            claiming("other"),
            ("request g: device class tpu does not exist",),
        ),
        "a claim that waits": ((*WHOLE, claim("c", count=2)), claiming(claim="c"), ()),
        "one that has its devices": ((*WHOLE, claim("c", "gpu-0", "gpu-1")), claiming(claim="c"), ()),
        "one that has those of another node": (
            (*WHOLE, claim("c", "gpu-0", on="two")),
            claiming(claim="c"),
            ("resourceclaim not available on the node",),
        ),
        "one that as many pods share as may": (
            (*WHOLE, claim("c", "gpu-0", users=[str(each) for each in range(256)])),
            claiming(claim="c"),
            ("resourceclaim in use",),
        ),
        "an extended resource that a claim serves": (WHOLE, limits(gpus=2), ()),
        "more of it than is left": ((*WHOLE, claim("c", "gpu-0")), limits(gpus=2), (NOT_ALL,)),
        "an extended resource of no class": (
            (*planned_classes(), offered("one", 2)),
            limits(gpus=1),
            (f"Insufficient {GPU}",),
        ),
    },
)
def test_scheduler_refuses_unsatisfiable_claims(objects, spec, expected):
    answer = explained(nodes_of(node("one"), *objects), pod("p", spec))
    assert reasons(answer) == {"one": expected}
    assert answer.fits == (not expected)
    assert answer.verdicts[0].not_seen == ()


def test_device_plugin_serves_a_resource_before_claims():
    answer = explained(nodes_of(node("one", gpus=1), *WHOLE, gpus=[0]), pod("p", limits(gpus=2)))
    assert reasons(answer) == {"one": (f"Insufficient {GPU}",)}
    assert explained(nodes_of(node("one", gpus=2), *WHOLE, gpus=[0, 1]), pod("p", limits(gpus=2))).fits


def test_kubelet_aligns_no_resource_served_by_a_claim():
    answer = explained(nodes_of(node("one"), *WHOLE, gpus=[0, 0]), pod("p", limits(gpus=2)))
    [verdict] = answer.verdicts
    assert (verdict.judgement.kubelet.admitted, verdict.judgement.kubelet.devices) == (True, {})


def test_pods_of_a_job_get_separate_devices():
    two = (*CLASSES, offered("one", 2), offered("two", 1), template("one-gpu"))
    answer = explained(nodes_of(node("one"), node("two"), *two), job(4, claiming("one-gpu")))
    assert (answer.fit, {each.node: each.placed for each in answer.verdicts}) == (3, {"one": 2, "two": 1})
    assert reasons(answer) == {"one": (NOT_ALL,), "two": (NOT_ALL,)}


def test_pods_that_share_a_claim_share_its_node():
    two = (*CLASSES, offered("one", 1), offered("two", 1), claim("c"))
    answer = explained(nodes_of(node("one"), node("two"), *two), job(3, claiming(claim="c")))
    assert answer.fit == 3
    assert sorted(each.placed for each in answer.verdicts) == [0, 3]


def test_pod_whose_removal_frees_devices_is_named():
    there = pod("there", claiming(claim="c"), "one")
    objects = (*WHOLE, claim("c", "gpu-0", users=["uid-there"]))
    answer = explained(nodes_of(node("one"), there, *objects), pod("p", claiming("two-gpus")))
    assert [each.change for each in answer.remedies if each.of == "cluster"] == ["once ml/there has left one"]


def test_fewer_devices_of_a_resource_are_suggested():
    answer = explained(nodes_of(node("one"), *WHOLE), pod("p", limits(gpus=3)))
    assert f"2 {GPU} in the container main" in [each.change for each in answer.remedies]


def test_running_pod_is_judged_without_its_own_claim():
    made = [{"name": "gpu", "resourceClaimName": "there-gpu"}]
    there = pod("there", claiming("two-gpus"), "one", resourceClaimStatuses=made)
    objects = (*WHOLE, claim("there-gpu", "gpu-0", "gpu-1", users=["uid-there"], count=2))
    cluster = read_cluster([node("one"), there, *objects])
    subject = cluster.pod("ml/there")
    nodes = nodes_of(node("one"), there, *objects, without=subject.uid)
    answer = explain(cluster.workload(subject), nodes)[0]
    assert answer.fits
    assert [(each.match, each.free) for each in answer.verdicts[0].judgement.requests] == [(2, 2)]


def cpu_groups(*sizes: int) -> dict[str, Any]:
    """Return what the CPU driver publishes in its release 0.2.0, without the standard attribute."""
    devices = [
        {
            "name": f"cpudevnuma{number:03}",
            "allowMultipleAllocations": True,
            "attributes": {"dra.cpu/numaNodeID": {"int": number}, "dra.net/numaNode": {"int": number}},
            "capacity": {"dra.cpu/cpu": {"value": str(size)}},
        }
        for number, size in enumerate(sizes)
    ]
    pool = {"name": "one", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "dra.cpu", "nodeName": "one", "pool": pool, "devices": devices}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": "cpus"}, "spec": spec}


def some_cpus(count: int) -> dict[str, Any]:
    exactly = {"deviceClassName": "dra.cpu", "capacity": {"requests": {"dra.cpu/cpu": str(count)}}}
    return {"name": "c", "exactly": exactly}


def test_claim_gets_a_large_enough_device_with_its_numa_node():
    objects = (*CLASSES, cpu_groups(2, 4), template("cpus", some_cpus(3)))
    [verdict] = explained(nodes_of(node("one"), *objects), pod("p", claiming("cpus"))).verdicts
    [(name, [device])] = verdict.judgement.devices
    assert (name, str(device), device.numa_nodes) == ("gpu", "dra.cpu/one/cpudevnuma001", {1})


def test_smaller_share_of_a_device_is_suggested():
    objects = (*CLASSES, cpu_groups(2, 4), template("cpus", some_cpus(6)))
    answer = explained(nodes_of(node("one"), *objects), pod("p", claiming("cpus")))
    assert answer.verdicts[0].judgement.devices == ()
    changes = [each.change for each in answer.remedies]
    assert changes[0] == "4 instead of 6 dra.cpu/cpu of each device in the request c of its claim gpu"


ROOT = "resource.kubernetes.io/pcieRoot"


def test_fewer_devices_or_constraints_of_a_claim_are_suggested():
    apart = offered("one", 2)
    for number, device in enumerate(apart["spec"]["devices"]):
        device["attributes"][ROOT] = {"string": f"pci{number}"}
    bound = template("bound", request(2))
    bound["spec"]["spec"]["devices"]["constraints"] = [{"matchAttribute": ROOT}]
    answer = explained(nodes_of(node("one"), *CLASSES, apart, bound), pod("p", claiming("bound")))
    assert [each.change for each in answer.remedies] == [
        "1 instead of 2 in the request g of its claim gpu",
        f"without the constraint on {ROOT} in its claim gpu",
    ]
    less = template("bound", request(1))
    assert explained(nodes_of(node("one"), *CLASSES, apart, less), pod("p", claiming("bound"))).fits
    free = template("bound", request(2))
    assert explained(nodes_of(node("one"), *CLASSES, apart, free), pod("p", claiming("bound"))).fits


def test_suggested_node_brings_its_own_devices():
    answer = explained(nodes_of(node("one"), *WHOLE), job(3, claiming("one-gpu")))
    assert ("cluster", "1 more node like one") in [(each.of, each.change) for each in answer.remedies]
    shared = offered("one", 2)
    shared["spec"] = {**shared["spec"], "nodeName": None, "allNodes": True}
    objects = (*CLASSES, shared, template("one-gpu"))
    answer = explained(nodes_of(node("one"), *objects), job(3, claiming("one-gpu")))
    assert answer.fit == 2
    assert "cluster" not in [each.of for each in answer.remedies]


def test_device_offered_to_all_nodes_is_allocated_only_once():
    shared = offered("one", 2)
    shared["spec"] = {**shared["spec"], "nodeName": None, "allNodes": True}
    objects = (*CLASSES, shared, template("one-gpu"))
    answer = explained(nodes_of(node("one"), node("two"), *objects), job(3, claiming("one-gpu")))
    assert answer.fit == 2


# ---- what is not known ----


@cases(
    "world, spec, why",
    {
        "a template": (ClaimWorld(), claiming("t"), "ResourceClaimTemplate ml/t is not given"),
        "a class": (claim_world([template("t")]), claiming("t"), f"DeviceClass {CLASS} is not given"),
        "slices": (
            claim_world([*CLASSES, template("t")]),
            claiming("t"),
            "what its drivers offer is not known",
        ),
        "a login that may not read them": (ClaimWorld(why_unknown="forbidden"), claiming("t"), "forbidden"),
    },
)
def test_unknown_claims_are_reported_and_block_no_node(world, spec, why):
    answer = explained(candidates([GivenMachine("one", scenario())], None, world=world), pod("p", spec))
    assert answer.fits
    [not_seen] = answer.verdicts[0].not_seen
    assert not_seen.startswith("whether its claims can be served (")
    assert why in not_seen


def test_plan_supplies_driver_devices_when_no_slice_does():
    plan = claim_world([*CLASSES, offered("one", 2)])
    machines = [GivenMachine("one", scenario(), world=plan)]
    given = claim_world([template("two-gpus", request(2)), template("three", request(3))])
    assert explained(candidates(machines, None, world=given), pod("p", claiming("two-gpus"))).fits
    answer = explained(candidates(machines, None, world=given), pod("p", claiming("three")))
    assert reasons(answer) == {"one": (NOT_ALL,)}
    # Of a cluster whose claims are not known, what its pods have is not known either.
    there = pod("there", claiming("two-gpus"), "one")
    cluster = read_cluster([node("one"), there])
    answer = explained(candidates(machines, cluster.nodes, world=given), pod("p", claiming("two-gpus")))
    assert "which devices its pods have is not known" in answer.verdicts[0].not_seen[0]


def test_cluster_slices_override_planned_slices():
    cluster = read_cluster([node("one"), *CLASSES, offered("one", 1), template("two-gpus", request(2))])
    machines = [GivenMachine("one", scenario(), world=claim_world([*CLASSES, offered("one", 2)]))]
    nodes = candidates(machines, cluster.nodes, world=cluster.claims)
    assert reasons(explained(nodes, pod("p", claiming("two-gpus")))) == {"one": (NOT_ALL,)}
