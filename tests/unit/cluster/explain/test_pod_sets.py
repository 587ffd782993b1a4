"""Which pods a document makes: as its controller expands it, or none, and then it is named."""

from collections.abc import Mapping
from typing import Any

import pytest

from numaforge.cluster.explain.pod_sets import MOST_PODS, documents_of, name_without_pods, pod_sets
from numaforge.cluster.explain.workload import Workload, workloads_of
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.strict_yaml import read_manifests


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


@pytest.mark.parametrize(
    ("made", "names"),
    [
        pytest.param(document("Pod", containers()), ["default/x"], id="a pod"),
        pytest.param(containers(), ["bare"], id="a bare spec has the name of its file"),
        pytest.param(
            document("Deployment", {"replicas": 2, **TEMPLATE}, namespace="ml"),
            ["ml/x-0", "ml/x-1"],
            id="a Deployment",
        ),
        pytest.param(document("DaemonSet", TEMPLATE), ["default/x-0"], id="a DaemonSet: one a node"),
        pytest.param(
            document("Job", {"parallelism": 3, "completions": 2, **TEMPLATE}),
            ["default/x-0", "default/x-1"],
            id="a Job runs no more pods than have to complete",
        ),
        pytest.param(
            document("CronJob", {"jobTemplate": {"spec": {"parallelism": 2, **TEMPLATE}}}),
            ["default/x-0", "default/x-1"],
            id="a CronJob: those of one run",
        ),
        pytest.param(
            job_set({"name": "a", "replicas": 2}, {"name": "b"}),
            ["default/x-a-0-0", "default/x-a-1-0", "default/x-b-0-0"],
            id="a JobSet",
        ),
        pytest.param(
            document(
                "Job", {"tasks": [{"name": "t", "replicas": 2, **TEMPLATE}]}, "batch.volcano.sh/v1alpha1"
            ),
            ["default/x-t-0", "default/x-t-1"],
            id="a Job of Volcano",
        ),
        pytest.param(
            document(
                "CronJob",
                {"jobTemplate": {"spec": {"tasks": [{"name": "t", **TEMPLATE}]}}},
                "batch.volcano.sh/v1alpha1",
            ),
            ["default/x-t-0"],
            id="a CronJob of Volcano",
        ),
        pytest.param(
            document(
                "MPIJob", {"mpiReplicaSpecs": {"Launcher": TEMPLATE, "Worker": {"replicas": 2, **TEMPLATE}}}
            ),
            ["default/x-launcher-0", "default/x-worker-0", "default/x-worker-1"],
            id="an MPIJob",
        ),
        pytest.param(
            document("JAXJob", {"jaxReplicaSpecs": {"Worker": TEMPLATE}}),
            ["default/x-worker-0"],
            id="Kubeflow's other training kinds",
        ),
        pytest.param(
            document(
                "LeaderWorkerSet",
                {
                    "replicas": 2,
                    "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": containers()}},
                },
            ),
            ["default/x-0", "default/x-0-1", "default/x-1", "default/x-1-1"],
            id="a LeaderWorkerSet: its size counts the leader",
        ),
        pytest.param(
            document("RayCluster", {**HEAD, "workerGroupSpecs": [{**GROUP, "replicas": 1}]}),
            ["default/x-head", "default/x-gpus-0", "default/x-gpus-1"],
            id="a RayCluster: each replica has several hosts",
        ),
        pytest.param(
            document(
                "RayJob", {"rayClusterSpec": {**HEAD, "workerGroupSpecs": [{**GROUP, "minReplicas": 1}]}}
            ),
            ["default/x-head", "default/x-gpus-0", "default/x-gpus-1"],
            id="a RayJob starts with the fewest replicas",
        ),
        pytest.param(
            document(
                "RayService",
                {
                    "rayClusterConfig": {
                        **HEAD,
                        "workerGroupSpecs": [{**GROUP, "replicas": 9, "suspend": True}],
                    }
                },
            ),
            ["default/x-head"],
            id="a RayService without its suspended workers",
        ),
        pytest.param(
            document(
                "Workload", {"podSets": [{"name": "main", "count": 2, **TEMPLATE}]}, "kueue.x-k8s.io/v1beta1"
            ),
            ["default/x-main-0", "default/x-main-1"],
            id="a Workload of Kueue",
        ),
        pytest.param(
            document("AppWrapper", {"components": [{"template": document("Job", TEMPLATE)}]}),
            ["default/x-0"],
            id="an AppWrapper: what its components make",
        ),
        pytest.param(
            document("Sandbox", {"replicas": 2, **TEMPLATE}),
            ["default/x-0", "default/x-1"],
            id="any kind with a pod template",
        ),
    ],
)
def test_pods_of_a_document_are_counted(made: Mapping[str, Any], names: list[str]) -> None:
    assert [name for pods in pod_sets(made, "bare") for one in pods.sets for name in one.names] == names


@pytest.mark.parametrize(
    ("made", "note"),
    [
        pytest.param({"kind": "Namespace", "metadata": {"name": "ml"}}, "Namespace ml", id="a Namespace"),
        pytest.param(
            document("NodePool", {"template": {"spec": {"requirements": []}}}),
            "NodePool x",
            id="a template of what is not a pod",
        ),
        pytest.param(
            {"kind": "Workflow", "metadata": {"generateName": "train-"}, "spec": {"templates": []}},
            "Workflow train- (its pods are made by Argo Workflows, and not read)",
            id="a controller that is not read",
        ),
    ],
)
def test_documents_without_pods_are_named(made: Mapping[str, Any], note: str) -> None:
    assert pod_sets(made) == ()
    assert name_without_pods(made) == note


@pytest.mark.parametrize(
    ("made", "message"),
    [
        pytest.param({"kind": "Pod", "metadata": {"name": "p"}}, "has no spec", id="a Pod without a spec"),
        pytest.param(document("Deployment", {}), "nor a pod template", id="a Deployment without a template"),
        pytest.param(document("JobSet", {}), "no spec.replicatedJobs", id="a JobSet without jobs"),
        pytest.param(job_set({"name": "a", "template": 1}), "no template of a Job", id="a JobSet's job"),
        pytest.param(
            document("Deployment", {"replicas": "2", **TEMPLATE}), "'2' is not a number of pods", id="a text"
        ),
        pytest.param(
            job_set({"replicas": MOST_PODS}, {"replicas": 1}), "at most 10000", id="more than are placed"
        ),
        pytest.param(
            document(
                "LeaderWorkerSet",
                {
                    "replicas": MOST_PODS,
                    "leaderWorkerTemplate": {"size": MOST_PODS, "workerTemplate": TEMPLATE},
                },
            ),
            "at most 10000",
            id="as many as would take all memory",
        ),
    ],
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
WORKERS = {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, **TEMPLATE}}}


@pytest.mark.parametrize(
    ("made", "is_gang", "least"),
    [
        pytest.param(
            document("Deployment", {"replicas": 2, **TEMPLATE}), False, 2, id="a Deployment is no gang"
        ),
        pytest.param(job_set({"replicas": 2}), False, 2, id="a JobSet is none"),
        pytest.param(
            document("Job", {"parallelism": 2, **TEMPLATE}, **QUEUED), True, 2, id="what Kueue admits is one"
        ),
        pytest.param(document("PyTorchJob", WORKERS), False, 2, id="a PyTorchJob is none"),
        pytest.param(
            document("PyTorchJob", {**WORKERS, **POLICY}), True, 1, id="with a scheduling policy it is one"
        ),
    ],
)
def test_only_gang_scheduled_workloads_are_gangs(made: Mapping[str, Any], is_gang: bool, least: int) -> None:
    [workload] = workloads(made)
    assert (workload.is_gang, workload.least, len(workload.members)) == (is_gang, least, 2)


def after(name: str, status: str = "Complete") -> dict[str, Any]:
    return {"dependsOn": [{"name": name, "status": status}]}


@pytest.mark.parametrize(
    ("jobs", "stages"),
    [
        pytest.param([{"name": "a"}, {"name": "b"}], [["a", "b"]], id="all at once"),
        pytest.param([{"name": "a"}, {"name": "b", **after("a")}], [["a"], ["b"]], id="one after the other"),
        pytest.param(
            [{"name": "a"}, {"name": "b", **after("a", "Ready")}],
            [["a", "b"]],
            id="once it is ready: beside it",
        ),
        pytest.param(
            [{"name": "log"}, {"name": "a"}, {"name": "b", **after("a")}, {"name": "c", **after("b")}],
            [["log", "a"], ["log", "b"], ["log", "c"]],
            id="a job that nothing waits for runs through all stages",
        ),
    ],
)
def test_stages_of_a_jobset_are_read(jobs: list[dict[str, Any]], stages: list[list[str]]) -> None:
    found = workloads(job_set(*jobs))
    assert [[pod.pod.name.split("-")[1] for pod in stage.members] for stage in found] == stages
    assert [stage.follows for stage in found] == [False, *[True] * (len(stages) - 1)]


TOPOLOGY = "kueue.x-k8s.io/podset-"


@pytest.mark.parametrize(
    ("annotations", "units"),
    [
        pytest.param({}, [(4, None)], id="any nodes"),
        pytest.param({"required-topology": "rack"}, [(4, "rack")], id="one rack for all"),
        pytest.param(
            {"slice-required-topology": "host", "slice-size": "2"},
            [(2, "host"), (2, "host")],
            id="one host for each slice",
        ),
    ],
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


def test_pod_group_takes_only_the_pods_that_name_it() -> None:
    own = {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, "spec": containers()}
    group = document("PodGroup", {"minMember": 1}, "scheduling.x-k8s.io/v1alpha1")
    group["metadata"]["name"] = "g"
    of_group = {"name": "in", "template": {"spec": {"template": own}}}
    rest, gang = workloads(job_set(of_group, {"name": "out"}), group)
    assert [pod.pod.name for pod in rest.members] == ["default/x-out-0-0"]
    assert [pod.pod.name for pod in gang.members] == ["default/x-in-0-0"]
    assert (rest.is_gang, gang.is_gang) == (False, True)


@pytest.mark.parametrize(
    ("made", "note"),
    [
        pytest.param(
            document("Job", {"suspend": True, **TEMPLATE}),
            "it is suspended: it has no pods before it is resumed",
        ),
        pytest.param(
            document(
                "Job",
                {"tasks": [{"name": "w", "topologyPolicy": "restricted", **TEMPLATE}]},
                "batch.volcano.sh/v1alpha1",
            ),
            "topologyPolicy restricted of the task w, by which Volcano chooses nodes",
        ),
    ],
    ids=["suspended", "a policy of Volcano"],
)
def test_unjudged_settings_are_named(made: Mapping[str, Any], note: str) -> None:
    [workload] = workloads(made)
    assert note in workload.notes


@pytest.mark.parametrize(
    ("spec", "scheduler"),
    [({}, "volcano"), ({"schedulerName": "vc-gpu"}, "vc-gpu")],
    ids=["by default", "of the job"],
)
def test_scheduler_of_a_volcano_job_is_read(spec: Mapping[str, Any], scheduler: str) -> None:
    made = document("Job", {**spec, "tasks": [TEMPLATE]}, "batch.volcano.sh/v1alpha1")
    assert [pod.placing.scheduler for pod in workloads(made)[0].members] == [scheduler]
