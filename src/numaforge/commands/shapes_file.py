"""Read the pods that a fleet runs: a list of shapes, a table, or what `kubectl get pods -A` printed."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from numaforge.commands.inputs import MOST_CLUSTER_MIB, MOST_PODS
from numaforge.errors import NumaforgeError
from numaforge.given import NotJsonError, mapping, mappings, parse_json, read_text
from numaforge.mistakes import shown
from numaforge.ordering import unlike

if TYPE_CHECKING:
    from numaforge.explain.claims import ClaimWorld
    from numaforge.kubelet.admission import Pod
    from numaforge.kubelet.admission.shapes import Load, Shape

MOST_OF_A_SHAPE = 1_000_000

_COUNT, _NAME, _POD = "count", "name", "pod"
_EXAMPLE = "write a list such as [{count: 40, cpu: 12, memory: 100Gi, nvidia.com/gpu: 1}]"


@dataclass(frozen=True)
class GivenLoad:
    """The load of a fleet as a file describes it, its claims, and remarks on what is left out."""

    load: Load
    claims: ClaimWorld
    remarks: tuple[str, ...] = ()


def read_load(path: str) -> GivenLoad:
    """Return the load in a file; of more than MOST_SHAPES shapes, those with the most pods.

    Raises NumaforgeError for a file without pods.
    """
    from numaforge.explain.claims import claim_world
    from numaforge.kubelet.admission.shapes import MOST_SHAPES, Load

    text = read_text(path, most_mib=MOST_CLUSTER_MIB)
    everywhere: tuple[Pod, ...] = ()
    objects: list[Mapping[str, Any]] = []
    remarks: list[str] = []
    if path.endswith(".csv"):
        shapes = list(_of_table(text, path))
    elif isinstance(document := _document(text, path), Mapping) and _is_list(document):
        shapes, everywhere, ended = _of_cluster(document.get("items"), path)
        objects = mappings(document.get("items"))
        if ended:
            remarks.append(f"{path}: {ended} pods have ended, and are not counted")
    else:
        shapes = list(_of_list(document, path, objects))
    if not shapes:
        raise NumaforgeError("holds no pods", where=path, remedy=_EXAMPLE)
    ordered = sorted(shapes, key=lambda shape: -shape.count)
    if len(ordered) > MOST_SHAPES:
        left = sum(shape.count for shape in ordered[MOST_SHAPES:])
        total = sum(shape.count for shape in ordered)
        remarks.append(
            f"{path}: of {len(ordered)} shapes the {MOST_SHAPES} most frequent are placed; "
            f"{left} of {total} pods are left out"
        )
    load = Load(tuple(_named(ordered[:MOST_SHAPES])), everywhere)
    return GivenLoad(load, claim_world(_not_allocated(objects)), tuple(remarks))


def _not_allocated(objects: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield claim objects without their allocation: all pods are placed from scratch."""
    for each in objects:
        yield {key: value for key, value in each.items() if key != "status"}


def _document(text: str, path: str) -> Any:
    from numaforge.sections.strict_yaml import MOST_MIB, read_yaml

    if text.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(text)
        except NotJsonError as error:
            if path.endswith(".json"):
                raise NumaforgeError(f"not a complete JSON document: {error}", where=path) from error
    if len(text) > MOST_MIB * 2**20:
        raise NumaforgeError(f"is larger than {MOST_MIB} MiB", where=path, remedy="give it as JSON or CSV")
    return read_yaml(text, path)


def _is_list(document: Mapping[str, Any]) -> bool:
    return str(document.get("kind", "")).endswith("List") or "items" in document


def _of_list(document: object, path: str, objects: list[Mapping[str, Any]]) -> Iterator[Shape]:
    """Yield the shapes of a list; its claim objects are added to `objects`."""
    from numaforge.explain.claims import is_of_claims

    listed = document.get("shapes") if isinstance(document, Mapping) else document
    if not isinstance(listed, list):
        raise NumaforgeError("is no list of shapes", where=path, remedy=_EXAMPLE)
    for number, each in enumerate(listed):
        if not isinstance(each, Mapping):
            raise NumaforgeError(f"{shown(each)} is no shape", where=f"{path}[{number}]", remedy=_EXAMPLE)
        if is_of_claims(each):
            objects.append(each)
        else:
            yield _shape(each, f"{path}[{number}]")


def _of_table(text: str, path: str) -> Iterator[Shape]:
    rows = csv.DictReader(text.splitlines(), strict=True)
    try:
        for number, row in enumerate(rows, 2):
            if None in row or None in row.values():
                raise NumaforgeError(
                    "has another number of columns than the first line", where=f"{path}:{number}"
                )
            yield _shape(
                {key.strip(): value.strip() for key, value in row.items() if value.strip()},
                f"{path}:{number}",
            )
    except csv.Error as error:
        raise NumaforgeError(f"is no table: {error}", where=path) from error


def _shape(said: Mapping[str, Any], where: str) -> Shape:
    """Return a shape, from the limits of one container or a pod's spec, with its number of pods."""
    from numaforge.kubelet.admission import Pod
    from numaforge.kubelet.admission.shapes import Shape

    count = said.get(_COUNT, 1)
    count = int(count) if isinstance(count, str) and count.isascii() and count.isdigit() else count
    if type(count) is not int or not 0 < count <= MOST_OF_A_SHAPE:
        raise NumaforgeError(
            f"{shown(count)} is not a number of pods", where=f"{where}: count", remedy="write 1 or more"
        )
    limits = {str(key): value for key, value in said.items() if key not in (_COUNT, _NAME, _POD)}
    if _POD in said and limits:
        raise NumaforgeError(
            "has both a pod and resources", where=where, remedy=f"leave out {', '.join(limits)}"
        )
    given = said.get(_POD)
    manifest = given if _POD in said else {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    if not isinstance(manifest, Mapping):
        raise NumaforgeError(f"{shown(manifest)} is no pod", where=f"{where}: pod")
    try:
        pod = Pod.from_manifest(manifest, "shape")
    except NumaforgeError as error:
        raise error.at(where) from error
    return Shape(str(said.get(_NAME) or ""), pod, count)


def _of_cluster(items: object, path: str) -> tuple[list[Shape], tuple[Pod, ...], int]:
    """Return the shapes of a cluster's pods, the pods that every node has, and how many have ended.

    Pods of DaemonSets and static pods are on every node, once each.
    """
    from numaforge.kubelet.admission import Pod
    from numaforge.kubelet.admission.pod import shape_of_pod
    from numaforge.kubelet.admission.shapes import Shape
    from numaforge.rollout.cluster import ENDED_PHASES

    if not isinstance(items, list) or not all(isinstance(each, Mapping) for each in items):
        raise NumaforgeError("holds no pods", where=path, remedy="save `kubectl get pods -A -o json`")
    found: dict[object, Pod] = {}
    counts: Counter[object] = Counter()
    everywhere: dict[str, Pod] = {}
    ended = 0
    for number, each in enumerate(items):
        if each.get("kind", "Pod") != "Pod":
            continue
        if mapping(each.get("status")).get("phase") in ENDED_PHASES:
            ended += 1
            continue
        try:
            pod = Pod.from_manifest(each, "shape")
        except NumaforgeError as error:
            raise error.at(f"{path}: items[{number}]") from error
        if (owner := _owner_of_all(each)) is not None:
            everywhere[owner] = pod
            continue
        asked = shape_of_pod(pod, names=False), pod.claims
        found.setdefault(asked, pod)
        counts[asked] += 1
    if len(everywhere) > MOST_PODS:
        raise NumaforgeError(f"has more than {MOST_PODS} DaemonSets", where=path)
    shapes = [Shape("", found[asked], count) for asked, count in counts.items()]
    return shapes, tuple(everywhere.values()), ended


def _owner_of_all(document: Mapping[str, Any]) -> str | None:
    """Return why a pod is on every node: its DaemonSet or its static pod; else None."""
    metadata = mapping(document.get("metadata"))
    owners = metadata.get("ownerReferences")
    owner = owners[0] if isinstance(owners, list) and owners and isinstance(owners[0], Mapping) else {}
    namespace = metadata.get("namespace") or "default"
    if owner.get("kind") == "DaemonSet":
        return f"{namespace}/{owner.get('name')}"
    if owner.get("kind") == "Node":
        node = str(mapping(document.get("spec")).get("nodeName") or "")
        return f"{namespace}/{str(metadata.get('name')).removesuffix(f'-{node}')}"
    return None


def _named(shapes: Iterable[Shape]) -> Iterator[Shape]:
    """Yield the shapes with names that tell them apart: their own, else what they ask for."""
    taken: set[str] = set()
    for shape in shapes:
        name = unlike(shape.name or _in_words(shape.pod), taken)
        taken.add(name)
        yield replace(shape, name=name, pod=shape.pod.named(name))


def _in_words(pod: Pod) -> str:
    from numaforge.kubelet.admission.demand import GUARANTEED, qos_class
    from numaforge.kubelet.admission.pod import pod_requests
    from numaforge.kubelet.values.pages import in_pages
    from numaforge.report.wording import human_bytes

    words = []
    for resource, amount in pod_requests(pod).items():
        if not amount:
            continue
        if resource == "cpu":
            words.append(f"{float(amount):g} CPUs")
        elif resource == "memory" or in_pages(resource):
            words.append(human_bytes(int(amount)) + ("" if resource == "memory" else f" {resource}"))
        else:
            words.insert(0, f"{float(amount):g} {resource.rpartition('/')[2]}")
    words += [f"claim {str(each.template or each.claim).rpartition('/')[2]}" for each in pod.claims]
    said = ", ".join(words) or "nothing"
    return said if qos_class(pod) == GUARANTEED else f"{said} ({qos_class(pod)})"
