"""What to place: a pod, or the pods of a gang, from documents of Kubernetes and its schedulers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from numaforge.cluster.explain.claims import PodClaim, is_of_claims, pod_claims
from numaforge.cluster.explain.placing import Placing, placing_of
from numaforge.cluster.explain.pod_sets import (
    KUEUE,
    MOST_PODS,
    PodSet,
    PodSets,
    documents_of,
    name_without_pods,
    number_of_pods,
    pod_sets,
)
from numaforge.cluster.schedulers import gangs
from numaforge.kubelet.admission.pod import Pod, PodError
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import NotJsonError, digits, mapping, mappings, parse_json
from numaforge.lib.kubernetes_objects import CLIQUE

CLIQUE_TIER = 1
"""The tier of HyperNodes that are NVLink domains, as `numaforge generate cluster` writes them."""

_COSCHEDULING = "pod-group.scheduling.sigs.k8s.io"
_YUNIKORN = "yunikorn.apache.org"
_GROUP_LABELS = {
    "scheduling.x-k8s.io/pod-group": "scheduling.x-k8s.io",
    _COSCHEDULING: "scheduling.sigs.k8s.io",
    f"{_COSCHEDULING}/name": "scheduling.sigs.k8s.io",
    f"{KUEUE}/pod-group-name": KUEUE,
}
_GROUP_ANNOTATIONS = {
    "scheduling.k8s.io/group-name": "scheduling.volcano.sh",
    "scheduling.volcano.sh/group-name": "scheduling.volcano.sh",
    "pod-group-name": "scheduling.run.ai",
}
_SLICE = f"{KUEUE}/podset-slice-"
_KOORDINATOR = "gang.scheduling.koordinator.sh"

Document = Mapping[str, Any]
GroupName = tuple[str, str]
"""The API group of a PodGroup, and its namespace and name: four API groups have PodGroups."""


@dataclass(frozen=True)
class GangPod:
    """A pod with its constraints on nodes.

    `group` is the PodGroup that it names, `least` the pods of it that start together by the pod's spec.
    `domain` is the label whose value Kueue has the pods of its set share; with `slice_size`, each slice of
    that many pods.
    """

    pod: Pod
    placing: Placing
    group: GroupName | None = None
    domain: str | None = None
    slice_size: int | None = None
    least: int | None = None
    claims: tuple[PodClaim, ...] = ()


@dataclass(frozen=True)
class Unit:
    """Pods whose nodes share a value of the label `domain`; None for any nodes."""

    members: tuple[GangPod, ...]
    domain: str | None = None


@dataclass(frozen=True)
class Workload:
    """Pods that belong together, in units that are placed in order.

    At least `least` of them have to run: together where `is_gang`. One that `follows` starts after the
    workload before it. An update of one that `surges` adds a pod first. `notes` name what is not judged.
    """

    kind: str
    name: str
    units: tuple[Unit, ...]
    least: int
    is_gang: bool = False
    follows: bool = False
    surges: bool = False
    notes: tuple[str, ...] = ()

    @property
    def members(self) -> tuple[GangPod, ...]:
        """All pods, in the order of placement."""
        return tuple(member for unit in self.units for member in unit.members)

    @property
    def domain(self) -> str | None:
        """The label of the first unit that has one."""
        return next((unit.domain for unit in self.units if unit.domain), None)

    def with_members(self, change: Callable[[GangPod], GangPod]) -> tuple[Unit, ...]:
        return tuple(replace(unit, members=tuple(map(change, unit.members))) for unit in self.units)


@dataclass(frozen=True)
class Group:
    """A PodGroup: how many pods start together (0: each starts alone), and which label their nodes share."""

    least: int
    domain: str | None = None
    notes: tuple[str, ...] = ()


@dataclass
class _Reading:
    """What has been read of a file so far."""

    groups: dict[GroupName, Group] = field(default_factory=dict)
    loose: dict[GroupName, list[GangPod]] = field(default_factory=dict)
    workloads: list[Workload] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)


class Workloads(NamedTuple):
    """The workloads of a file, and the documents of it that hold no pods."""

    workloads: tuple[Workload, ...]
    passed_over: tuple[str, ...] = ()


def workloads_of(documents: Iterable[object], where: str) -> Workloads:
    """Return the workloads in documents; raises NumaforgeError without pods, also of a PodGroup."""
    reading = _Reading()
    for number, document in enumerate(documents_of(documents, where)):
        try:
            _read(document, reading, number)
        except NumaforgeError as error:
            raise error.at(where) from error
    named_groups = {key for name in reading.loose for key in _keys_of(name)}
    for api, name in reading.groups:
        if (api, name) not in named_groups:
            remedy = "give the pods of the gang, or what makes them, in the same file"
            raise NumaforgeError(
                f"PodGroup {name!r}: no pod says that it is of it", where=where, remedy=remedy
            )
    loose = [
        gang_of(name, members, declared_group(name, reading.groups))
        for name, members in reading.loose.items()
    ]
    workloads = tuple(workload for workload in (*reading.workloads, *loose) if workload.members)
    if sum(len(workload.members) for workload in workloads) > MOST_PODS:
        raise NumaforgeError(f"holds more than the {MOST_PODS} pods that are placed at once", where=where)
    if not workloads:
        empty = (": ".join((f"{pods.kind} {pods.name} has none", *pods.notes)) for pods in reading.workloads)
        kinds = ", ".join((*reading.passed_over, *empty))
        raise NumaforgeError(f"holds no pod{': ' if kinds else ''}{kinds}", where=where)
    return Workloads(workloads, tuple(reading.passed_over))


def declared_group(name: GroupName, groups: Mapping[GroupName, Group]) -> Group | None:
    """Return the PodGroup of this name, or the group of a Workload that it is a replica of."""
    return next((groups[key] for key in _keys_of(name) if key in groups), None)


def _keys_of(name: GroupName) -> tuple[GroupName, ...]:
    """Return the names that a document gives a group: one without an API group matches any."""
    api, full = name
    return name, ("", full), (api, "/".join(full.split("/")[:3]))


def gang_of(name: GroupName, members: Iterable[GangPod], group: Group | None) -> Workload:
    """Return the pods of a gang as one workload; without its PodGroup all of them start together."""
    pods = tuple(members)
    declared = max((pod.least or 0 for pod in pods), default=0)
    is_gang = group is None or group.least > 0
    least = group.least if group and is_gang else declared or len(pods)
    domain = group.domain if group else None
    notes = group.notes if group else ()
    if group is None and not declared:
        notes = ("its PodGroup is not given: all of its pods count as starting together",)
    if least > len(pods):
        notes = (*notes, f"{least} pods have to start together, and {len(pods)} of them are known")
    units = (Unit(pods, domain),) if domain else tuple(_units(pods))
    return Workload("PodGroup", name[1], units, least, is_gang=is_gang, notes=notes)


def groups_of(document: Document) -> dict[GroupName, Group]:
    """Read a PodGroup, or the groups of a Workload of Kubernetes 1.35; empty for other documents.

    A Workload's are named NAMESPACE/WORKLOAD/GROUP (scheduling.k8s.io/v1alpha1).
    """
    api, name = str(document.get("apiVersion") or "").rpartition("/")[0], _name(document)
    if document.get("kind") == "PodGroup":
        return {(api, name): _group_of(mapping(document.get("spec")), f"PodGroup {name}")}
    if document.get("kind") != "Workload" or api != gangs.GROUP:
        return {}
    return {
        (api, f"{name}/{group.get('name')}"): _group_of(
            {"schedulingPolicy": group.get("policy")}, f"Workload {name}"
        )
        for group in mappings(mapping(document.get("spec")).get("podGroups"))
    }


def _group_of(spec: Document, where: str) -> Group:
    """Read a PodGroup: Volcano's, scheduler-plugins', or Kubernetes' own.

    Kubernetes' own in v1alpha2 (1.36), v1alpha3 and v1beta1 (1.37): the policy `gang`, or `basic`, where no
    pod waits for another, and the constraint `topology`.
    """
    policy = mapping(spec.get("schedulingPolicy"))
    gang = policy.get("gang")
    key = "minCount" if isinstance(gang, Mapping) else "minMember"
    least = gang.get(key) if isinstance(gang, Mapping) else spec.get(key, 1)
    domain, notes = _network(spec.get("networkTopology"))
    topology = mappings(mapping(spec.get("schedulingConstraints")).get("topology"))
    if topology:
        domain = str(topology[0].get("key"))
    if parent := spec.get("parentCompositePodGroupName"):
        notes = (*notes, f"its CompositePodGroup {parent}, whose groups wait for one another")
    if mappings(spec.get("resourceClaims")):
        notes = (*notes, "claims that its pods share: each pod is judged as if it had its own")
    count = number_of_pods(least, where, key, 1)
    return Group(0 if isinstance(policy.get("basic"), Mapping) else count, domain, notes)


def member_of(metadata: Document, spec: Document, name: str, status: Document | None = None) -> GangPod:
    """Return a pod with its gang, by its metadata; `status` names the claims generated for it."""
    pod = Pod.from_manifest({"spec": spec}, name)
    labels, annotations = _texts(metadata.get("labels")), _texts(metadata.get("annotations"))
    names = [
        (gangs.GROUP, _native_group(spec)),
        *((api, labels.get(key)) for key, api in _GROUP_LABELS.items()),
        *((api, annotations.get(key)) for key, api in _GROUP_ANNOTATIONS.items()),
        (_KOORDINATOR, annotations.get(f"{_KOORDINATOR}/name")),
        (_YUNIKORN, annotations.get(f"{_YUNIKORN}/task-group-name")),
    ]
    group = next(((api, name) for api, name in names if name), None)
    slices, size = (annotations.get(f"{_SLICE}{key}") for key in ("required-topology", "size"))
    declared = (
        annotations.get(f"{_KOORDINATOR}/min-available")
        or annotations.get(f"{KUEUE}/pod-group-total-count")
        or labels.get(f"{_COSCHEDULING}/min-available")
        or _task_group_size(annotations)
    )
    return GangPod(
        pod,
        placing_of(spec, name, metadata),
        (group[0], f"{_namespace(metadata)}/{group[1]}") if group else None,
        slices or annotations.get(f"{KUEUE}/podset-required-topology"),
        digits(size) if slices else None,
        digits(declared),
        pod_claims(spec, status or {}, _namespace(metadata), name),
    )


def _native_group(spec: Document) -> str | None:
    """Return the name of a pod's group of Kubernetes itself: a PodGroup, or a Workload's of 1.35."""
    of_workload = mapping(spec.get("workloadRef"))
    if group := mapping(spec.get("schedulingGroup")).get("podGroupName"):
        return str(group)
    names = [of_workload.get(key) for key in ("name", "podGroup", "podGroupReplicaKey")]
    return "/".join(str(name) for name in names if name) or None


def _task_group_size(annotations: Mapping[str, str]) -> str | None:
    """Return the minMember of the task group of YuniKorn that a pod names."""
    try:
        groups = mappings(parse_json(annotations.get(f"{_YUNIKORN}/task-groups") or "[]"))
    except NotJsonError:
        return None
    name = annotations.get(f"{_YUNIKORN}/task-group-name")
    return next((str(group.get("minMember")) for group in groups if group.get("name") == name), None)


def _read(document: Document, reading: _Reading, number: int) -> None:
    if groups := groups_of(document):
        reading.groups |= groups
        return
    if is_of_claims(document):
        return
    sets_of_document = pod_sets(document, number=number)
    if not sets_of_document:
        reading.passed_over.append(name_without_pods(document))
    for pods in sets_of_document:
        _read_pods(pods, reading)


def _read_pods(pods: PodSets, reading: _Reading) -> None:
    """Add the pods of a document: those of a PodGroup to it, the others as a workload for each stage."""
    domain, notes = _network(pods.network)
    running: list[tuple[PodSet, tuple[GangPod, ...]]] = []
    for pod_set in pods.sets:
        members = _members_of(pod_set)
        group = members[0].group if members and not pods.makes_its_group else None
        if group is None:
            running.append((pod_set, members))
        else:
            reading.loose.setdefault(group, []).extend(members)
    for stage, roles in enumerate(pods.stages):
        present = [one for one in running if one[0].first <= stage <= one[0].last]
        units = tuple(_units_of(present, domain))
        count = sum(len(unit.members) for unit in units)
        of = f", stage {stage + 1} of {len(pods.stages)} ({roles})" if len(pods.stages) > 1 else ""
        workload = Workload(
            f"{pods.kind}{of}",
            pods.name,
            units,
            count if pods.least is None else min(pods.least, count),
            is_gang=pods.least is not None,
            follows=stage > 0,
            surges=pods.surges,
            notes=(*notes, *pods.notes),
        )
        reading.workloads.append(workload)


def _members_of(pods: PodSet) -> tuple[GangPod, ...]:
    if not pods.names:
        return ()
    annotations = mapping(pods.metadata.get("annotations"))
    label, size = (annotations.get(f"{_SLICE}{key}") for key in ("required-topology", "size"))
    if (label is None) != (size is None) or (size is not None and not digits(size)):
        raise PodError(
            f"Kueue refuses slices of {label or 'no label'} with {size or 'no size'}",
            where=f"{pods.names[0]}: metadata.annotations",
            remedy=f"write both {_SLICE}required-topology and {_SLICE}size, a number from 1 on",
        )
    first = member_of(pods.metadata, pods.spec, pods.names[0])
    return tuple(replace(first, pod=first.pod.renamed(name)) for name in pods.names)


def _units_of(running: Iterable[tuple[PodSet, tuple[GangPod, ...]]], domain: str | None) -> Iterator[Unit]:
    """Yield the units of the sets that run together: one for all with `domain`, else by Kueue's topology."""
    joined: dict[object, list[GangPod]] = {}
    for number, (pods, members) in enumerate(running):
        joined.setdefault(pods.topology_group or number, []).extend(members)
    if domain is not None:
        yield Unit(tuple(pod for members in joined.values() for pod in members), domain)
        return
    for pods_of_set in joined.values():
        yield from _units(pods_of_set)


def _units(members: Sequence[GangPod]) -> Iterator[Unit]:
    """Yield the pods of a set as Kueue's topology-aware scheduling divides it (KEP 2724)."""
    domain = next((pod.domain for pod in members if pod.domain), None)
    size = next((pod.slice_size for pod in members if pod.slice_size), None) or max(1, len(members))
    for start in range(0, len(members), size):
        yield Unit(tuple(members[start : start + size]), domain)


def _network(network: object) -> tuple[str | None, tuple[str, ...]]:
    """Return the label that Volcano's network topology amounts to, and what is not judged."""
    if not isinstance(network, Mapping) or not network:
        return None, ()
    if network.get("mode", "hard") == "hard" and network.get("highestTierAllowed") == CLIQUE_TIER:
        return CLIQUE, ()
    return None, ("networkTopology is judged for the mode hard and the tier of NVLink domains alone",)


def _name(document: Document) -> str:
    metadata = mapping(document.get("metadata"))
    return f"{_namespace(metadata)}/{metadata.get('name') or 'pod'}"


def _namespace(metadata: Document) -> str:
    return str(metadata.get("namespace") or "default")


def _texts(section: object) -> dict[str, str]:
    return {str(key): str(value) for key, value in mapping(section).items()}
