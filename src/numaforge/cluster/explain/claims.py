"""What pods claim: ResourceClaims, templates and device classes, and extended resources by claims.

resource.k8s.io/v1 of Kubernetes 1.37; pkg/scheduler/framework/plugins/dynamicresources for what the scheduler
refuses before it looks at devices, and for extended resources that claims serve (DRAExtendedResource).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

from numaforge.cluster.explain.devices import HeldClaim, amount_of, full_name, held_claims
from numaforge.kubelet.admission.pod import ClaimRef, claim_refs, is_extended
from numaforge.lib.given import mapping, mappings

GROUP = "resource.k8s.io"
KINDS = ("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "DeviceTaintRule")
ALL_DEVICES, EXACT_COUNT = "All", "ExactCount"
MOST_USERS = 256
"""Limit of pods that share a claim (ResourceClaimReservedForMaxSize)."""

_IMPLICIT = "deviceclass.resource.kubernetes.io/"
_OF_RESOURCE = "extended resources"

Document = Mapping[str, Any]
Served = Mapping[str, tuple[str, int]]
"""Extended resources that claims serve, with the device class and the amount that a pod asks for."""


@dataclass(frozen=True)
class PodClaim(ClaimRef):
    """An entry of a pod's `resourceClaims`, with a change to try.

    A change has other `counts` for some requests, another `capacity` of each device, by request and name, or
    is `without` the constraints on some attributes.
    """

    counts: tuple[tuple[str, int], ...] = ()
    capacity: tuple[tuple[str, str, Fraction], ...] = ()
    without: tuple[str, ...] = ()

    def changed(self, spec: ClaimSpec) -> ClaimSpec:
        counts = dict(self.counts)

        def changed(request: str, wish: DeviceWish) -> DeviceWish:
            of_device = {name: amount for of_request, name, amount in self.capacity if of_request == request}
            count = counts.get(request, wish.count)
            return replace(wish, count=count, capacity={**wish.capacity, **of_device})

        requests = tuple((name, tuple(changed(name, wish) for wish in ways)) for name, ways in spec.requests)
        constraints = tuple(
            constraint for constraint in spec.constraints if constraint.attribute not in self.without
        )
        return spec._replace(requests=requests, constraints=constraints)


@dataclass(frozen=True)
class DeviceWish:
    """One way to serve a request; `is_monitor` is admin access, which takes nothing from others."""

    name: str
    device_class: str
    selectors: tuple[str, ...] = ()
    count: int = 1
    takes_all: bool = False
    is_monitor: bool = False
    tolerations: tuple[Document, ...] = ()
    capacity: Mapping[str, Fraction] = field(default_factory=dict)
    unread: str = ""


class DeviceConstraint(NamedTuple):
    """Devices of some requests (empty: of all) share the value of an attribute, or differ in it."""

    requests: frozenset[str]
    attribute: str
    is_distinct: bool = False


class ClaimSpec(NamedTuple):
    """The content of one claim: requests, each with its alternatives by preference, and constraints."""

    name: str
    requests: tuple[tuple[str, tuple[DeviceWish, ...]], ...]
    constraints: tuple[DeviceConstraint, ...] = ()

    @property
    def wishes(self) -> Iterator[tuple[str, DeviceWish]]:
        """Each request's name with each of its alternatives."""
        for name, ways in self.requests:
            yield from ((name, wish) for wish in ways)


@dataclass(frozen=True)
class ClaimWorld:
    """The objects of claims in a cluster, by name.

    `slices` is None where the drivers' offer is unknown, for the reason `why_unknown`. `is_whole`: an object
    missing here is missing in the cluster.
    """

    classes: Mapping[str, Document] = field(default_factory=dict)
    templates: Mapping[str, Document] = field(default_factory=dict)
    claims: Mapping[str, Document] = field(default_factory=dict)
    slices: tuple[Document, ...] | None = None
    rules: tuple[Document, ...] = ()
    is_whole: bool = False
    why_unknown: str = ""

    def class_of(self, resource: str) -> str | None:
        """Return the newest class whose devices serve an extended resource."""
        if resource.startswith(_IMPLICIT):
            name = resource.removeprefix(_IMPLICIT)
            return name if name in self.classes else None
        serving = [
            (str(mapping(device_class.get("metadata")).get("creationTimestamp") or ""), name)
            for name, device_class in self.classes.items()
            if mapping(device_class.get("spec")).get("extendedResourceName") == resource
        ]
        newest = max((created for created, _ in serving), default="")
        return min((name for created, name in serving if created == newest), default=None)

    def held_claims(self) -> tuple[HeldClaim, ...]:
        return tuple(held_claims(self.claims.values()))

    def merged(self, added: ClaimWorld) -> ClaimWorld:
        """Return the objects of both; `added` wins."""
        return replace(
            added,
            classes={**self.classes, **added.classes},
            templates={**self.templates, **added.templates},
            claims={**self.claims, **added.claims},
            slices=self.slices if added.slices is None else added.slices,
            rules=(*self.rules, *added.rules),
            is_whole=self.is_whole or added.is_whole,
            why_unknown=added.why_unknown or self.why_unknown,
        )


NOTHING_KNOWN = ClaimWorld()


def claim_world(documents: Iterable[object], *, is_whole: bool = False) -> ClaimWorld:
    """Return the objects of claims in documents. Without slices the offer is unknown, unless `is_whole`."""
    documents_of: dict[str, list[Document]] = {kind: [] for kind in KINDS}
    for document in documents:
        if not isinstance(document, Mapping) or not is_of_claims(document):
            continue
        kind, name = str(document.get("kind")), mapping(document.get("metadata")).get("name")
        if kind in documents_of and isinstance(name, str):
            documents_of[kind].append(document)
    return ClaimWorld(
        {document["metadata"]["name"]: document for document in documents_of["DeviceClass"]},
        {full_name(document): document for document in documents_of["ResourceClaimTemplate"]},
        {full_name(document): document for document in documents_of["ResourceClaim"]},
        tuple(documents_of["ResourceSlice"]) if documents_of["ResourceSlice"] or is_whole else None,
        tuple(documents_of["DeviceTaintRule"]),
        is_whole,
    )


def serves(resource: str) -> bool:
    """Return whether claims may serve a resource (IsDRAExtendedResourceName)."""
    return is_extended(resource) or resource.startswith(_IMPLICIT)


def is_of_claims(document: Document) -> bool:
    """Return whether a document is an object of resource.k8s.io."""
    return str(document.get("apiVersion", "")).partition("/")[0] == GROUP


def pod_claims(spec: Document, status: Document, namespace: str, name: str) -> tuple[PodClaim, ...]:
    """Return a pod's claims; a claim generated from a template has its generated name."""
    claim_names = {
        str(status_row.get("name")): str(status_row["resourceClaimName"])
        for status_row in mappings(status.get("resourceClaimStatuses"))
        if status_row.get("resourceClaimName")
    }
    return as_pod_claims(claim_refs(spec, namespace, name, claim_names))


def as_pod_claims(refs: Iterable[ClaimRef]) -> tuple[PodClaim, ...]:
    """Return a pod's claims without a change to try."""
    return tuple(PodClaim(ref.name, ref.claim, ref.template) for ref in refs)


def spec_of_claim(spec: Document, name: str) -> ClaimSpec:
    """Read a claim's spec; `unread` of a wish names what is unsupported."""
    devices = mapping(spec.get("devices"))
    requests = []
    for request in mappings(devices.get("requests")):
        request_name = str(request.get("name"))
        ways = [_wish(way, str(way.get("name"))) for way in mappings(request.get("firstAvailable"))]
        exactly = mapping(request.get("exactly")) or request
        requests.append((request_name, tuple(ways) or (_wish(exactly, request_name),)))
    constraints = []
    for constraint in mappings(devices.get("constraints")):
        common, named = constraint.get("matchAttribute"), constraint.get("requests")
        of_requests = frozenset(map(str, named)) if isinstance(named, list) else frozenset()
        attribute = str(common or constraint.get("distinctAttribute"))
        constraints.append(DeviceConstraint(of_requests, attribute, is_distinct=not common))
    return ClaimSpec(name, tuple(requests), tuple(constraints))


def spec_of_resources(pod: str, served: Served) -> ClaimSpec:
    """Return the claim that the scheduler makes for extended resources."""
    requests = (
        (resource, (DeviceWish(resource, device_class, count=amount),))
        for resource, (device_class, amount) in sorted(served.items())
    )
    return ClaimSpec(f"{pod}/{_OF_RESOURCE}", tuple(requests))


def _wish(exact: Document, name: str) -> DeviceWish:
    selectors, unread = [], ""
    for selector in mappings(exact.get("selectors")):
        expression = mapping(selector.get("cel")).get("expression")
        if isinstance(expression, str):
            selectors.append(expression)
        else:
            unread = "a selector that is not CEL"
    if exact.get("derivedAttributes"):
        unread = "derived attributes"
    mode, count = exact.get("allocationMode") or EXACT_COUNT, exact.get("count") or 1
    if mode not in (ALL_DEVICES, EXACT_COUNT) or type(count) is not int:
        unread = f"the allocation mode {mode}"
    amounts = mapping(mapping(exact.get("capacity")).get("requests"))
    return DeviceWish(
        name,
        str(exact.get("deviceClassName")),
        tuple(selectors),
        count if type(count) is int else 1,
        takes_all=mode == ALL_DEVICES,
        is_monitor=bool(exact.get("adminAccess")),
        tolerations=tuple(mappings(exact.get("tolerations"))),
        capacity={
            str(key): amount for key, text in amounts.items() if (amount := amount_of(text)) is not None
        },
        unread=unread,
    )
