"""Which pods a document makes: as its controller expands it, or none, and then it is named."""

from collections.abc import Mapping
from typing import Any

import pytest

from numaforge.cluster.explain.pod_sets import MOST_PODS, documents_of, name_without_pods, pod_sets
from numaforge.cluster.explain.workload import Workload, workloads_of
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.strict_yaml import read_manifests
from tests.fixtures.tables import cases


def containers(name: str = "main") -> dict[str, Any]:
    return {"containers": [{"name": name}]}


TEMPLATE = {"template": {"spec": containers()}}


def document(kind: str, spec: Mapping[str, Any], api: str = "", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "x", **metadata}, "spec": dict(spec)}


def job_set(*jobs: Mapping[str, Any]) -> dict[str, Any]:
    one = {"template": {"spec": TEMPLATE}}
    return document("JobSet", {"replicatedJobs": [{**one, **job} for job in jobs]})


HEAD = {"headGroupSpec": TEMPLATE}
GROUP = {"groupName": "gpus", "numOfHosts": 2, **TEMPLATE}


VOLCANO = "batch.volcano.sh/v1alpha1"
TASK = {"name": "t", **TEMPLATE}
WORKERS_OF_LEADERS = {"size": 2, "workerTemplate": {"spec": containers()}}


def ray(**group: Any) -> dict[str, Any]:
    return {**HEAD, "workerGroupSpecs": [{**GROUP, **group}]}


@cases(
    "made, names",
    {
        "a pod": (document("Pod", containers()), "x"),
        "a Deployment": (document("Deployment", {"replicas": 2, **TEMPLATE}), "x-0 x-1"),
        "null is one": (document("Deployment", {"replicas": None, **TEMPLATE}), "x-0"),
        "a DaemonSet: one a node": (document("DaemonSet", TEMPLATE), "x-0"),
        "a Job runs no more pods than have to complete": (
            document("Job", {"parallelism": 3, "completions": 2, **TEMPLATE}),
            "x-0 x-1",
        ),
        "a CronJob: those of one run": (
            document("CronJob", {"jobTemplate": {"spec": {"parallelism": 2, **TEMPLATE}}}),
            "x-0 x-1",
        ),
        "a JobSet": (job_set({"name": "a", "replicas": 2}, {"name": "b"}), "x-a-0-0 x-a-1-0 x-b-0-0"),
        "a Job of Volcano": (document("Job", {"tasks": [{**TASK, "replicas": 2}]}, VOLCANO), "x-t-0 x-t-1"),
        "a CronJob of Volcano": (
            document("CronJob", {"jobTemplate": {"spec": {"tasks": [TASK]}}}, VOLCANO),
            "x-t-0",
        ),
        "an MPIJob": (
            document(
                "MPIJob", {"mpiReplicaSpecs": {"Launcher": TEMPLATE, "Worker": {"replicas": 2, **TEMPLATE}}}
            ),
            "x-launcher-0 x-worker-0 x-worker-1",
        ),
        "Kubeflow's other training kinds": (
            document("JAXJob", {"jaxReplicaSpecs": {"Worker": TEMPLATE}}),
            "x-worker-0",
        ),
        "a LeaderWorkerSet: its size counts the leader": (
            document("LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": WORKERS_OF_LEADERS}),
            "x-0 x-0-1 x-1 x-1-1",
        ),
        "a RayCluster: each replica has several hosts": (
            document("RayCluster", ray(replicas=1)),
            "x-head x-gpus-0 x-gpus-1",
        ),
        "a RayJob starts with the fewest replicas": (
            document("RayJob", {"rayClusterSpec": ray(minReplicas=1)}),
            "x-head x-gpus-0 x-gpus-1",
        ),
        "a RayCluster has no fewer replicas than minReplicas": (
            document("RayCluster", ray(replicas=0, minReplicas=1)),
            "x-head x-gpus-0 x-gpus-1",
        ),
        "nor more than maxReplicas": (
            document("RayCluster", ray(replicas=9, maxReplicas=1)),
            "x-head x-gpus-0 x-gpus-1",
        ),
        "a RayService without its suspended workers": (
            document("RayService", {"rayClusterConfig": ray(replicas=9, suspend=True)}),
            "x-head",
        ),
        "a Workload of Kueue": (
            document(
                "Workload", {"podSets": [{"name": "main", "count": 2, **TEMPLATE}]}, "kueue.x-k8s.io/v1beta1"
            ),
            "x-main-0 x-main-1",
        ),
        "an AppWrapper: what its components make": (
            document("AppWrapper", {"components": [{"template": document("Job", TEMPLATE)}]}),
            "x-0",
        ),
        "any kind with a pod template": (document("Rollout", {"replicas": 2, **TEMPLATE}), "x-0 x-1"),
        "whatever it is called": (document("Sandbox", {"podTemplate": TEMPLATE["template"]}), "x-0"),
    },
)
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


MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
IN_ORDER = job_set({"name": "a"}, {"name": "b", **after("a")})
IN_ORDER["spec"]["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
TOPOLOGY = "kueue.x-k8s.io/podset-"
RACK = {"annotations": {f"{TOPOLOGY}required-topology": "rack"}}
TWO_TOPOLOGIES = {"annotations": {**RACK["annotations"], f"{TOPOLOGY}preferred-topology": "rack"}}


@cases(
    "made, message",
    {
        "a Pod without a spec": ({"kind": "Pod", "metadata": {"name": "p"}}, "has no spec"),
        "a Deployment without a template": (document("Deployment", {}), "nor a pod template"),
        "a JobSet without jobs": (document("JobSet", {}), "no spec.replicatedJobs"),
        "a JobSet's job": (job_set({"name": "a", "template": 1}), "no template of a Job"),
        "a text": (document("Deployment", {"replicas": "2", **TEMPLATE}), "'2' is not a number of pods"),
        "more than are placed": (job_set({"replicas": MOST_PODS}, {"replicas": 1}), "at most 10000"),
        "as many as would take all memory": (
            document(
                "LeaderWorkerSet",
                {
                    "replicas": MOST_PODS,
                    "leaderWorkerTemplate": {"size": MOST_PODS, "workerTemplate": TEMPLATE},
                },
            ),
            "at most 10000",
        ),
        "a job that depends on an unknown one": (
            job_set({"name": "a"}, {"name": "b", **after("c")}),
            "replicatedJob: b cannot depend on replicatedJob: c",
        ),
        "a job that depends on a later one": (
            job_set({"name": "a", **after("b")}, {"name": "b"}),
            "replicatedJob: a cannot depend on replicatedJob: b",
        ),
        "a status that no job has": (
            job_set({"name": "a"}, {"name": "b", **after("a", "Done")}),
            "'Done' is not a status",
        ),
        "jobs in order that depend on others": (IN_ORDER, "StartupPolicy and DependsOn APIs are mutually"),
        "two topologies of Kueue": (
            document("Deployment", {"template": {"metadata": TWO_TOPOLOGIES, "spec": containers()}}),
            "Kueue takes one topology annotation",
        ),
        "an annotation that is no text": (
            document("Job", TEMPLATE, annotations={MIN_PARALLELISM: 1}),
            "1 is not a text",
        ),
        "a gang of more pods than there are": (
            document("Job", {"minAvailable": 2, "tasks": [TEMPLATE]}, VOLCANO),
            "2 is more than the 1 replicas: Volcano refuses the job",
        ),
    },
)
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
POLICY = {"runPolicy": {"schedulingPolicy": {"minAvailable": 1}}}
KAI, RAY_GANG = "kai-scheduler", "ray.io/gang-scheduling-enabled"


def template(scheduler: str) -> dict[str, Any]:
    return {"template": {"spec": {**containers(), "schedulerName": scheduler}}}


def workers(scheduler: str = "default-scheduler") -> dict[str, Any]:
    return {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, **template(scheduler)}}}


WORKERS = workers()


@cases(
    "made, is_gang, least",
    {
        "a Deployment is no gang": (document("Deployment", {"replicas": 2, **TEMPLATE}), False, 2),
        "a JobSet is none": (job_set({"replicas": 2}), False, 2),
        "what Kueue admits is one": (document("Job", {"parallelism": 2, **TEMPLATE}, **QUEUED), True, 2),
        "of a Deployment Kueue admits each pod": (
            document("Deployment", {"replicas": 2, **TEMPLATE}, **QUEUED),
            False,
            2,
        ),
        "a Job that Kueue may admit in part": (
            document("Job", {"parallelism": 2, **TEMPLATE}, **QUEUED, annotations={MIN_PARALLELISM: "1"}),
            True,
            1,
        ),
        "the label of a CronJob's Job": (
            document(
                "CronJob", {"jobTemplate": {"metadata": QUEUED, "spec": {"parallelism": 2, **TEMPLATE}}}
            ),
            True,
            2,
        ),
        "what the tasks of a Volcano job need": (
            document("Job", {"tasks": [{**TASK, "replicas": 2, "minAvailable": 1}]}, VOLCANO),
            True,
            1,
        ),
        "a PyTorchJob is none": (document("PyTorchJob", WORKERS), False, 2),
        "with a scheduling policy it is one": (document("PyTorchJob", {**WORKERS, **POLICY}), True, 1),
        "KAI makes it one": (document("PyTorchJob", workers(KAI)), True, 2),
        "and starts the fewest of an elastic one": (
            document("PyTorchJob", {**workers(KAI), "elasticPolicy": {"minReplicas": 1}}),
            True,
            1,
        ),
        "KAI starts the head and the fewest workers of Ray": (
            document(
                "RayCluster",
                {
                    "headGroupSpec": template(KAI),
                    "workerGroupSpecs": [{"minReplicas": 1, "replicas": 1, **template(KAI)}],
                },
            ),
            True,
            2,
        ),
        "Ray's operator groups what its label says": (
            document("RayCluster", ray(replicas=1, numOfHosts=1), labels={RAY_GANG: "true"}),
            True,
            2,
        ),
        "KAI starts each pod of a Job": (document("Job", {"parallelism": 2, **template(KAI)}), False, 2),
        "Volcano's minimum of a Deployment": (
            document(
                "Deployment",
                {"replicas": 2, **template("volcano")},
                annotations={"scheduling.volcano.sh/group-min-member": "2"},
            ),
            True,
            2,
        ),
        "an AppWrapper that Kueue admits": (
            document("AppWrapper", {"components": [{"template": document("Job", TEMPLATE)}] * 2}, **QUEUED),
            True,
            2,
        ),
    },
)
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


PODS_OF_KUEUE = {
    "labels": {"kueue.x-k8s.io/pod-group-name": "g"},
    "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
}


COSCHEDULING = "pod-group.scheduling.sigs.k8s.io"
BY_LABELS = {f"{COSCHEDULING}/name": "g", f"{COSCHEDULING}/min-available": "2"}
TASK_GROUP = {
    "yunikorn.apache.org/task-group-name": "g",
    "yunikorn.apache.org/task-groups": '[{"name": "g", "minMember": 2}, {"name": "h", "minMember": 1}]',
}


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


@cases(
    "documents, is_gang",
    {
        "the policy basic has no pod wait for another": (
            [
                {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}},
                *[document("Pod", {**containers(), "schedulingGroup": {"podGroupName": "g"}})] * 2,
            ],
            False,
        ),
        "a group of a Workload of 1.35": (
            [workload_of_groups({"gang": {"minCount": 2}}), *[reference("g")] * 2],
            True,
        ),
        "a Workload's group with the policy basic": (
            [workload_of_groups({"basic": {}}), *[reference("g")] * 2],
            False,
        ),
        "YuniKorn's task group": (
            [document("Pod", containers(), annotations=TASK_GROUP)] * 2,
            True,
        ),
        "coscheduling's labels without a PodGroup": (
            [document("Pod", containers(), labels=BY_LABELS)] * 2,
            True,
        ),
        "Kueue's group of plain pods": ([document("Pod", containers(), **PODS_OF_KUEUE)] * 2, True),
    },
)
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


IN_SLICES = {
    f"{TOPOLOGY}required-topology": "block",
    f"{TOPOLOGY}slice-required-topology": "rack",
    f"{TOPOLOGY}slice-size": "1",
}
SUSPENDED = "it is suspended: it has no pods before it is resumed"
POLICY_OF_POD = {"annotations": {"volcano.sh/numa-topology-policy": "restricted"}}
WITH_EXCLUSIVE = {"metadata": {"annotations": {EXCLUSIVE: "rack"}}, "spec": TEMPLATE}


@cases(
    "made, note",
    {
        "suspended": (document("Job", {"suspend": True, **TEMPLATE}), SUSPENDED),
        "a suspended Job of a CronJob": (
            document("CronJob", {"jobTemplate": {"spec": {"suspend": True, **TEMPLATE}}}),
            SUSPENDED,
        ),
        "a suspended AppWrapper": (
            document(
                "AppWrapper", {"suspend": True, "components": [{"template": document("Job", TEMPLATE)}]}
            ),
            SUSPENDED,
        ),
        "a Workload that is not active": (
            document("Workload", {"active": False, "podSets": [TEMPLATE]}, "kueue.x-k8s.io/v1beta1"),
            "it is not active: it has no pods before spec.active is true",
        ),
        "the exclusive topology of a JobSet's job": (
            job_set({"template": WITH_EXCLUSIVE}),
            "its exclusive topology",
        ),
        "Kueue's topology in the wrong place": (
            document("Job", TEMPLATE, **RACK),
            "kueue.x-k8s.io/podset-required-topology of the Job: Kueue reads it of the pod template",
        ),
        "a policy of Volcano": (
            document("Job", {"tasks": [{**TASK, "topologyPolicy": "restricted"}]}, VOLCANO),
            "topologyPolicy restricted of the task t, by which Volcano chooses nodes",
        ),
        "a task that the gang waits for, and that waits for it": (
            document(
                "Job",
                {"minAvailable": 2, "tasks": [TEMPLATE, {**TASK, "dependsOn": {"name": ["0"]}}]},
                VOLCANO,
            ),
            "minAvailable 2 counts pods that are made later: the first ones wait for them for ever",
        ),
        "layers of Kueue's topology": (
            document(
                "Pod",
                containers(),
                annotations={"kueue.x-k8s.io/podset-slice-required-topology-constraints": "[]"},
            ),
            "kueue.x-k8s.io/podset-slice-required-topology-constraints: [], by which Kueue chooses nodes",
        ),
        "a topology around that of Kueue's slices": (
            document("Job", {"template": {"metadata": {"annotations": IN_SLICES}, "spec": containers()}}),
            "kueue.x-k8s.io/podset-required-topology of all slices together",
        ),
        "a RuntimeClass": (
            document("Pod", {**containers(), "runtimeClassName": "kata"}),
            "the overhead and the nodes of its RuntimeClass kata",
        ),
        "the share of a GPU that KAI gives": (
            document("Pod", containers(), annotations={"gpu-fraction": "0.5"}),
            "gpu-fraction: 0.5, the share of a GPU that KAI gives it",
        ),
        "Volcano's policy of a pod": (
            document("Pod", containers(), **POLICY_OF_POD),
            "volcano.sh/numa-topology-policy: restricted, by which Volcano chooses nodes",
        ),
        "a task of Volcano that waits for another": (
            document("Job", {"tasks": [TEMPLATE, {**TASK, "dependsOn": {"name": ["0"]}}]}, VOLCANO),
            "dependsOn of the task t, whose pods are made once 0 is ready",
        ),
    },
)
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
