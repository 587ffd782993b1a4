"""The pods that controllers make of a document: Kubernetes', Kueue's, Volcano's, Kubeflow's, Ray's.

Skips documents without pods (a Namespace, a Service, a claim), and kinds whose pods depend on more than the
document.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from numaforge.cluster.explain.placing import require_texts
from numaforge.kubelet.admission.pod import PodError
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import digits, mapping, mappings
from numaforge.lib.mistakes import shown

MOST_PODS = 10_000
"""The most pods of a file. A node of Kubernetes runs some hundreds."""

REMOVE = "remove"
"""The only key of a document that removes a pod from the node of `admit`."""

KUEUE = "kueue.x-k8s.io"
_QUEUE = f"{KUEUE}/queue-name"
_TOPOLOGIES = tuple(f"{KUEUE}/podset-{kind}-topology" for kind in ("required", "preferred", "unconstrained"))
_VOLCANO = "batch.volcano.sh"
_VOLCANO_SCHEDULER = "volcano"
_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
_BY_VOLCANO, _BY_KAI = "by which Volcano chooses nodes", "by which KAI chooses nodes"
_OF_SCHEDULERS = {
    "volcano.sh/numa-topology-policy": _BY_VOLCANO,
    "volcano.sh/network-topology-highest-tier": _BY_VOLCANO,
    "kai.scheduler/topology-required-placement": _BY_KAI,
    f"{KUEUE}/podset-slice-required-topology-constraints": "by which Kueue chooses nodes",
    "gpu-fraction": "the share of a GPU that KAI gives it",
    "gpu-memory": "the memory of a GPU that KAI gives it",
}
"""Annotations by which other schedulers place pods."""

_REPLICATED = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "DaemonSet")
_KUBEFLOW = {
    "MPIJob": "mpiReplicaSpecs",
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
}
"""Kubeflow's training kinds, and the field of each with its replicas by their role."""

_OF_OTHERS = {
    "Workflow": "Argo Workflows",
    "CronWorkflow": "Argo Workflows",
    "WorkflowTemplate": "Argo Workflows",
    "TrainJob": "Kubeflow Trainer, from its runtime",
    "InferenceService": "KServe",
    "LLMInferenceService": "KServe",
    "SparkApplication": "the Spark operator",
    "DynamoGraphDeployment": "Dynamo",
    "NIMService": "the NIM operator",
    "PodCliqueSet": "Grove",
}
"""Kinds whose pods depend on more than the document, and their makers."""

_LAUNCHER_WAITS = (
    "WaitForWorkersReady: its gang waits for a launcher that is made after it (mpi-operator#608)"
)
_EXCLUSIVE = (
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
)
_KAI = "kai-scheduler"
_GROUPED_BY_KAI = ("JobSet", "LeaderWorkerSet", "RayCluster", "RayJob", "RayService", *_KUBEFLOW)
"""Kinds whose pods KAI's pod-grouper makes one gang."""
_ADMITTED_WHOLE = ("Job", "CronJob", "StatefulSet", *_GROUPED_BY_KAI)
"""Kinds that Kueue admits as a whole; of others, such as a Deployment, each pod on its own."""
_MIN_PARALLELISM = f"{KUEUE}/job-min-parallelism"
_TEMPLATE_REMEDY = (
    "give a Pod, or what has a pod template: a Deployment, a Job, a JobSet, a Job of Volcano ..."
)

Document = Mapping[str, Any]


class PodSet(NamedTuple):
    """The pods of one template, by their names (NAMESPACE/NAME).

    `metadata` and `spec` are the template's. `topology_group` joins sets for Kueue's topology: "" for a set
    of its own. The pods run from the stage `first` to the stage `last` of their document.
    """

    names: tuple[str, ...]
    metadata: Document
    spec: Document
    topology_group: str = ""
    first: int = 0
    last: int = 0


@dataclass(frozen=True)
class PodSets:
    """The pods of a document.

    `least` of them start together; None without gang scheduling. `fewest` suffice where its kind is elastic.
    `stages` names what runs at the same time, one entry a stage. `network` is Volcano's networkTopology.
    `notes` name what is not judged. Where the controller `makes_its_group`, a PodGroup that the pods name is
    ignored. `sets_of_group` sets after one another are a gang of their own; 0 for all. An update of one that
    `surges` takes no pod away before another runs.
    """

    kind: str
    name: str
    sets: tuple[PodSet, ...]
    least: int | None = None
    fewest: int | None = None
    stages: tuple[str, ...] = ("",)
    network: Document = field(default_factory=dict)
    makes_its_group: bool = False
    notes: tuple[str, ...] = ()
    sets_of_group: int = 0
    surges: bool = False

    @property
    def count(self) -> int:
        """The number of pods."""
        return _pods_in(self.sets)

    def gangs(self) -> "tuple[PodSets, ...]":
        """Return the gangs; one for all but for a LeaderWorkerSet, whose groups start apart."""
        size = self.sets_of_group
        if self.least is None or not size:
            return (self,)
        groups = (self.sets[start : start + size] for start in range(0, len(self.sets), size))
        return tuple(
            replace(self, name=f"{self.name}-{number}", sets=sets, least=_pods_in(sets))
            for number, sets in enumerate(groups)
        )


def documents_of(documents: Iterable[object], where: str) -> Iterator[Document]:
    """Yield a file's documents, those of a List one by one; raises PodError for one that is no mapping."""
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, Mapping):
            raise PodError(f"{shown(document)} is not an object: the document is not a mapping", where=where)
        if "items" not in document and not str(document.get("kind", "")).endswith("List"):
            yield document
            continue
        items = document.get("items") or []
        if not isinstance(items, list):
            raise PodError(f"{shown(items)} is not a list of pods", where=f"{where}: items")
        yield from documents_of(items, f"{where}: items")


def pod_sets(document: Document, unnamed: str = "pod", number: int = 0) -> tuple[PodSets, ...]:
    """Return the pods of a document, the one of this number in its file; none where it has no readable pods.

    `unnamed` names a pod whose document has no name. Raises NumaforgeError for a document of a known kind
    without its pod template, or with more than MOST_PODS pods.
    """
    metadata, spec = mapping(document.get("metadata")), mapping(document.get("spec"))
    stem = str(metadata.get("generateName") or unnamed).rstrip("-.")
    short_name = metadata.get("name") or (f"{stem}-{number}" if number else stem)
    if "containers" in document:
        return (PodSets("Pod", str(short_name), (PodSet((str(short_name),), {}, document),)),)
    kind = str(document.get("kind") or ("Pod" if "spec" in document else ""))
    name = f"{metadata.get('namespace') or 'default'}/{short_name}"
    api = str(document.get("apiVersion") or "").rpartition("/")[0]
    if kind == "AppWrapper":
        return _app_wrapper(spec, metadata, name)
    reader = _reader(kind, api, spec)
    if reader is None:
        return ()
    if not isinstance(document.get("spec"), Mapping):
        raise PodError(f"{kind} {name!r} has no spec")
    _require_metadata(metadata, name)
    inner = spec
    for key in _INNER.get(kind, ()):
        inner = mapping(inner.get(key))
    sets = reader(_Controlled(kind, name, inner, metadata))
    _few(sets.count, name)
    return _with_metadata(sets, spec, metadata).gangs()


def _app_wrapper(spec: Document, metadata: Document, name: str) -> tuple[PodSets, ...]:
    """Return the pods of an AppWrapper's components: one gang where Kueue admits it."""
    components = [mapping(part.get("template")) for part in mappings(spec.get("components"))]
    parts = [pods for number, part in enumerate(components) for pods in pod_sets(part, number=number)]
    if _QUEUE in mapping(metadata.get("labels")) and parts:
        sets = tuple(pod_set for pods in parts for pod_set in pods.sets)
        notes = tuple(note for pods in parts for note in pods.notes)
        kinds = ", ".join(dict.fromkeys(pods.kind for pods in parts))
        stages = max((pods.stages for pods in parts), key=len)
        whole = PodSets(f"AppWrapper of {kinds}", name, sets, stages=stages, notes=notes)
        parts = [replace(whole, least=whole.count)]
    return tuple(replace(pods, notes=(*pods.notes, *_suspended(spec))) for pods in parts)


def name_without_pods(document: Document) -> str:
    """Return the name of a document without readable pods, and who makes its pods."""
    kind = str(document.get("kind") or "a document without a kind")
    metadata = mapping(document.get("metadata"))
    name = f"{kind} {metadata.get('name') or metadata.get('generateName') or ''}".strip()
    maker = _OF_OTHERS.get(kind)
    return f"{name} (its pods are made by {maker}, and not read)" if maker else name


def _reader(kind: str, api: str, spec: Document) -> "_Reader | None":
    """Return what reads a kind; None for a kind without a pod template."""
    if api in _OF_API and kind in _OF_API[api]:
        return _OF_API[api][kind]
    if kind in _KUBEFLOW:
        return _kubeflow if _KUBEFLOW[kind] in spec else None
    if kind in _READERS:
        return _READERS[kind]
    has_pod = "containers" in spec or "containers" in mapping(_template_of(spec).get("spec"))
    return _replicated if has_pod else None


def _template_of(holder: Document) -> Document:
    return mapping(holder.get("template") or holder.get("podTemplate"))


def _with_metadata(pods: PodSets, spec: Document, metadata: Document) -> PodSets:
    """Return the pods with the labels and annotations of their document, or of a CronJob's Job."""
    job = mapping(spec.get("jobTemplate"))
    of_job = mapping(job.get("metadata"))
    annotations = {**mapping(metadata.get("annotations")), **mapping(of_job.get("annotations"))}
    notes = [*pods.notes, *(_suspended(spec) or _suspended(mapping(job.get("spec"))))]
    inner = [mapping(one.get("template")) for one in mappings(spec.get("replicatedJobs"))]
    keys = {
        *annotations,
        *(key for one in inner for key in mapping(mapping(one.get("metadata")).get("annotations"))),
    }
    if keys.intersection(_EXCLUSIVE):
        notes.append("its exclusive topology")
    if pods.kind != "Pod":
        unread = [key for key in _TOPOLOGIES if key in annotations]
        notes += [f"{key} of the {pods.kind}: Kueue reads it of the pod template" for key in unread]
    for one in pods.sets:
        name = str(one.spec.get("runtimeClassName") or "nvidia")
        if not name.startswith("nvidia") and "overhead" not in one.spec:
            notes.append(f"the overhead and the nodes of its RuntimeClass {name}")
    of_pods = [mapping(one.metadata.get("annotations")) for one in pods.sets]
    if any({_TOPOLOGIES[0], f"{KUEUE}/podset-slice-required-topology"} <= own.keys() for own in of_pods):
        notes.append(f"{_TOPOLOGIES[0]} of all slices together")
    notes += dict.fromkeys(
        f"{key}: {own[key]}, {what}"
        for own in (annotations, *of_pods)
        for key, what in _OF_SCHEDULERS.items()
        if own.get(key) not in (None, "none")
    )
    labels = {**mapping(metadata.get("labels")), **mapping(of_job.get("labels"))}
    least = pods.least
    if least is None and (fewest := _fewest_together(pods, labels, annotations)) is not None:
        least = min(fewest, pods.count)
    return replace(pods, least=least, notes=tuple(dict.fromkeys(notes)))


def _fewest_together(pods: PodSets, labels: Document, annotations: Document) -> int | None:
    """Return how many pods Kueue, KAI, Volcano or Ray's operator starts together; None for each on its own.

    KAI: pkg/podgrouper/podgrouper/plugins; Volcano: pkg/controllers/podgroup, for pods not of its own Jobs.
    """
    schedulers = {one.spec.get("schedulerName") for one in pods.sets}
    if _QUEUE in labels and pods.kind in _ADMITTED_WHOLE:
        fewest = digits(annotations.get(_MIN_PARALLELISM)) if pods.kind in ("Job", "CronJob") else None
        return fewest or pods.count
    if schedulers == {_KAI} and pods.kind in _GROUPED_BY_KAI:
        return pods.fewest or pods.count
    if labels.get("ray.io/gang-scheduling-enabled") == "true" or labels.get("ray.io/scheduler-name"):
        return pods.count
    if schedulers == {_VOLCANO_SCHEDULER} and pods.kind in (*_REPLICATED, "Job"):
        return digits(annotations.get(_MIN_MEMBER))
    return None


def _suspended(spec: Document) -> tuple[str, ...]:
    """Return the note on a document without pods for now."""
    if spec.get("active") is False:
        return ("it is not active: it has no pods before spec.active is true",)
    if spec.get("suspend") is True or mapping(spec.get("runPolicy")).get("suspend") is True:
        return ("it is suspended: it has no pods before it is resumed",)
    return ()


@dataclass(frozen=True)
class _Controlled:
    """A document as its controller reads it: `spec` has the pod templates, `name` is NAMESPACE/NAME."""

    kind: str
    name: str
    spec: Document
    metadata: Document

    def count(self, holder: Document, key: str, where: object = "spec", default: int = 1) -> int:
        """Return a number of pods; the default where it is left out or null."""
        value = holder.get(key)
        return number_of_pods(default if value is None else value, self.name, f"{where}.{key}")

    def numbered(self, holder: Document, count: int, role: object = None) -> PodSet:
        """Return this many pods of the template in `holder`, numbered below their role."""
        stem = self.name if role is None else f"{self.name}-{role}"
        return self.pods(holder, tuple(f"{stem}-{number}" for number in range(_few(count, self.name))))

    def pods(self, holder: Document, names: tuple[str, ...]) -> PodSet:
        """Return the pods of the template in `holder`, in the namespace of their document."""
        template, where = _template_of(holder), f"{self.kind} {self.name}"
        spec = template.get("spec")
        if not isinstance(spec, Mapping) or "containers" not in spec:
            problem = "holds no pod: neither spec.containers nor a pod template"
            raise PodError(problem, where=where, remedy=_TEMPLATE_REMEDY)
        metadata = {"namespace": self.metadata.get("namespace"), **mapping(template.get("metadata"))}
        _require_metadata(metadata, f"{where}: template")
        annotations = mapping(metadata.get("annotations"))
        if len(topologies := [key for key in _TOPOLOGIES if key in annotations]) > 1:
            text = f"Kueue takes one topology annotation, not {' and '.join(topologies)}"
            raise PodError(text, where=where, remedy="keep one of them")
        return PodSet(names, metadata, spec, str(annotations.get(f"{KUEUE}/podset-group-name") or ""))


_Reader = Callable[[_Controlled], PodSets]


def _replicated(of: _Controlled) -> PodSets:
    if "containers" in of.spec:
        return PodSets(of.kind, of.name, (PodSet((of.name,), of.metadata, of.spec),))
    count = of.count(of.spec, "replicas")
    surges = of.kind == "Deployment" and _surges(of.spec, count)
    return PodSets(of.kind, of.name, (of.numbered(of.spec, count),), surges=surges)


def _surges(spec: Document, count: int) -> bool:
    """Return whether a rolling update has to add a pod before it may take one away (ResolveFenceposts)."""
    strategy = mapping(spec.get("strategy"))
    rolling = {"maxSurge": "25%", "maxUnavailable": "25%", **mapping(strategy.get("rollingUpdate"))}
    surge, unavailable = (
        int(text[:-1]) * count / 100 if text[:-1].isdigit() and text[-1] == "%" else digits(text) or 0
        for text in (str(rolling[key]) for key in ("maxSurge", "maxUnavailable"))
    )
    return strategy.get("type") != "Recreate" and unavailable < 1 and surge > 0


def _job(of: _Controlled) -> PodSets:
    return PodSets(of.kind, of.name, (of.numbered(of.spec, _parallel(of, of.spec)),))


def _parallel(of: _Controlled, spec: Document) -> int:
    """Return the number of a Job's parallel pods: at most its completions."""
    parallelism = of.count(spec, "parallelism")
    return min(parallelism, of.count(spec, "completions", default=parallelism))


def _job_set(of: _Controlled) -> PodSets:
    jobs = of.spec.get("replicatedJobs")
    if not isinstance(jobs, list) or not jobs:
        raise PodError(f"{of.kind} {of.name!r} has no spec.replicatedJobs")
    if mapping(of.spec.get("startupPolicy")).get("startupPolicyOrder") == "InOrder" and any(
        job.get("dependsOn") for job in mappings(jobs)
    ):
        raise PodError(
            "StartupPolicy and DependsOn APIs are mutually exclusive", where=f"{of.kind} {of.name}"
        )
    firsts, lasts = _stages(mappings(jobs), f"{of.kind} {of.name}")
    sets, roles = [], []
    for number, job in enumerate(jobs):
        where = f"spec.replicatedJobs[{number}]"
        inner = mapping(mapping(mapping(job).get("template")).get("spec"))
        if not inner:
            raise PodError("has no template of a Job", where=f"{of.name}: {where}")
        roles.append(str(job.get("name", number)))
        copies, count = of.count(job, "replicas", where), _parallel(of, inner)
        _few(copies * count, of.name)
        stem = f"{of.name}-{roles[-1]}"
        names = tuple(f"{stem}-{copy}-{pod}" for copy in range(copies) for pod in range(count))
        sets.append(of.pods(inner, names)._replace(first=firsts[number], last=lasts[number]))
    stages = tuple(
        ", ".join(role for role, pods in zip(roles, sets, strict=True) if pods.first <= stage <= pods.last)
        for stage in range(max(firsts) + 1)
    )
    return PodSets(of.kind, of.name, tuple(sets), stages=stages)


def _stages(jobs: Sequence[Document], where: str) -> tuple[list[int], list[int]]:
    """Return the first and last stage of each of a JobSet's jobs.

    jobset's pkg/controllers/depends_on.go: a job that depends on another's completion is made after it; one
    that depends on its readiness runs at the same time. Raises PodError, as its webhook does, for a job that
    depends on no earlier one.
    """
    numbers = {str(job.get("name", number)): number for number, job in enumerate(jobs)}
    firsts = [0] * len(jobs)
    ends: dict[int, int] = {}
    for number, job in enumerate(jobs):
        for dependency in mappings(job.get("dependsOn")):
            other, status = str(dependency.get("name")), dependency.get("status")
            dependency_number = numbers.get(other, number)
            if dependency_number >= number:
                text = f"replicatedJob: {job.get('name')} cannot depend on replicatedJob: {other}"
                raise PodError(text, where=where, remedy="name a job that stands before it in replicatedJobs")
            if status not in ("Ready", "Complete"):
                raise PodError(
                    f"{shown(status)} is not a status", where=where, remedy="write Ready or Complete"
                )
            completes = status == "Complete"
            firsts[number] = max(firsts[number], firsts[dependency_number] + completes)
            if completes:
                ends[dependency_number] = min(ends.get(dependency_number, len(jobs)), firsts[number] - 1)
    return firsts, [ends.get(number, max(firsts)) for number in range(len(jobs))]


def _volcano_job(of: _Controlled) -> PodSets:
    """A Job of Volcano: first the pods that each task needs, then the others.

    Without minAvailable the gang is what the tasks need; beside a smaller one that does not count
    (webhooks/admission/jobs/mutate, JobInfo.CheckTaskReady).
    """
    tasks = of.spec.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        raise PodError(f"Job {of.name!r} of Volcano has no spec.tasks")
    scheduler = of.spec.get("schedulerName") or _VOLCANO_SCHEDULER
    first, rest, notes, later = [], [], [], 0
    for number, task in enumerate(tasks):
        if not isinstance(task, Mapping):
            raise PodError("must be a mapping", where=f"{of.name}: spec.tasks[{number}]")
        role, where = str(task.get("name", number)), f"spec.tasks[{number}]"
        count = of.count(task, "replicas", where)
        fewest = of.count(task, "minAvailable", where, count)
        _require_at_most(fewest, count, of.name, f"{where}.minAvailable")
        pods = of.numbered(task, count, role)
        pods = pods._replace(spec={"schedulerName": scheduler, **pods.spec})
        first.append(pods._replace(names=pods.names[:fewest]))
        rest.append(pods._replace(names=pods.names[fewest:]))
        if earlier := mapping(task.get("dependsOn")).get("name"):
            tasks_before = ", ".join(map(str, earlier)) if isinstance(earlier, list) else str(earlier)
            notes.append(f"dependsOn of the task {role}, whose pods are made once {tasks_before} is ready")
            later += count
        if (policy := task.get("topologyPolicy")) not in (None, "none"):
            notes.append(f"topologyPolicy {policy} of the task {role}, by which Volcano chooses nodes")
        if task.get("partitionPolicy"):
            notes.append(f"partitionPolicy of the task {role}")
    total = _pods_in(first) + _pods_in(rest)
    least = of.count(of.spec, "minAvailable", default=0)
    _require_at_most(least, total, of.name, "spec.minAvailable")
    if later and least > total - later:
        notes.append(
            f"minAvailable {least} counts pods that are made later: the first ones wait for them for ever"
        )
    return PodSets(
        f"{of.kind} of Volcano",
        of.name,
        (*first, *rest),
        least or _pods_in(first),
        network=mapping(of.spec.get("networkTopology")),
        makes_its_group=True,
        notes=tuple(notes),
    )


def _kueue_workload(of: _Controlled) -> PodSets:
    sets = [
        of.numbered(pods, of.count(pods, "count", number), pods.get("name", number))
        for number, pods in enumerate(mappings(of.spec.get("podSets")))
    ]
    return PodSets(f"{of.kind} of Kueue", of.name, tuple(sets), _pods_in(sets))


def _kubeflow(of: _Controlled) -> PodSets:
    """Kubeflow's training kinds: with a scheduling policy their pods are a gang (training-operator)."""
    sets = tuple(
        of.numbered(mapping(replicas), of.count(mapping(replicas), "replicas", role), str(role).lower())
        for role, replicas in mapping(of.spec[_KUBEFLOW[of.kind]]).items()
    )
    total = _pods_in(sets)
    policy = mapping(of.spec.get("runPolicy")).get("schedulingPolicy")
    if not isinstance(policy, Mapping):
        elastic = mapping(of.spec.get("elasticPolicy"))
        return PodSets(
            of.kind, of.name, sets, fewest=of.count(elastic, "minReplicas", "elasticPolicy", total)
        )
    declared = policy.get("minAvailable") or total
    least = min(number_of_pods(declared, of.name, "schedulingPolicy.minAvailable"), total)
    waits = of.spec.get("launcherCreationPolicy") == "WaitForWorkersReady" and least == total
    return PodSets(of.kind, of.name, sets, least, notes=(_LAUNCHER_WAITS,) if waits else ())


def _leader_worker_set(of: _Controlled) -> PodSets:
    group = mapping(of.spec.get("leaderWorkerTemplate"))
    copies = of.count(of.spec, "replicas")
    size = of.count(group, "size", "spec.leaderWorkerTemplate")
    _few(copies * size, of.name)
    workers, leaders = ({"template": group.get(f"{role}Template")} for role in ("worker", "leader"))
    sets = []
    for copy in range(copies):
        names = (f"{of.name}-{copy}", *(f"{of.name}-{copy}-{number}" for number in range(1, size)))
        if leaders["template"]:
            sets.append(of.pods(leaders, names[:1]))
            names = names[1:]
        if names:
            sets.append(of.pods(workers, names))
    return PodSets(of.kind, of.name, tuple(sets), sets_of_group=len(sets) // max(1, copies))


def _ray(of: _Controlled) -> PodSets:
    """A Ray cluster: its head, and each worker group's replicas times its hosts.

    ray-operator's GetWorkerGroupDesiredReplicas: the replicas lie within minReplicas and maxReplicas.
    """
    sets = [of.pods(mapping(of.spec.get("headGroupSpec")), (f"{of.name}-head",))]
    fewest_pods = 1
    for number, group in enumerate(mappings(of.spec.get("workerGroupSpecs"))):
        role = group.get("groupName", number)
        where = f"workerGroupSpecs[{role}]"
        fewest = of.count(group, "minReplicas", where, 0)
        copies = max(fewest, of.count(group, "replicas", where, fewest))
        most = group.get("maxReplicas")
        copies = min(copies, most) if type(most) is int and most >= fewest else copies
        hosts = of.count(group, "numOfHosts", where)
        if group.get("suspend") is not True:
            sets.append(of.numbered(group, copies * hosts, role))
            fewest_pods += (fewest or copies) * hosts
    notes = ("its autoscaler changes how many workers there are",)
    scaled = bool(of.spec.get("enableInTreeAutoscaling"))
    return PodSets(of.kind, of.name, tuple(sets), fewest=fewest_pods, notes=notes if scaled else ())


def _ray_job(of: _Controlled) -> PodSets:
    if not of.spec.get("rayClusterSpec"):
        return PodSets(of.kind, of.name, (), notes=("its pods are those of the cluster that it selects",))
    cluster = _ray(replace(of, spec=mapping(of.spec["rayClusterSpec"])))
    if of.spec.get("submissionMode", "K8sJobMode") != "K8sJobMode":
        return cluster
    if not isinstance(submitter := of.spec.get("submitterPodTemplate"), Mapping):
        note = "the pod that submits it, of 1 CPU at most, is not counted"
        return replace(cluster, notes=(*cluster.notes, note))
    pods = of.pods({"template": submitter}, (f"{of.name}-submitter",))
    return replace(cluster, sets=(*cluster.sets, pods))


def _require_metadata(metadata: Document, where: str) -> None:
    """Raise PodError for labels or annotations that no API server decodes."""
    for key in ("labels", "annotations"):
        require_texts(mapping(metadata.get(key)), f"{where}: metadata.{key}")


def _pods_in(sets: Iterable[PodSet]) -> int:
    return sum(len(pods.names) for pods in sets)


def _require_at_most(fewest: int, count: int, name: str, key: str) -> None:
    """Raise NumaforgeError, as Volcano's webhook does, for a gang of more pods than there are."""
    if fewest > count:
        raise NumaforgeError(
            f"{fewest} is more than the {count} replicas: Volcano refuses the job",
            where=f"{name}: {key}",
            remedy=f"write {count} at most",
        )


def number_of_pods(value: object, where: str, key: str, fewest: int = 0) -> int:
    """Return a number of pods; raises NumaforgeError for any other value."""
    if type(value) is not int or not fewest <= value <= MOST_PODS:
        raise NumaforgeError(
            f"{shown(value)} is not a number of pods",
            where=f"{where}: {key}",
            remedy=f"write {fewest} to {MOST_PODS}",
        )
    return value


def _few(count: int, name: str) -> int:
    """Raise NumaforgeError before names of more pods are made than are placed at once."""
    if count > MOST_PODS:
        raise NumaforgeError(f"has {count} pods; at most {MOST_PODS} are placed at once", where=name)
    return count


_READERS: Mapping[str, _Reader] = {
    **dict.fromkeys(("Pod", *_REPLICATED), _replicated),
    "Job": _job,
    "CronJob": _job,
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_worker_set,
    "RayCluster": _ray,
    "RayJob": _ray_job,
    "RayService": _ray,
}
_INNER = {"CronJob": ("jobTemplate", "spec"), "RayService": ("rayClusterConfig",)}
"""The fields that lead to the spec of a kind that another reader reads."""
_OF_API: Mapping[str, Mapping[str, _Reader]] = {
    _VOLCANO: dict.fromkeys(("Job", "CronJob"), _volcano_job),
    KUEUE: {"Workload": _kueue_workload},
}
"""Kinds that other API groups also have."""
