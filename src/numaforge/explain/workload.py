"""What to place: a pod, or the pods of a gang, from documents of Kubernetes and its schedulers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numaforge.errors import NumaforgeError
from numaforge.explain.claims import PodClaim, is_of_claims, pod_claims
from numaforge.explain.placing import Placing, placing_of
from numaforge.given import mapping, mappings
from numaforge.kubelet.admission.pod import Pod, PodError
from numaforge.mistakes import shown
from numaforge.rollout.budget import CLIQUE
from numaforge.schedulers import gangs

MOST_PODS = 10_000
"""How many pods are placed at once."""

CLIQUE_TIER = 1
"""The tier of HyperNodes that are NVLink domains, as `numaforge cluster generate` writes them."""

_DOMAINS = "kueue.x-k8s.io/podset-required-topology"
_COUNTS = {"Deployment": "replicas", "StatefulSet": "replicas", "ReplicaSet": "replicas"}
_GROUP_LABELS = {
    "scheduling.x-k8s.io/pod-group": "scheduling.x-k8s.io",
    "pod-group.scheduling.sigs.k8s.io": "scheduling.sigs.k8s.io",
}
_GROUP_ANNOTATIONS = {
    "scheduling.k8s.io/group-name": "scheduling.volcano.sh",
    "scheduling.volcano.sh/group-name": "scheduling.volcano.sh",
}
_KOORDINATOR = "gang.scheduling.koordinator.sh"

Document = Mapping[str, Any]
GroupName = tuple[str, str]
"""The API group of a PodGroup, and its namespace and name: three API groups have PodGroups."""


@dataclass(frozen=True)
class GangPod:
    """A pod, and where its spec lets it go. `group` is the PodGroup that it names."""

    pod: Pod
    placing: Placing
    group: GroupName | None = None
    domain: str | None = None
    least: int | None = None
    claims: tuple[PodClaim, ...] = ()


@dataclass(frozen=True)
class Workload:
    """Pods that belong together.

    At least `least` of them must run at once; `domain` is the label that all their nodes must share, None
    where any nodes will do. `notes` name what is not judged.
    """

    kind: str
    name: str
    members: tuple[GangPod, ...]
    least: int
    domain: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Group:
    """A PodGroup: how many pods start together, and which label their nodes share."""

    least: int
    domain: str | None = None
    notes: tuple[str, ...] = ()


@dataclass
class _Reading:
    """What has been read of a file so far."""

    groups: dict[GroupName, Group] = field(default_factory=dict)
    loose: dict[GroupName, list[GangPod]] = field(default_factory=dict)
    found: list[Workload] = field(default_factory=list)


def workloads_of(documents: Iterable[object], where: str) -> tuple[Workload, ...]:
    """Return the workloads in documents, in their order; pods of one gang are one workload.

    Raises NumaforgeError for a document that holds no pods, and for a PodGroup whose pods are missing.
    """
    reading = _Reading()
    for number, document in enumerate(documents):
        if not isinstance(document, Mapping):
            raise PodError(f"{shown(document)} is no pod: the document is not a mapping", where=where)
        try:
            _read(document, reading, number)
        except NumaforgeError as error:
            raise error.at(where) from error
    for api, name in reading.groups:
        if (api, name) not in reading.loose and (api or name not in {each for _, each in reading.loose}):
            remedy = "give the pods of the gang, or what makes them, in the same file"
            raise NumaforgeError(
                f"PodGroup {name!r}: no pod says that it is of it", where=where, remedy=remedy
            )
    loose = [gang_of(name, members, said_of(name, reading.groups)) for name, members in reading.loose.items()]
    workloads = (*reading.found, *loose)
    if sum(len(each.members) for each in workloads) > MOST_PODS:
        raise NumaforgeError(f"holds more than the {MOST_PODS} pods that are placed at once", where=where)
    if not any(each.members for each in workloads):
        raise NumaforgeError("holds no pod", where=where)
    return workloads


def said_of(name: GroupName, groups: Mapping[GroupName, Group]) -> Group | None:
    """Return the PodGroup of this name; one that is given without an API group matches any."""
    return groups.get(name) or groups.get(("", name[1]))


def gang_of(name: GroupName, members: Iterable[GangPod], group: Group | None) -> Workload:
    """Return the pods of a gang as one workload; without its PodGroup all of them start together."""
    pods = tuple(members)
    said = max((each.least or 0 for each in pods), default=0)
    least = group.least if group else said or len(pods)
    domain = (group.domain if group else None) or next((each.domain for each in pods if each.domain), None)
    notes = group.notes if group else ()
    if group is None and not said:
        notes = ("its PodGroup is not given: all of its pods count as starting together",)
    if least > len(pods):
        notes = (*notes, f"{least} pods have to start together, and {len(pods)} of them are known")
    return Workload("PodGroup", name[1], pods, least, domain, notes)


def group_of(document: Document) -> Group:
    """Read a PodGroup: Volcano's, that of scheduler-plugins, or Kubernetes' own.

    Kubernetes' own is read in v1alpha2 (1.36), v1alpha3 and v1beta1 (1.37): the policy `gang`, or
    `basic`, under which no pod waits for another, and the constraint `topology`.
    """
    spec = mapping(document.get("spec"))
    policy = mapping(spec.get("schedulingPolicy"))
    gang = policy.get("gang")
    key = "minCount" if isinstance(gang, Mapping) else "minMember"
    least = gang.get(key) if isinstance(gang, Mapping) else spec.get(key, 1)
    where = f"PodGroup {_name(document)}"
    domain, notes = _network(spec)
    topology = mappings(mapping(spec.get("schedulingConstraints")).get("topology"))
    if topology:
        domain = str(topology[0].get("key"))
    if parent := spec.get("parentCompositePodGroupName"):
        notes = (*notes, f"its CompositePodGroup {parent}, whose groups wait for one another")
    if mappings(spec.get("resourceClaims")):
        notes = (*notes, "claims that its pods share: each pod is judged as if it had its own")
    return Group(_count(least, where, key, 1), domain, notes)


def group_name(document: Document) -> GroupName:
    """Return the API group of a PodGroup, "" where it names none, and its name."""
    return str(document.get("apiVersion") or "").rpartition("/")[0], _name(document)


def member_of(metadata: Document, spec: Document, name: str, status: Document | None = None) -> GangPod:
    """Return a pod with its gang, by its metadata; `status` names the claims generated for it."""
    pod = Pod.from_manifest({"spec": spec}, name)
    labels, annotations = _texts(metadata.get("labels")), _texts(metadata.get("annotations"))
    native = mapping(spec.get("schedulingGroup")).get("podGroupName")
    names = [
        (gangs.GROUP, str(native) if native else None),
        *((api, labels.get(key)) for key, api in _GROUP_LABELS.items()),
        *((api, annotations.get(key)) for key, api in _GROUP_ANNOTATIONS.items()),
        (_KOORDINATOR, annotations.get(f"{_KOORDINATOR}/name")),
    ]
    group = next(((api, name) for api, name in names if name), None)
    least = annotations.get(f"{_KOORDINATOR}/min-available")
    return GangPod(
        pod,
        placing_of(spec, name),
        (group[0], f"{_namespace(metadata)}/{group[1]}") if group else None,
        annotations.get(_DOMAINS),
        int(least) if least and least.isascii() and least.isdigit() and len(least) < 9 else None,
        pod_claims(spec, status or {}, _namespace(metadata), name),
    )


def _read(document: Document, reading: _Reading, number: int) -> None:
    kind = str(document.get("kind") or "Pod")
    if kind.endswith("List"):
        for each in document.get("items") or ():
            if not isinstance(each, Mapping):
                raise PodError(f"{shown(each)} is no pod", where="items")
            _read(each, reading, number)
        return
    if kind == "PodGroup":
        reading.groups[group_name(document)] = group_of(document)
        return
    if kind == "Workload" or is_of_claims(document):  # makes PodGroups or claims, no pods
        return
    name = _name(document)
    volcano = kind == "Job" and str(document.get("apiVersion", "")).startswith("batch.volcano.sh/")
    if volcano or kind == "JobSet":
        reading.found.append(_volcano_job(document, name) if volcano else _job_set(document, name))
        return
    members = tuple(_members(document, name, number))
    if members and members[0].group is not None:
        reading.loose.setdefault(members[0].group, []).extend(members)
        return
    domain = members[0].domain if members else None
    reading.found.append(Workload(kind, name, members, len(members), domain))


def _members(document: Document, name: str, number: int) -> Iterator[GangPod]:
    """Yield the pods of a Pod, a bare spec, or what has a pod template."""
    if "containers" in document:
        yield member_of({}, document, f"pod-{number}" if number else "pod")
        return
    kind, spec, metadata = (
        document.get("kind", "Pod"),
        document.get("spec"),
        mapping(document.get("metadata")),
    )
    if not isinstance(spec, Mapping):
        raise PodError(f"{kind} {name!r} has no spec")
    if "containers" in spec:
        yield member_of(metadata, spec, name)
        return
    if isinstance(inner := spec.get("jobTemplate"), Mapping) and isinstance(inner.get("spec"), Mapping):
        spec = inner["spec"]
    yield from _from_template(spec, metadata, name, _replicas(str(kind), spec, name))


def _from_template(
    spec: Document, metadata: Document, name: str, count: int, suffix: str = ""
) -> Iterator[GangPod]:
    template = spec.get("template")
    inner = template.get("spec") if isinstance(template, Mapping) else None
    if not isinstance(template, Mapping) or not isinstance(inner, Mapping):
        raise PodError(
            f"{name!r} holds no pod: there is no spec.containers and no pod template",
            remedy="give a Pod, a Deployment, a StatefulSet, a Job, a JobSet, a Job of Volcano or a PodGroup",
        )
    own = dict(mapping(template.get("metadata")))
    own.setdefault("namespace", metadata.get("namespace"))
    first = member_of(own, inner, f"{name}{suffix}")
    for number in range(count):
        yield replace(first, pod=first.pod.named(f"{name}{suffix}-{number}"))


def _replicas(kind: str, spec: Document, name: str) -> int:
    if kind in ("Job", "CronJob"):
        parallelism = _count(spec.get("parallelism", 1), name, "spec.parallelism", 0)
        completions = spec.get("completions")
        if completions is None:
            return parallelism
        return min(parallelism, _count(completions, name, "spec.completions", 0))
    return _count(spec.get(_COUNTS.get(kind, "replicas"), 1), name, "spec.replicas", 0)


def _volcano_job(document: Document, name: str) -> Workload:
    spec = mapping(document.get("spec"))
    tasks = spec.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        raise PodError(f"Job {name!r} of Volcano has no spec.tasks")
    of_job = mapping(document.get("metadata"))
    members: list[GangPod] = []
    for number, task in enumerate(tasks):
        if not isinstance(task, Mapping):
            raise PodError("must be a mapping", where=f"{name}: spec.tasks[{number}]")
        count = _count(task.get("replicas", 1), name, f"spec.tasks[{number}].replicas", 0)
        _limit(len(members) + count, name)
        suffix = f"-{task.get('name', number)}"
        members += [replace(each, group=None) for each in _from_template(task, of_job, name, count, suffix)]
    least = _count(spec.get("minAvailable", len(members)), name, "spec.minAvailable", 0) or len(members)
    domain, notes = _network(spec)
    if any(isinstance(task, Mapping) and task.get("partitionPolicy") for task in tasks):
        notes = (*notes, "partitionPolicy of its tasks is not judged")
    return Workload("Job of Volcano", name, tuple(members), min(least, len(members)), domain, notes)


def _job_set(document: Document, name: str) -> Workload:
    jobs = mapping(document.get("spec")).get("replicatedJobs")
    if not isinstance(jobs, list) or not jobs:
        raise PodError(f"JobSet {name!r} has no spec.replicatedJobs")
    of_set = mapping(document.get("metadata"))
    members: list[GangPod] = []
    for number, job in enumerate(jobs):
        where = f"spec.replicatedJobs[{number}]"
        template = job.get("template") if isinstance(job, Mapping) else None
        inner = template.get("spec") if isinstance(template, Mapping) else None
        if not isinstance(job, Mapping) or not isinstance(inner, Mapping):
            raise PodError("has no template of a Job", where=f"{name}: {where}")
        for copy in range(_count(job.get("replicas", 1), name, f"{where}.replicas", 0)):
            count = _replicas("Job", inner, name)
            _limit(len(members) + count, name)
            suffix = f"-{job.get('name', number)}-{copy}"
            members += _from_template(inner, of_set, name, count, suffix)
    exclusive = any("exclusive-topology" in key for key in _texts(of_set.get("annotations")))
    notes = ("its exclusive topology is not judged",) if exclusive else ()
    return Workload(
        "JobSet", name, tuple(members), len(members), members[0].domain if members else None, notes
    )


def _network(spec: Document) -> tuple[str | None, tuple[str, ...]]:
    """Return the label that Volcano's network topology amounts to, and what is not judged."""
    network = spec.get("networkTopology")
    if not isinstance(network, Mapping):
        return None, ()
    if network.get("mode", "hard") == "hard" and network.get("highestTierAllowed") == CLIQUE_TIER:
        return CLIQUE, ()
    return None, ("networkTopology is judged for the mode hard and the tier of NVLink domains alone",)


def _limit(count: int, name: str) -> None:
    if count > MOST_PODS:
        raise NumaforgeError(f"has more than the {MOST_PODS} pods that are placed at once", where=name)


def _count(value: object, where: str, key: str, least: int) -> int:
    if type(value) is not int or not least <= value <= MOST_PODS:
        raise NumaforgeError(
            f"{shown(value)} is not a number of pods",
            where=f"{where}: {key}",
            remedy=f"write {least} to {MOST_PODS}",
        )
    return value


def _name(document: Document) -> str:
    metadata = mapping(document.get("metadata"))
    return f"{_namespace(metadata)}/{metadata.get('name') or 'pod'}"


def _namespace(metadata: Document) -> str:
    return str(metadata.get("namespace") or "default")


def _texts(found: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in mapping(found).items()}
