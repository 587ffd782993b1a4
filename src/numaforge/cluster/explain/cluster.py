"""A cluster from its API server: Nodes, their pods, and waiting pods."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from numaforge.cluster.explain.claims import NOTHING_KNOWN, ClaimWorld, claim_world, is_of_claims, serves
from numaforge.cluster.explain.workload import (
    GangPod,
    Group,
    GroupName,
    Unit,
    Workload,
    declared_group,
    gang_of,
    groups_of,
    member_of,
)
from numaforge.cluster.schedulers import gangs
from numaforge.kubelet.admission.pod import CPU, pod_requests
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import mapping, mappings
from numaforge.lib.kubernetes_objects import ENDED_PHASES
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import parse_quantity

GROUPS = (
    "scheduling.x-k8s.io/v1alpha1",
    "scheduling.sigs.k8s.io/v1alpha1",
    "scheduling.volcano.sh/v1beta1",
    *(f"{gangs.GROUP}/{version}" for version in gangs.VERSIONS),
)
"""The versions of PodGroup that pods may belong to."""
WORKLOADS = (f"{gangs.GROUP}/v1alpha1",)
"""The versions of Workload with groups that pods may belong to: that of 1.35."""

Document = Mapping[str, Any]


@dataclass(frozen=True)
class LivePod:
    """A pod of the cluster; `node` is None while it waits, `reason` and `message` are those of its status.

    `started` orders the pods of a node as its kubelet took them; `decided` is false until the kubelet has
    accepted or refused the pod.
    """

    name: str
    uid: str
    node: str | None
    phase: str
    reason: str | None
    message: str | None
    started: str
    decided: bool
    member: GangPod

    @property
    def counts(self) -> bool:
        """Whether it is on a node and has not ended."""
        return self.node is not None and self.phase not in ENDED_PHASES


class LiveNode(NamedTuple):
    """A Node; `allocatable` is in whole units, CPUs in thousandths."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, Any], ...]
    cordoned: bool
    allocatable: Mapping[str, int]
    pods: tuple[LivePod, ...] = ()


@dataclass(frozen=True)
class LiveCluster:
    """Nodes by name, pods without a node or ended, and `claims`, the objects of claims."""

    nodes: Mapping[str, LiveNode]
    unplaced_pods: tuple[LivePod, ...]
    groups: Mapping[GroupName, Group] = field(default_factory=dict)
    unread: int = 0
    claims: ClaimWorld = NOTHING_KNOWN

    def needs_claims(self, workloads: Iterable[Workload]) -> bool:
        """Return whether pods to place claim devices, or request a resource that a node lacks."""
        for member in (member for workload in workloads for member in workload.members):
            resources = [name for name, amount in pod_requests(member.pod).items() if amount and serves(name)]
            lacking = any(
                not node.allocatable.get(name) for node in self.nodes.values() for name in resources
            )
            if member.claims or lacking:
                return True
        return False

    def pod(self, name: str) -> LivePod:
        """Return a pod by `namespace/name`; raises NumaforgeError for a missing one."""
        for pod in (*self.unplaced_pods, *(pod for node in self.nodes.values() for pod in node.pods)):
            if pod.name == name:
                return pod
        raise NumaforgeError("the cluster has no such pod", where=name, remedy="write it as NAMESPACE/NAME")

    def workload(self, pod: LivePod) -> Workload:
        """Return a pod, with the other waiting pods of its gang if it has one."""
        group = pod.member.group
        if group is None:
            return Workload("Pod", pod.name, (Unit((pod.member,), pod.member.domain),), 1)
        waiting = [
            pod.member for pod in self.unplaced_pods if pod.member.group == group and pod.phase == "Pending"
        ]
        if pod.member not in waiting:
            waiting = [pod.member, *waiting]
        placed = (pod.member for node in self.nodes.values() for pod in node.pods)
        running = sum(member.group == group and member not in waiting for member in placed)
        declared = declared_group(group, self.groups)
        if declared:  # its running pods count toward how many start together
            declared = replace(declared, least=max(min(1, declared.least), declared.least - running))
        gang = gang_of(group, waiting, declared)
        notes = (*gang.notes, f"{running} of its pods run already") if running else gang.notes
        return replace(gang, notes=notes)


def read_cluster(documents: Iterable[object], groups: Iterable[Document] = ()) -> LiveCluster:
    """Return the Nodes, pods, PodGroups and claims in documents; unreadable pods are counted as `unread`."""
    nodes: dict[str, LiveNode] = {}
    pods: list[LivePod] = []
    groups_by_name: dict[GroupName, Group] = {}
    claims: list[Document] = []
    unread = 0
    for document in (*documents, *groups):
        if not isinstance(document, Mapping):
            raise NumaforgeError(
                "is not a Kubernetes object", remedy="give what `kubectl get -o json` prints"
            )
        kind, metadata = document.get("kind"), mapping(document.get("metadata"))
        name = metadata.get("name")
        if not isinstance(name, str):
            continue
        if kind == "Node":
            nodes[name] = _node(name, document)
        elif kind == "Pod":
            try:
                pods.append(_pod(document))
            except NumaforgeError:
                unread += 1
        elif is_of_claims(document):
            claims.append(document)
        else:
            with suppress(NumaforgeError):
                groups_by_name |= groups_of(document)
    not_counted = tuple(pod for pod in pods if not pod.counts)
    world = claim_world(claims, is_whole=bool(claims))
    placed = grouped((str(pod.node), pod) for pod in pods if pod.counts)
    for name, node in nodes.items():  # its pods in the kubelet's order
        nodes[name] = node._replace(
            pods=tuple(sorted(placed.get(name, ()), key=lambda pod: (pod.started, pod.name)))
        )
    return LiveCluster(nodes, not_counted, groups_by_name, unread, world)


def group_stubs(name: GroupName) -> list[Document]:
    """Return a stub of the PodGroup or Workload of this name in each possible version of its API group."""
    namespace, short_name, *of_workload = name[1].split("/")
    metadata = {"name": short_name, "namespace": namespace}
    kind, versions = ("Workload", WORKLOADS) if of_workload else ("PodGroup", GROUPS)
    return [
        {"apiVersion": version, "kind": kind, "metadata": metadata}
        for version in versions
        if version.rpartition("/")[0] == name[0]
    ]


def _node(name: str, document: Document) -> LiveNode:
    metadata, spec = mapping(document.get("metadata")), mapping(document.get("spec"))
    return LiveNode(
        name=name,
        labels={str(key): str(value) for key, value in mapping(metadata.get("labels")).items()},
        taints=tuple(mappings(spec.get("taints"))),
        cordoned=bool(spec.get("unschedulable")),
        allocatable=dict(_amounts(mapping(mapping(document.get("status")).get("allocatable")))),
    )


def _amounts(quantities: Document) -> Iterable[tuple[str, int]]:
    for resource, text in quantities.items():
        with suppress(NumaforgeError):
            amount = parse_quantity(str(text)) * (1000 if resource == CPU else 1)
            yield str(resource), ceil(Fraction(amount))


def _pod(document: Document) -> LivePod:
    metadata, spec, status = (mapping(document.get(key)) for key in ("metadata", "spec", "status"))
    name = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
    node, phase = spec.get("nodeName"), str(status.get("phase") or "Pending")
    # A pod that was refused, or is on a node, is explained as its author wrote it: without nodeName.
    free = {key: value for key, value in spec.items() if key != "nodeName"}
    return LivePod(
        name=name,
        uid=str(metadata.get("uid") or name),
        node=str(node) if node else None,
        phase=phase,
        reason=str(status["reason"]) if status.get("reason") else None,
        message=str(status["message"]) if status.get("message") else None,
        started=str(status.get("startTime") or metadata.get("creationTimestamp") or ""),
        decided="startTime" in status or phase != "Pending",
        member=member_of(metadata, free, name, status),
    )
