"""Read a fleet's pods: a list of shapes, a table, or the output of `kubectl get pods -A`."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from numaforge.cluster.explain.pod_sets import MOST_PODS
from numaforge.commands.inputs import MOST_CLUSTER_MIB
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import NotJsonError, mapping, parse_json, read_text
from numaforge.lib.mistakes import shown
from numaforge.lib.ordering import unlike
from numaforge.lib.quantity import counted

if TYPE_CHECKING:
    from typing import TypeAlias

    from numaforge.cluster.explain.claims import ClaimWorld
    from numaforge.cluster.explain.placing import Placing
    from numaforge.kubelet.admission.fit import Scenario
    from numaforge.kubelet.admission.pod import Pod
    from numaforge.kubelet.admission.shapes import Load, Shape

    _PlacedShape: TypeAlias = tuple[Shape, Placing]

MOST_OF_A_SHAPE = 1_000_000

_COUNT, _NAME, _POD = "count", "name", "pod"
_EXAMPLE = "write a list such as [{count: 40, cpu: 12, memory: 100Gi, nvidia.com/gpu: 1}]"


class GivenLoad(NamedTuple):
    """The load of a fleet, its claims, constraints on nodes by pod, and remarks on what is left out."""

    load: Load
    claims: ClaimWorld
    placings: Mapping[str, Placing]
    remarks: tuple[str, ...] = ()

    def excluded_from(self, scenario: Scenario) -> frozenset[str]:
        """Return the pods whose selector or affinity excludes a node, by its known labels."""
        from numaforge.cluster.explain.node_claims import NodeClaims

        claims = scenario.claims
        if not isinstance(claims, NodeClaims):
            return frozenset()
        return frozenset(name for name, one in self.placings.items() if not claims.is_selected_by(one))


def read_load(path: str) -> GivenLoad:
    """Return the load in a file; of too many shapes, those with the most pods."""
    from numaforge.cluster.explain.claims import claim_world
    from numaforge.cluster.explain.pod_sets import documents_of
    from numaforge.kubelet.admission.shapes import MOST_SHAPES, Load

    text = read_text(path, most_mib=MOST_CLUSTER_MIB)
    everywhere: list[tuple[Pod, Placing]] = []
    objects: list[Mapping[str, Any]] = []
    remarks: list[str] = []
    if path.endswith(".csv"):
        shapes = list(_of_table(text, path))
    elif len(documents := _documents(text, path, remarks)) == 1 and not _is_cluster(documents[0]):
        shapes = list(_of_list(documents[0], path, objects))
    else:
        objects = list(documents_of(documents, path))
        shapes, everywhere = _of_cluster(objects, path, remarks)
    if not shapes:
        raise NumaforgeError("; ".join(("holds no pods", *remarks)), where=path, remedy=_EXAMPLE)
    ordered = sorted(shapes, key=lambda placed: -placed[0].count)
    if len(ordered) > MOST_SHAPES:
        omitted = sum(shape.count for shape, _ in ordered[MOST_SHAPES:])
        total = sum(shape.count for shape, _ in ordered)
        remarks.append(
            f"{path}: of {len(ordered)} shapes the {MOST_SHAPES} most frequent are placed; "
            f"{omitted} of {total} pods are left out"
        )
    named: dict[str, Shape] = {}  # by unique names: their own, else their requests
    placings: dict[str, Placing] = {}
    for shape, placing in ordered[:MOST_SHAPES]:
        name = unlike(shape.name or _in_words(shape.pod), named)
        named[name] = replace(shape, name=name, pod=shape.pod.renamed(name))
        placings[name] = placing
    load = Load(tuple(named.values()), tuple(pod for pod, _ in everywhere))
    placings |= {pod.name: placing for pod, placing in everywhere}
    # without what is allocated: all pods are placed from scratch
    claims = [{key: value for key, value in one.items() if key != "status"} for one in objects]
    return GivenLoad(load, claim_world(claims), placings, tuple(remarks))


def _documents(text: str, path: str, remarks: list[str]) -> list[Any]:
    from numaforge.lib.strict_yaml import MOST_MIB, read_manifests

    if text.lstrip()[:1] in ("{", "["):
        try:
            return [parse_json(text)]
        except NotJsonError as error:
            if path.endswith(".json"):
                raise NumaforgeError(f"not a complete JSON document: {error}", where=path) from error
    if len(text) > MOST_MIB * 2**20:
        raise NumaforgeError(f"is larger than {MOST_MIB} MiB", where=path, remedy="give it as JSON or CSV")
    documents, repeated = read_manifests(text, path)
    remarks += [f"{path}, {key_path}" for key_path in repeated]
    return [document for document in documents if document is not None] or [None]


def _is_cluster(document: object) -> bool:
    return isinstance(document, Mapping) and bool({"kind", "items"} & document.keys())


def _of_list(document: object, path: str, objects: list[Mapping[str, Any]]) -> Iterator[_PlacedShape]:
    """Yield the shapes of a list; add its claim objects to `objects`."""
    from numaforge.cluster.explain.claims import is_of_claims

    listed = document.get("shapes") if isinstance(document, Mapping) else document
    if not isinstance(listed, list):
        raise NumaforgeError("is not a list of shapes", where=path, remedy=_EXAMPLE)
    for number, entry in enumerate(listed):
        if not isinstance(entry, Mapping):
            raise NumaforgeError(f"{shown(entry)} is not a shape", where=f"{path}[{number}]", remedy=_EXAMPLE)
        if is_of_claims(entry):
            objects.append(entry)
        else:
            yield _shape(entry, f"{path}[{number}]")


def _of_table(text: str, path: str) -> Iterator[_PlacedShape]:
    rows = csv.DictReader(text.splitlines(), strict=True)
    try:
        for number, row in enumerate(rows, 2):
            where = f"{path}:{number}"
            if None in row or None in row.values():
                raise NumaforgeError("has another number of columns than the first line", where=where)
            yield _shape({key.strip(): value.strip() for key, value in row.items() if value.strip()}, where)
    except csv.Error as error:
        raise NumaforgeError(f"is not a table: {error}", where=path) from error


def _shape(entry: Mapping[str, Any], where: str) -> _PlacedShape:
    """Return a shape, from the limits of one container or a pod's spec, with its number of pods."""
    from numaforge.cluster.explain.placing import placing_of
    from numaforge.kubelet.admission.pod import Pod, pod_parts
    from numaforge.kubelet.admission.shapes import Shape

    count = entry.get(_COUNT, 1)
    count = int(count) if isinstance(count, str) and count.isascii() and count.isdigit() else count
    if type(count) is not int or not 0 < count <= MOST_OF_A_SHAPE:
        problem = f"{shown(count)} is not a number of pods"
        raise NumaforgeError(problem, where=f"{where}: count", remedy="write 1 or more")
    limits = {str(key): value for key, value in entry.items() if key not in (_COUNT, _NAME, _POD)}
    if _POD in entry and limits:
        remedy = f"leave out {', '.join(limits)}"
        raise NumaforgeError("has both a pod and resources", where=where, remedy=remedy)
    manifest = entry.get(_POD, {"containers": [{"name": "main", "resources": {"limits": limits}}]})
    if not isinstance(manifest, Mapping):
        raise NumaforgeError(f"{shown(manifest)} is not a pod", where=f"{where}: pod")
    try:
        pod = Pod.from_manifest(manifest, "shape")
        placing = placing_of(pod_parts(manifest)[1], "pod").on_other_names()
    except NumaforgeError as error:
        raise error.at(where) from error
    return Shape(str(entry.get(_NAME) or ""), pod, count), placing


def _of_cluster(
    documents: Iterable[Mapping[str, Any]], path: str, remarks: list[str]
) -> tuple[list[_PlacedShape], list[tuple[Pod, Placing]]]:
    """Return the shapes of pods, and the pods on every node; an owner with a UID has its pods listed."""
    from numaforge.cluster.explain.claims import is_of_claims
    from numaforge.cluster.explain.placing import placing_of
    from numaforge.cluster.explain.pod_sets import name_without_pods, pod_sets
    from numaforge.kubelet.admission.pod import Pod, shape_of_pod
    from numaforge.kubelet.admission.shapes import Shape
    from numaforge.lib.kubernetes_objects import ENDED_PHASES

    pods_by_key: dict[object, tuple[Pod, Placing]] = {}
    counts: Counter[object] = Counter()
    everywhere: dict[str, tuple[Pod, Placing]] = {}
    ended = 0
    without_pods: list[str] = []
    for number, document in enumerate(documents):
        metadata = mapping(document.get("metadata"))
        is_pod = document.get("kind", "Pod") == "Pod"
        if is_of_claims(document) or (not is_pod and "uid" in metadata):
            continue
        if mapping(document.get("status")).get("phase") in ENDED_PHASES:
            ended += 1
            continue
        try:
            workloads = pod_sets(document)
            without_pods += [] if workloads else [name_without_pods(document)]
            remarks += [f"{path}: {one.name}, not judged: {note}" for one in workloads for note in one.notes]
            read = [
                (
                    Pod.from_manifest({"metadata": one.metadata, "spec": one.spec}, "shape"),
                    placing_of(one.spec, "pod").on_other_names(),
                    len(one.names),
                )
                for pods in workloads
                for one in pods.sets
            ]
        except NumaforgeError as error:
            raise error.at(f"{path}: items[{number}]") from error
        for pod, placing, count in read:
            if (owner := _owner_of_all(document)) is not None:
                everywhere[owner] = pod.renamed(owner), placing
                continue
            key = shape_of_pod(pod, names=False), pod.claims, repr((placing.selector, placing.terms))
            pods_by_key.setdefault(key, (pod, placing))
            counts[key] += count
    if len(everywhere) > MOST_PODS:
        raise NumaforgeError(f"has more than {MOST_PODS} DaemonSets", where=path)
    if ended:
        remarks.append(f"{path}: {counted(ended, 'ended pod')} not counted")
    if without_pods:
        remarks.append(f"{path}: passed over, without pods: {', '.join(without_pods)}")
    placed = [(*pods_by_key[key], count) for key, count in counts.items() if count]
    return [(Shape("", pod, count), placing) for pod, placing, count in placed], [*everywhere.values()]


def _owner_of_all(document: Mapping[str, Any]) -> str | None:
    """Return why a pod is on every node: its DaemonSet or its static pod; else None."""
    metadata = mapping(document.get("metadata"))
    owners = metadata.get("ownerReferences")
    owner = owners[0] if isinstance(owners, list) and owners and isinstance(owners[0], Mapping) else {}
    namespace = metadata.get("namespace") or "default"
    if document.get("kind") == "DaemonSet":
        return f"{namespace}/{metadata.get('name')}"
    if owner.get("kind") == "DaemonSet":
        return f"{namespace}/{owner.get('name')}"
    if owner.get("kind") == "Node":
        node = str(mapping(document.get("spec")).get("nodeName") or "")
        return f"{namespace}/{str(metadata.get('name')).removesuffix(f'-{node}')}"
    return None


def _in_words(pod: Pod) -> str:
    from numaforge.kubelet.admission.demand import GUARANTEED, qos_class
    from numaforge.kubelet.admission.pod import is_extended, pod_requests
    from numaforge.report.wording import amount_in_words

    requests = {resource: amount for resource, amount in pod_requests(pod).items() if amount}
    first = sorted(requests, key=lambda resource: not is_extended(resource))
    names = {name: name.rpartition("/")[2] if is_extended(name) else name for name in first}
    words = [amount_in_words(names[name], requests[name]).removesuffix(" memory") for name in first]
    words += [f"claim {str(claim.template or claim.claim).rpartition('/')[2]}" for claim in pod.claims]
    shown_words = ", ".join(words) or "nothing"
    return shown_words if qos_class(pod) == GUARANTEED else f"{shown_words} ({qos_class(pod)})"
