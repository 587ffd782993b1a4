"""Where a pod would go: the scheduler's word and the kubelet's, and every change that is named helps."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from numaforge.cluster.explain.candidates import Candidate, GivenMachine, candidates, kind_of
from numaforge.cluster.explain.cluster import GROUPS, LiveCluster, group_stubs, read_cluster
from numaforge.cluster.explain.explanation import Explanation, explain
from numaforge.cluster.explain.workload import Group, groups_of, workloads_of
from numaforge.lib.errors import NumaforgeError
from numaforge.machine.topology.model import Userland
from tests.fixtures.scenarios import scenario
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

GPU = "nvidia.com/gpu"
ALLOCATABLE = {"cpu": "14", "memory": "30Gi", "pods": "110", GPU: "4"}
NUMA = "numaforge.io/numa-policy"
VOLCANO = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
WHOLE_CORES = {"cpuManagerPolicyOptions": {"full-pcpus-only": "true"}}


def offline(*names: str, **config: Any) -> tuple[Candidate, ...]:
    labels = {NUMA: "single-numa-node"}
    return candidates([GivenMachine(name, scenario(**config), labels) for name in names or ("one",)], None)


def test_nodes_with_different_claim_drivers_are_of_different_kinds():
    without = scenario()
    machine = replace(without.topology, userland=Userland(claim_drivers=("dra.net",)))
    assert kind_of(replace(without, topology=machine)) != kind_of(without) == kind_of(scenario())


def limits(cpu: object, gpus: int = 0, memory: str = "1Gi") -> dict[str, Any]:
    asked = {"cpu": str(cpu), "memory": memory} | ({GPU: str(gpus)} if gpus else {})
    return {"containers": [{"name": "main", "resources": {"limits": asked}}]}


def pod(name: str, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": dict(spec)}


def job(name: str, count: int, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:
    template = {"metadata": metadata, "spec": dict(spec)}
    return {"kind": "Job", "metadata": {"name": name}, "spec": {"parallelism": count, "template": template}}


def node(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": spec,
        "status": {"allocatable": ALLOCATABLE},
    }


def running(name: str, on: str, spec: Mapping[str, Any], started: str = "1") -> dict[str, Any]:
    return {
        **pod(name, {**spec, "nodeName": on}, uid=f"uid-{name}"),
        "status": {"phase": "Running", "startTime": started},
    }


def live(*documents: Mapping[str, Any], **config: Any) -> tuple[LiveCluster, tuple[Candidate, ...]]:
    cluster = read_cluster(documents)
    machines = [GivenMachine(name, scenario(**config)) for name in cluster.nodes]
    return cluster, candidates(machines, cluster.nodes)


def stateful(
    state: Mapping[str, Any] | None, *documents: Mapping[str, Any], **given: Any
) -> tuple[Candidate, ...]:
    """Return the node `one` with its pods, and with a state file of its CPU manager."""
    files = {"cpu_manager_state": json.dumps({"checksum": 0, **state})} if state else {}
    machine = GivenMachine("one", replace(scenario(), state=files), **given)
    return candidates([machine], read_cluster(documents).nodes)


def explained(nodes: Sequence[Candidate], *documents: object) -> Explanation:
    [workload] = workloads_of(documents, "pods.yaml").workloads
    return explain(workload, nodes)[0]


# ---- one pod ----


@cases(
    "spec, config, reason",
    {
        "on one NUMA node": (limits(4, 2), {}, None),
        "more CPUs than a NUMA node has": (limits(10), {}, "TopologyAffinityError"),
        "more GPUs than a NUMA node has": (limits(2, 3), {}, "TopologyAffinityError"),
        "where it need not align": (limits(2, 3), {"topologyManagerPolicy": "best-effort"}, None),
        "half a core": (limits(3), WHOLE_CORES, "SMTAlignmentError"),
    },
)
def test_kubelet_refusal_overrides_the_scheduler(spec, config, reason):
    answer = explained(offline(**config), pod("p", spec))
    [verdict] = answer.verdicts
    assert verdict.judgement.reasons == ()
    assert verdict.judgement.kubelet.reason == reason
    assert answer.fits == (reason is None)
    assert [each.node for each in answer.disagreeing] == ([] if reason is None else ["one"])


def spread(label: str, otherwise: str = "DoNotSchedule") -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": label, "whenUnsatisfiable": otherwise}
    return {"topologySpreadConstraints": [constraint]}


SOFT = {"key": "gpu", "value": "soft", "effect": "PreferNoSchedule"}
HARD = {"key": "gpu", "value": "only", "effect": "NoSchedule"}


def affinity(*expressions: Mapping[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": list(expressions)}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


TAINTED, MISMATCH = "taint gpu=only:NoSchedule", "its labels do not match the pod's nodeSelector or affinity"


def tolerates(**toleration: str) -> dict[str, Any]:
    return {"tolerations": [toleration]}


def labelled(key: str, operator: str, *values: str) -> dict[str, Any]:
    return affinity({"key": key, "operator": operator, "values": list(values)})


@cases(
    "of_node, of_pod, reason",
    {
        "nothing against it": ({}, {}, ""),
        "a cordon": ({"unschedulable": True}, {}, "it is cordoned"),
        "a taint": ({"taints": [HARD]}, {}, TAINTED),
        "a taint that only asks": ({"taints": [SOFT]}, {}, ""),
        "all is tolerated": ({"taints": [HARD]}, tolerates(operator="Exists"), ""),
        "a value is tolerated": ({"taints": [HARD]}, tolerates(key="gpu", value="only"), ""),
        "another value is tolerated": ({"taints": [HARD]}, tolerates(key="gpu", value="other"), TAINTED),
        "a selector that matches": ({}, {"nodeSelector": {"zone": "a"}}, ""),
        "a selector that does not": ({}, {"nodeSelector": {"zone": "b"}}, f"{MISMATCH}: zone is a"),
        "In": ({}, labelled("zone", "In", "a", "b"), ""),
        "NotIn": ({}, labelled("zone", "NotIn", "a"), f"{MISMATCH}: zone is a"),
        "NotIn of no label": ({}, labelled("x", "NotIn", "a"), ""),
        "Gt": ({}, labelled("size", "Gt", "7"), ""),
        "Exists": ({}, labelled("x", "Exists"), f"{MISMATCH}: it has no x"),
        "spread by a label that it has": ({}, spread("zone"), ""),
        "spread by a label that it lacks": (
            {},
            spread("numa"),
            "it lacks the label numa, by which the pod must be spread",
        ),
        "spread where it is possible": ({}, spread("numa", "ScheduleAnyway"), ""),
    },
)
def test_scheduler_reasons_follow_its_filters(of_node, of_pod, reason):
    _, nodes = live(node("one", {"zone": "a", "size": "8"}, **of_node))
    answer = explained(nodes, pod("p", {**limits(2), **of_pod}))
    assert answer.verdicts[0].judgement.reasons == ((reason,) if reason else ())


def test_running_pods_count_for_the_scheduler_and_keep_their_placement():
    _, nodes = live(node("one"), running("a", "one", limits(4, 1)), running("b", "one", limits(4, 1), "2"))
    answer = explained(nodes, pod("p", limits(6, 2)))
    [verdict] = answer.verdicts
    assert verdict.judgement.disagrees
    assert verdict.judgement.kubelet.reason == "TopologyAffinityError"
    assert verdict.doubts == (
        "its pods are placed again in their order; a snapshot with state files says where they are",
    )
    [verdict] = explained(nodes, pod("p", limits(7, 1))).verdicts
    assert verdict.judgement.reasons == ("Insufficient cpu",)


def test_state_files_give_the_placement_of_running_pods():
    entries = {"uid-a": {"main": "4-7,12-15"}, "uid-gone": {"main": "1,9"}}
    state = {"policyName": "static", "defaultCpuSet": "0,2-3,8,10-11", "entries": entries}
    held = {"default/a": {"main": {GPU: {"2", "3"}}}}
    there = (node("one"), running("a", "one", limits(8, 2)))
    answer = explained(stateful(state, *there, given_devices=held), pod("p", limits(6, 2)))
    assert answer.fits
    [verdict] = answer.verdicts
    assert verdict.doubts == ()
    assert verdict.judgement.kubelet.cpus == {"main": frozenset({1, 2, 3, 9, 10, 11})}
    # Without them it is placed anew, and the answer says that it rests on this.
    assert explained(stateful(None, *there), pod("p", limits(6, 2))).verdicts[0].doubts


def test_state_files_that_stop_the_kubelet_from_starting_are_ignored():
    state = {"policyName": "none", "defaultCpuSet": "", "entries": {}}
    nodes = stateful(state, node("one"), running("a", "one", limits(8, 2)))
    [verdict] = explained(nodes, pod("p", limits(6, 2))).verdicts
    assert verdict.judgement.kubelet
    assert "its state files are not taken" in verdict.doubts[0]


def with_cpus(
    default: str, entries: Mapping[str, Mapping[str, str]], *documents: Mapping[str, Any], cpus: str = "14"
) -> tuple[Candidate, ...]:
    """Return a node whose kubelet's CPUs are known, with pods; its Node has `cpus` of them allocatable."""
    there = node("one") | {"status": {"allocatable": {**ALLOCATABLE, "cpu": cpus}}}
    return stateful({"policyName": "static", "defaultCpuSet": default, "entries": entries}, there, *documents)


def undecided(name: str, on: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return pod(name, {**spec, "nodeName": on}, uid=f"uid-{name}", creationTimestamp="9") | {"status": {}}


def test_shared_pod_runs_beside_pods_that_hold_less_than_their_containers():
    """What an ended init container had stays in the file, and counts for nothing."""
    init = {"name": "init", "resources": {"limits": {"cpu": "4", "memory": "1Gi"}}}
    entries = {"uid-late": {"init": "1-3,9", "main": "4-7,12-15"}}
    shares = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "6"}}}]}
    late = running("late", "one", {**limits(8), "initContainers": [init]}, "2")
    nodes = with_cpus("0,8,10-11", entries, running("early", "one", shares, "1"), late)
    assert nodes[0].doubts == ()
    assert nodes[0].kubelet
    assert [each.name for each in nodes[0].kubelet.running] == ["default/early", "default/late"]


@pytest.mark.parametrize(
    ("default", "entries"),
    [
        pytest.param("0-15", {}, id="nothing is given yet"),
        pytest.param("0-3,8-11", {}, id="between the two writes"),
        pytest.param("0-3,8-11", {"uid-p": {"main": "4-7,12-15"}}, id="all is given"),
    ],
)
def test_undecided_pod_gets_its_predicted_cpus(default, entries):
    nodes = with_cpus(default, entries, undecided("p", "one", limits(8)))
    assert nodes[0].doubts == ()
    [verdict] = explained(nodes, pod("q", limits(6))).verdicts
    assert verdict.judgement.kubelet.cpus == {"main": frozenset({1, 2, 3, 9, 10, 11})}


def test_pod_about_to_be_refused_by_the_kubelet_holds_nothing():
    nodes = with_cpus("0-15", {}, undecided("p", "one", limits(9)))
    assert nodes[0].doubts == ()
    assert nodes[0].kubelet
    assert nodes[0].kubelet.running == ()


def test_pod_missing_from_the_state_files_is_placed_again():
    nodes = with_cpus("0-15", {}, running("p", "one", limits(8)))
    [verdict] = explained(nodes, pod("q", limits(6))).verdicts
    assert verdict.judgement.kubelet.cpus == {"main": frozenset({1, 2, 3, 9, 10, 11})}


@cases(
    "cpus, doubts",
    {
        "the Node has all of them": ("14", ()),
        "the Node does not have them": (
            "12",
            ("CPUs 2,10 count as free, which its state file does not have, and its Node has other CPUs",),
        ),
    },
)
def test_cpus_missing_from_the_state_file_are_free(cpus, doubts):
    nodes = with_cpus("0-1,3-9,11-15", {}, cpus=cpus)
    assert nodes[0].doubts == doubts
    [verdict] = explained(nodes, pod("q", limits(7))).verdicts
    assert verdict.judgement.kubelet.admitted


def test_ended_pods_hold_nothing():
    gone = running("a", "one", limits(8, 4))
    gone["status"]["phase"] = "Succeeded"
    _, nodes = live(node("one"), gone)
    assert explained(nodes, pod("p", limits(8, 2))).fits


def test_unknown_label_without_a_cluster_is_named_and_blocks_no_node():
    answer = explained(offline(), pod("p", {**limits(2), "nodeSelector": {"pool": "gpu"}}))
    assert answer.fits
    assert answer.verdicts[0].not_seen == ("label pool",)
    wrong = {**limits(2), "nodeSelector": {NUMA: "restricted"}}
    assert not explained(offline(), pod("p", wrong)).fits


def test_node_without_a_machine_has_only_the_schedulers_verdict():
    cluster = read_cluster([node("one"), node("two")])
    nodes = candidates([GivenMachine("two", scenario())], cluster.nodes)
    answer = explained(nodes, pod("p", limits(2)))
    assert [(each.judgement.fits, each.judgement.unknown) for each in answer.verdicts] == [
        (False, "its machine is not given"),
        (True, ""),
    ]


def test_unknown_kubelet_without_a_cluster_lacks_no_resource():
    nodes = candidates([GivenMachine("one", None, why_unknown="it would not start")], None)
    [verdict] = explained(nodes, pod("p", limits(2))).verdicts
    assert (verdict.judgement.reasons, verdict.judgement.unknown) == ((), "it would not start")


def test_scheduler_prefers_the_emptiest_node_whatever_the_kubelet_decides():
    half = [running(f"r{number}", "two", limits(2, 0)) for number in range(3)]
    _, nodes = live(node("one"), node("two"), *half)
    assert explained(nodes, pod("p", limits(2))).likely == "one"
    assert explained(live(node("one"), node("two"))[1], pod("p", limits(2))).likely is None


# ---- what would help ----


def test_every_suggested_change_helps():
    answer = explained(offline(), pod("p", limits(10, 3, "20Gi")))
    changes = {(each.of, each.change) for each in answer.remedies}
    assert ("node", "topologyManagerPolicy: restricted") in changes
    [proportion] = [change for of, change in changes if of == "pod"]
    assert proportion == "2 nvidia.com/gpu, 6 CPUs, 13653Mi memory in the container main"
    assert explained(offline(), pod("p", limits(6, 2, "13653Mi"))).fits
    assert explained(offline(topologyManagerPolicy="restricted"), pod("p", limits(10, 3, "20Gi"))).fits


CPUS = re.compile(r"([0-9]+) CPUs instead of [0-9]+ in the container main")


@cases(
    "spec, config, change",
    {
        "fewer CPUs": (limits(10), {}, "8 CPUs instead of 10 in the container main"),
        "whole cores": (limits(3), WHOLE_CORES, "4 CPUs instead of 3 in the container main"),
        "without the option": (limits(3), WHOLE_CORES, "without full-pcpus-only"),
        "fewer GPUs": (limits(2, 3), {}, "2 nvidia.com/gpu in the container main"),
        "another scope": (
            {"containers": [limits(6, 1)["containers"][0] | {"name": name} for name in "ab"]},
            {"topologyManagerScope": "pod"},
            "topologyManagerScope: container",
        ),
    },
)
def test_explanation_suggests_a_change_that_fits(spec, config, change):
    answer = explained(offline(**config), pod("p", spec))
    assert not answer.fits
    assert change in [each.change for each in answer.remedies]
    for each in answer.remedies:
        if found := CPUS.fullmatch(each.change):
            gpus = int(spec["containers"][0]["resources"]["limits"].get(GPU, 0))
            assert explained(offline(**config), pod("p", limits(found[1], gpus))).fits


def test_smallest_pod_to_evict_is_named_first():
    _, nodes = live(
        node("one"), running("large", "one", limits(6, 2)), running("small", "one", limits(2, 2), "2")
    )
    answer = explained(nodes, pod("p", limits(2, 1)))
    assert [each.change for each in answer.remedies if each.of == "cluster"] == [
        "once default/small has left one"
    ]


def test_taints_and_selectors_are_lifted_only_if_the_kubelet_admits():
    _, nodes = live(node("one", taints=[HARD]))
    assert (
        explained(nodes, pod("p", limits(2))).remedies[0].change == "tolerate the taint gpu=only:NoSchedule"
    )
    assert "tolerate" not in str(explained(nodes, pod("p", limits(10, 3))).remedies)


def test_remedy_replaces_an_unoffered_resource_by_an_offered_one():
    misspelt = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpus": "2"}}}]}
    answer = explained(offline(), pod("p", misspelt))
    assert answer.verdicts[0].judgement.reasons == ("Insufficient nvidia.com/gpus",)
    assert answer.remedies[0].change == "2 nvidia.com/gpu instead of nvidia.com/gpus"


def test_remedy_never_renames_a_resource_to_one_of_the_same_container():
    both = {
        "containers": [
            {"name": "m", "resources": {"limits": {"nvidia.com/gpumem": 3000, "nvidia.com/gpu": 1}}}
        ]
    }
    assert "instead of nvidia.com/gpumem" not in str(explained(offline(), pod("p", both)).remedies)


def test_unfixable_pod_has_no_suggestion():
    assert explained(offline(cpuManagerPolicy="none"), pod("p", limits(1, 1, "64Gi"))).remedies[0].of == "pod"
    impossible = {
        "containers": [{"name": "main", "resources": {"limits": {"cpu": 1, "hugepages-1Gi": "1Gi"}}}]
    }
    assert explained(offline(), pod("p", impossible)).remedies == ()


def test_fitting_pod_learns_how_to_get_exclusive_cpus():
    resources = {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {"cpu": "1500m", "memory": "2Gi"}}
    answer = explained(offline(), pod("p", {"containers": [{"name": "main", "resources": resources}]}))
    assert answer.fits
    assert [each.change for each in answer.remedies] == [
        "requests equal to limits, CPUs in whole numbers: exclusive CPUs, aligned with the rest"
    ]


# ---- gangs ----


@cases(
    "selector, fit",
    {
        "one on a host": ({"matchLabels": {"app": "a"}}, 2),
        "by an expression": ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, 2),
        "of other pods": ({"matchLabels": {"app": "b"}}, 3),
    },
)
def test_pods_alike_keep_off_the_hosts_that_their_anti_affinity_names(selector, fit):
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = job("apart", 3, {**limits(2), "affinity": apart}, labels={"app": "a"})
    assert explained(live(node("one"), node("two"))[1], made).fit == fit


def test_pods_of_a_job_are_placed_one_after_another():
    answer = explained(offline("one", "two"), job("j", 5, limits(4, 2)))
    assert (answer.fit, answer.fits, answer.about.pod.name) == (4, False, "default/j-4")
    assert [each.placed for each in answer.verdicts] == [2, 2]
    assert ("cluster", "1 more node like one") in [(each.of, each.change) for each in answer.remedies]
    assert explained(offline("one", "two", "three"), job("j", 5, limits(4, 2))).fits


@cases(
    "strategy, waits",
    {
        "by default": ({}, True),
        "half of the pods of two is one": ({"rollingUpdate": {"maxUnavailable": "50%"}}, False),
        "one pod is taken away first": ({"rollingUpdate": {"maxUnavailable": 1}}, False),
        "no pod more": ({"rollingUpdate": {"maxSurge": 0}}, False),
        "all at once": ({"type": "Recreate"}, False),
    },
)
def test_update_without_room_for_one_more_pod_waits(strategy, waits):
    spec = {"replicas": 2, "strategy": strategy, "template": {"spec": limits(4, 2)}}
    made = {"kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}
    assert explained(offline("one"), made).update_waits == waits
    assert not explained(offline("one", "two"), made).update_waits


def test_gang_size_is_that_of_its_group():
    group = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 4}}
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    answer = explained(offline("one", "two"), job("j", 5, limits(4, 2), labels=labels), group)
    assert (answer.workload.kind, answer.fit, answer.workload.least, answer.fits) == ("PodGroup", 4, 4, True)


GANG = {"gang": {"minCount": 3}}
IN_RACK = {"topology": [{"key": "rack"}]}


@cases("version, spec, least, domain, note", CASES["groups"])
def test_group_is_read_in_each_served_version(version, spec, least, domain, note):
    document = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}
    name = version.partition("/")[0], "default/g"
    assert groups_of(document) == {name: Group(least, domain, (note,) if note else ())}
    assert version in GROUPS


@cases(
    "spec, metadata, least",
    {
        "of Kubernetes": ({"schedulingGroup": {"podGroupName": "g"}}, {}, 4),
        "of scheduler-plugins": ({}, {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, 2),
        "of Volcano": ({}, {"annotations": {"scheduling.k8s.io/group-name": "g"}}, 3),
        "of Koordinator, without one": ({}, {"annotations": {"gang.scheduling.koordinator.sh/name": "g"}}, 5),
    },
)
def test_groups_with_the_same_name_are_distinguished_by_api(spec, metadata, least):
    named = {"kind": "PodGroup", "metadata": {"name": "g"}}
    groups = [
        {"apiVersion": "scheduling.x-k8s.io/v1alpha1", **named, "spec": {"minMember": 2}},
        {"apiVersion": "scheduling.volcano.sh/v1beta1", **named, "spec": {"minMember": 3}},
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            **named,
            "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}},
        },
    ]
    waiting = [
        {**pod(f"g-{number}", {**limits(1), **spec}, **metadata), "status": {"phase": "Pending"}}
        for number in range(5)
    ]
    cluster = read_cluster([node("one"), *waiting, *groups])
    workload = cluster.workload(cluster.pod("default/g-0"))
    assert (workload.least, len(workload.members)) == (least, 5)
    assert bool(workload.notes) == (least == 5)


def test_gang_is_queried_only_in_the_versions_of_its_api():
    versions = [each["apiVersion"] for each in group_stubs(("scheduling.k8s.io", "ml/g"))]
    assert versions == [f"scheduling.k8s.io/{each}" for each in ("v1beta1", "v1alpha3", "v1alpha2")]
    [workload] = group_stubs(("scheduling.k8s.io", "ml/w/g/0"))
    assert (workload["kind"], workload["metadata"]["name"]) == ("Workload", "w")
    assert group_stubs(("gang.scheduling.koordinator.sh", "ml/g")) == []


GROUP_IN_RACK = {"schedulingPolicy": GANG, "schedulingConstraints": IN_RACK}


@cases(
    "documents",
    {
        "a group of Kubernetes itself": (
            {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": GROUP_IN_RACK},
            job("j", 3, {**limits(4, 2), "schedulingGroup": {"podGroupName": "g"}}),
        ),
        "Kueue": (
            job("j", 3, limits(4, 2), annotations={"kueue.x-k8s.io/podset-required-topology": "rack"}),
        ),
    },
)
def test_gang_stays_within_one_topology_domain(documents):
    for rack_of_three, expected in ((None, (2, "a", False)), ("b", (3, "b", True))):
        third = node("three", {"rack": rack_of_three} if rack_of_three else {})
        answer = explained(live(node("one", {"rack": "a"}), node("two", {"rack": "b"}), third)[1], *documents)
        assert (answer.fit, answer.domain, answer.fits) == expected


def test_tasks_of_a_volcano_job_are_placed_together():
    tasks = [
        {"name": "lead", "replicas": 1, "template": {"spec": limits(2)}},
        {"name": "worker", "replicas": 4, "template": {"spec": limits(4, 2)}},
    ]
    spec = {"minAvailable": 4, "tasks": tasks}
    answer = explained(offline(), {**VOLCANO, "metadata": {"name": "v"}, "spec": spec})
    assert (answer.fit, answer.workload.least, len(answer.workload.members)) == (3, 4, 5)


def test_jobs_of_a_jobset_are_placed_together():
    of_job = {"spec": {"parallelism": 2, "completions": 2, "template": {"spec": limits(4, 1)}}}
    jobs = [{"name": "w", "replicas": 2, "template": of_job}]
    jobset = {"kind": "JobSet", "metadata": {"name": "s"}, "spec": {"replicatedJobs": jobs}}
    answer = explained(offline(), jobset)
    assert [each.pod.name for each in answer.workload.members][-1] == "default/s-w-1-1"
    assert answer.fit == 3


def test_running_members_count_toward_the_gang_of_a_waiting_pod():
    labels = {"scheduling.x-k8s.io/pod-group": "g"}
    first = running("g-0", "one", limits(4, 2))
    first["metadata"]["labels"] = labels
    waiting = [
        {**pod(f"g-{n}", limits(4, 2), labels=labels), "status": {"phase": "Pending"}} for n in (1, 2, 3)
    ]
    group = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 3}}
    cluster, nodes = live(node("one"), first, *waiting, group)
    workload = cluster.workload(cluster.pod("default/g-2"))
    answer = explain(workload, nodes)[0]
    assert (workload.least, len(workload.members), answer.fit) == (2, 3, 1)


def test_workloads_of_a_file_are_placed_in_order():
    nodes: Sequence[Candidate] = offline()
    fits = []
    for workload in workloads_of([pod(name, limits(4, 2)) for name in "abc"], "f").workloads:
        answer, nodes = explain(workload, nodes)
        fits.append(answer.fits)
    assert fits == [True, True, False]


def by_size(operator: str, *values: str) -> dict[str, Any]:
    return pod("p", {**limits(1), **labelled("size", operator, *values)})


@cases("spec, message", CASES["refused_constraints"])
def test_constraints_that_no_api_server_takes_are_refused(spec, message):
    with pytest.raises(NumaforgeError, match=message):
        workloads_of([pod("p", {**limits(1), **spec})], "f")


@cases(
    "document, message",
    {
        "a group alone": ({"kind": "PodGroup", "metadata": {"name": "g"}}, "no pod says that it is of it"),
        "what makes no pods": ({"kind": "Service", "spec": {}}, "holds no pod"),
        "a number": (7, "the document is not a mapping"),
        "fewer than none": (job("j", -1, limits(1)), "is not a number of pods"),
        "too many": (job("j", 10**9, limits(1)), "is not a number of pods"),
        "tolerations": (pod("p", {**limits(1), "tolerations": "all"}), "must be a list"),
        "a selector": (pod("p", {**limits(1), "nodeSelector": ["a"]}), "must be a mapping"),
        "an operator that no API server takes": (
            by_size("Gte", "2"),
            "'Gte' is not an operator of node affin",
        ),
        "Gt of two values": (by_size("Gt", "1", "2"), "Gt needs exactly one value"),
        "In of no values": (by_size("In"), "In needs values"),
        "Exists with a value": (by_size("Exists", "2"), "Exists takes no values"),
        "no tasks": ({**VOLCANO, "spec": {}}, "no spec.tasks"),
        "a label of no name": (pod("p", {**limits(1), **labelled("a b", "Exists")}), "'a b' is not the name"),
    },
)
def test_invalid_workload_is_refused(document, message):
    with pytest.raises(NumaforgeError, match=message):
        workloads_of([document], "pods.yaml")
