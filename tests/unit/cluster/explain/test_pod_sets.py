"""Which pods a document makes: as its controller expands it, or none, and then it is named."""

from collections.abc import Mapping
from typing import Any

import pytest

from numaforge.cluster.explain.pod_sets import documents_of, name_without_pods, pod_sets
from numaforge.cluster.explain.workload import Workload, workloads_of
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.strict_yaml import read_manifests
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)


def containers(name: str = "main") -> dict[str, Any]:
    return {"containers": [{"name": name}]}


TEMPLATE = {"template": {"spec": containers()}}


def document(kind: str, spec: Mapping[str, Any], api: str = "", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "x", **metadata}, "spec": dict(spec)}


def job_set(*jobs: Mapping[str, Any]) -> dict[str, Any]:
    one = {"template": {"spec": TEMPLATE}}
    return document("JobSet", {"replicatedJobs": [{**one, **job} for job in jobs]})


VOLCANO = "batch.volcano.sh/v1alpha1"
WORKERS_OF_LEADERS = {"size": 2, "workerTemplate": {"spec": containers()}}


@cases("made, names", CASES["counted"])
def test_pods_of_a_document_are_counted(made: Mapping[str, Any], names: str) -> None:
    found = [name for pods in pod_sets(made, "bare") for one in pods.sets for name in one.names]
    assert found == [f"default/{name}" for name in names.split()]


@cases(
    "made, names",
    {
        "a bare spec has the name of its file": (containers(), ["bare-1"]),
        "a namespace": (document("DaemonSet", TEMPLATE, namespace="ml"), ["ml/x-0"]),
        "a generated name": (document("Pod", containers(), name=None, generateName="y-"), ["default/y-1"]),
    },
)
def test_pod_is_named_by_file_or_namespace(made: Mapping[str, Any], names: list[str]) -> None:
    [pods] = pod_sets(made, "bare", number=1)
    assert [name for one in pods.sets for name in one.names] == names


@cases(
    "made, note",
    {
        "a Namespace": ({"kind": "Namespace", "metadata": {"name": "ml"}}, "Namespace ml"),
        "a template of what is not a pod": (
            document("NodePool", {"template": {"spec": {"requirements": []}}}),
            "NodePool x",
        ),
        "a controller that is not read": (
            {"kind": "Workflow", "metadata": {"generateName": "train-"}, "spec": {"templates": []}},
            "Workflow train- (its pods are made by Argo Workflows, and not read)",
        ),
    },
)
def test_documents_without_pods_are_named(made: Mapping[str, Any], note: str) -> None:
    assert pod_sets(made) == ()
    assert name_without_pods(made) == note


def after(name: str, status: str = "Complete") -> dict[str, Any]:
    return {"dependsOn": [{"name": name, "status": status}]}


IN_ORDER = job_set({"name": "a"}, {"name": "b", **after("a")})
IN_ORDER["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
TOPOLOGY = "kueue.x-k8s.io/podset-"


@cases("made, message", CASES["refused"])
def test_document_of_a_known_kind_without_valid_pods_is_refused(
    made: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(NumaforgeError, match=message):
        pod_sets(made)


def test_lists_are_read_document_by_document() -> None:
    inner = {"kind": "PodList", "items": [{"kind": "Pod"}]}
    assert list(documents_of([None, {"kind": "List", "items": [inner, {"kind": "Job"}]}], "f")) == [
        {"kind": "Pod"},
        {"kind": "Job"},
    ]


def test_last_of_a_repeated_key_counts_as_in_kubectl() -> None:
    documents, repeated = read_manifests("a: 1\nb: 2\na: 3\n", "f")
    assert documents == [{"a": 3, "b": 2}]
    assert repeated == ("line 3: the key 'a' is written twice; the last one counts",)


# ---- what starts together, and what after what ----


def workloads(*documents: Mapping[str, Any]) -> tuple[Workload, ...]:
    return workloads_of(documents, "f").workloads


QUEUED = {"labels": {"kueue.x-k8s.io/queue-name": "q"}}


def template(scheduler: str) -> dict[str, Any]:
    return {"template": {"spec": {**containers(), "schedulerName": scheduler}}}


def workers(scheduler: str = "default-scheduler") -> dict[str, Any]:
    return {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, **template(scheduler)}}}


@cases("made, is_gang, least", CASES["gangs"])
def test_only_gang_scheduled_workloads_are_gangs(made: Mapping[str, Any], is_gang: bool, least: int) -> None:
    [workload] = workloads(made)
    assert (workload.is_gang, workload.least, len(workload.members)) == (is_gang, least, 2)


@cases(
    "jobs, stages",
    {
        "all at once": ([{"name": "a"}, {"name": "b"}], [["a", "b"]]),
        "one after the other": ([{"name": "a"}, {"name": "b", **after("a")}], [["a"], ["b"]]),
        "once it is ready: beside it": ([{"name": "a"}, {"name": "b", **after("a", "Ready")}], [["a", "b"]]),
        "a job that nothing waits for runs through all stages": (
            [{"name": "log"}, {"name": "a"}, {"name": "b", **after("a")}, {"name": "c", **after("b")}],
            [["log", "a"], ["log", "b"], ["log", "c"]],
        ),
    },
)
def test_stages_of_a_jobset_are_read(jobs: list[dict[str, Any]], stages: list[list[str]]) -> None:
    found = workloads(job_set(*jobs))
    assert [[pod.pod.name.split("-")[1] for pod in stage.members] for stage in found] == stages
    assert [stage.follows for stage in found] == [False, *[True] * (len(stages) - 1)]


@cases(
    "annotations, units",
    {
        "any nodes": ({}, [(4, None)]),
        "one rack for all": ({"required-topology": "rack"}, [(4, "rack")]),
        "one host for each slice": (
            {"slice-required-topology": "host", "slice-size": "2"},
            [(2, "host"), (2, "host")],
        ),
    },
)
def test_topology_of_a_pod_set_is_read(annotations: Mapping[str, str], units: list[tuple[int, str]]) -> None:
    own = {"annotations": {TOPOLOGY + key: value for key, value in annotations.items()}}
    template = {"template": {"metadata": own, "spec": containers()}}
    [workload] = workloads(document("Job", {"parallelism": 4, **template}))
    assert [(len(unit.members), unit.domain) for unit in workload.units] == units


@pytest.mark.parametrize(
    ("group", "sizes"),
    [
        pytest.param({}, [1, 1], id="each replicated job has a topology of its own"),
        pytest.param({"group-name": "g"}, [2], id="a group name joins them"),
    ],
)
def test_topology_of_a_jobset_is_read(group: Mapping[str, str], sizes: list[int]) -> None:
    own = {TOPOLOGY + key: value for key, value in {"required-topology": "rack", **group}.items()}
    template = {"template": {"metadata": {"annotations": own}, "spec": containers()}}
    job = {"template": {"spec": template}}
    [workload] = workloads(job_set({"name": "a", **job}, {"name": "b", **job}))
    assert [len(unit.members) for unit in workload.units] == sizes


@cases(
    "annotations, message",
    {
        "no size": ({"slice-required-topology": "host"}, "slices of host with no size"),
        "no label": ({"slice-size": "2"}, "slices of no label with 2"),
        "a word": ({"slice-required-topology": "host", "slice-size": "two"}, "slices of host with two"),
        "a number without quotes": ({"slice-size": 2}, "2 is not a text"),
    },
)
def test_slices_that_kueue_refuses_are_refused(annotations: Mapping[str, Any], message: str) -> None:
    own = {"annotations": {TOPOLOGY + key: value for key, value in annotations.items()}}
    with pytest.raises(NumaforgeError, match=message):
        workloads(document("Job", {"template": {"metadata": own, "spec": containers()}}))


@cases(
    "leader, sets",
    {
        "one set without a leader of its own": ({}, 1),
        "a leader, and its workers": ({"leaderTemplate": {"spec": containers()}}, 2),
    },
)
def test_each_group_that_kueue_admits_is_a_gang(leader: Mapping[str, Any], sets: int) -> None:
    made = document(
        "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": {**WORKERS_OF_LEADERS, **leader}}, **QUEUED
    )
    found = workloads(made)
    assert [(one.name, one.is_gang, one.least, len(one.units)) for one in found] == [
        ("default/x-0", True, 2, sets),
        ("default/x-1", True, 2, sets),
    ]


def workload_of_groups(policy: Mapping[str, Any]) -> dict[str, Any]:
    return document(
        "Workload", {"podGroups": [{"name": "g", "policy": policy}]}, "scheduling.k8s.io/v1alpha1"
    )


def reference(group: str, **replica: str) -> dict[str, Any]:
    own = {"name": "x", "podGroup": group, **replica}
    return document("Pod", {**containers(), "workloadRef": own})


def test_replicas_of_a_workload_group_start_apart() -> None:
    pods = [reference("g", podGroupReplicaKey=key) for key in ("0", "0", "1", "1")]
    found = workloads(workload_of_groups({"gang": {"minCount": 2}}), *pods)
    assert [(one.is_gang, one.least, len(one.members)) for one in found] == [(True, 2, 2)] * 2


@cases("documents, is_gang", CASES["groups_of_pods"])
def test_group_of_pods_starts_as_its_policy_says(documents: list[Mapping[str, Any]], is_gang: bool) -> None:
    [workload] = workloads(*documents)
    assert (workload.is_gang, workload.least) == (is_gang, 2)


@cases(
    "made, message",
    {
        "no replicas": (document("ReplicaSet", {"replicas": 0, **TEMPLATE}), "default/x has none"),
        "a cluster of another document": (
            document("RayJob", {"clusterSelector": {"a": "b"}}),
            "those of the cluster that it selects",
        ),
    },
)
def test_document_that_makes_no_pods_is_named(made: Mapping[str, Any], message: str) -> None:
    with pytest.raises(NumaforgeError, match=message):
        workloads(made)


def test_pod_group_takes_only_the_pods_that_name_it() -> None:
    own = {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, "spec": containers()}
    group = document("PodGroup", {"minMember": 1}, "scheduling.x-k8s.io/v1alpha1")
    group["metadata"]["name"] = "g"
    of_group = {"name": "in", "template": {"spec": {"template": own}}}
    rest, gang = workloads(job_set(of_group, {"name": "out"}), group)
    assert [pod.pod.name for pod in rest.members] == ["default/x-out-0-0"]
    assert [pod.pod.name for pod in gang.members] == ["default/x-in-0-0"]
    assert (rest.is_gang, gang.is_gang) == (False, True)


@cases("made, note", CASES["named_settings"])
def test_unjudged_settings_are_named(made: Mapping[str, Any], note: str) -> None:
    [workload] = workloads(made)
    assert note in workload.notes


@cases("least, waits", {"the gang counts its launcher": (2, True), "its workers alone": (1, False)})
def test_launcher_made_after_its_gang_is_named(least: int, waits: bool) -> None:
    policy = {"runPolicy": {"schedulingPolicy": {"minAvailable": least}}}
    replicas = {"mpiReplicaSpecs": {"Launcher": TEMPLATE, "Worker": TEMPLATE}}
    made = {**replicas, **policy, "launcherCreationPolicy": "WaitForWorkersReady"}
    [workload] = workloads(document("MPIJob", made))
    assert any("mpi-operator#608" in note for note in workload.notes) == waits


@cases(
    "spec, scheduler", {"by default": ({}, "volcano"), "of the job": ({"schedulerName": "vc-gpu"}, "vc-gpu")}
)
def test_scheduler_of_a_volcano_job_is_read(spec: Mapping[str, Any], scheduler: str) -> None:
    made = document("Job", {**spec, "tasks": [TEMPLATE]}, VOLCANO)
    assert [pod.placing.scheduler for pod in workloads(made)[0].members] == [scheduler]
