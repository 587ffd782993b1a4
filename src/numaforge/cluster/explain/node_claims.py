"""How one node serves pods' claims, with the devices of ResourceSlices or of its plan.

First what the scheduler refuses at once, then the search for devices:
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go of Kubernetes 1.37.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numaforge.cluster.explain.allocation import Allocation, allocate
from numaforge.cluster.explain.claims import (
    MOST_USERS,
    NOTHING_KNOWN,
    ClaimSpec,
    ClaimWorld,
    PodClaim,
    Served,
    as_pod_claims,
    claim_world,
    spec_of_claim,
    spec_of_resources,
)
from numaforge.cluster.explain.devices import DeviceId, NodeDevices, OfferedDevice, devices_on
from numaforge.cluster.explain.discovered_labels import planned_labels
from numaforge.cluster.explain.placing import HOSTNAME_LABEL, Labels, Placing, present_labels
from numaforge.cluster.schedulers.dra import NUMA_NODE, planned_classes
from numaforge.cluster.schedulers.fleet import ServedNode
from numaforge.cluster.schedulers.labels import labels_of
from numaforge.cluster.schedulers.slices import BUS_ID, LEGACY_NUMA_NODES, planned_slices, registered_slices
from numaforge.kubelet.admission.claims import NO_CLAIMS, UNKNOWN_OFFER, ClaimedDevice, JudgedClaims
from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet.admission.fit import Scenario
from numaforge.kubelet.admission.pod import Pod
from numaforge.kubelet_minors.flags import registered_name
from numaforge.kubelet_minors.versions import LATEST_MINOR, KubeletVersion
from numaforge.lib.given import mapping
from numaforge.machine.topology.model import NodeTopology
from numaforge.planning.plan import NodePlan
from numaforge.roles.dra.plan import FIRST_MINOR_WITH_EXTENDED_RESOURCES, claims_of, served_by_claims

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x"}


class _ClaimRefusedError(Exception):
    """The scheduler refuses the node, or the pod, before it looks at devices."""


@dataclass(frozen=True)
class Place:
    """A node as the allocation of claims sees it; `devices` is None where unknown."""

    node: str
    labels: Labels
    devices: NodeDevices | None
    world: ClaimWorld

    def allocation(self, pod: str, claims: Sequence[PodClaim], served: Served) -> Allocation:
        """Return whether a pod's claims can be served, and its extended resources that claims serve."""
        unknown: list[str] = []
        try:
            specs = [
                claim.changed(spec)
                for claim in claims
                if (spec := self._spec(claim, pod, unknown)) is not None
            ]
            specs += [spec_of_resources(pod, served)] if served else []
            for request, wish in (row for spec in specs for row in spec.wishes):
                if (missing := wish.device_class) not in self.world.classes:
                    by_scheduler = f"request {request}: device class {missing}"
                    unknown.append(self._lacking(f"DeviceClass {missing}", by_scheduler))
        except _ClaimRefusedError as refusal:
            return Allocation(False, str(refusal))
        if self.devices is None:
            unknown.append(self.world.why_unknown or "what its drivers offer is not known")
        if unknown or self.devices is None:
            return Allocation(None, unknown=tuple(dict.fromkeys(unknown)))
        return allocate(self.devices, specs, self.world.classes, pod)

    def served(self, request: Mapping[str, int], advertised: Collection[str]) -> Served:
        """Return the extended resources that a claim, not a device plugin, serves here.

        pkg/scheduler/framework/plugins/dynamicresources, filterExtendedResources.
        """
        return {
            resource: (device_class, amount)
            for resource, amount in request.items()
            if amount
            and resource not in advertised
            and (device_class := self.world.class_of(resource)) is not None
        }

    def with_claims(self, pod: str, claims: Sequence[PodClaim], served: Served) -> "Place":
        """Return the node after a pod has come, with its claims."""
        if self.devices is None or not (claims or served):
            return self
        return self.with_allocation(pod, claims, self.allocation(pod, claims, served))

    def with_allocation(self, pod: str, claims: Sequence[PodClaim], allocation: Allocation) -> "Place":
        """Return the node after a pod has come, with the allocation found for its claims."""
        if self.devices is None:
            return self
        this_node = ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [self.node]}]},)
        devices = self.devices
        for claim in allocation.claims:
            devices = devices.with_claim(claim._replace(selector=this_node))
        for ref in claims:
            existing = self.devices.claim(ref.claim) if ref.claim else None
            if existing is not None:
                devices = devices.with_claim(existing._replace(holders=frozenset({pod})))
        return replace(self, devices=devices)

    def spec(self, claim: PodClaim) -> ClaimSpec | None:
        """Return what a claim asks for; None where it is allocated, or not known."""
        try:
            return self._spec(claim, "", [])
        except _ClaimRefusedError:
            return None

    def _spec(self, claim: PodClaim, pod: str, unknown: list[str]) -> ClaimSpec | None:
        """Return what must be allocated for a claim; None where it is allocated, or not known."""
        existing = self.devices.claim(claim.claim) if self.devices and claim.claim else None
        if existing is not None:
            if not existing.is_on(self.node, self.labels):
                raise _ClaimRefusedError("resourceclaim not available on the node")
            if len(existing.holders) >= MOST_USERS:
                raise _ClaimRefusedError("resourceclaim in use")
            return None
        template, shared = claim.template, str(claim.claim)
        if template is not None:
            document, source = self.world.templates.get(template), f"ResourceClaimTemplate {template}"
        else:
            document, source = self.world.claims.get(shared), f"ResourceClaim {shared}"
        if document is None:
            unknown.append(self._lacking(source, source))
            return None
        spec = mapping(document.get("spec"))
        if template is not None:
            return spec_of_claim(mapping(spec.get("spec")), f"{pod}/{claim.name}")
        return spec_of_claim(spec, shared)

    def _lacking(self, name: str, said_by_scheduler: str) -> str:
        """Return what is unknown; raises _ClaimRefusedError where it is known to be missing."""
        if self.world.is_whole:
            raise _ClaimRefusedError(f"{said_by_scheduler} does not exist")
        return f"{name} is not given"


@dataclass(frozen=True)
class NodeClaims:
    """How a node serves claims (numaforge.kubelet.admission.claims.Claims), by the scheduler's search.

    `extended`: its Kubernetes serves extended resources by claims. `near` has the NUMA node of the
    machine's PCI functions. `lacks` are labels that it certainly has not.
    """

    place: Place
    extended: bool
    near: Mapping[str, int]
    lacks: frozenset[str] = frozenset()

    def is_selected_by(self, placing: Placing) -> bool:
        """Return whether a pod's nodeSelector and affinity may select the node; unknown labels may be any."""
        return self._known(placing).selects(self.place.labels, self.place.node)

    def unlike(self, placing: Placing) -> str:
        """Return the node's labels where a pod wants others."""
        return self._known(placing).unlike(self.place.labels)

    def _known(self, placing: Placing) -> Placing:
        return placing.without(placing.keys - self.place.labels.keys() - self.lacks)

    def judge(self, pod: Pod, request: Mapping[str, int], advertised: Collection[str]) -> JudgedClaims:
        """Return whether the free devices serve a pod's claims."""
        claims, served = self._allocated_names(pod, request, advertised)
        names = (*(claim.name for claim in claims), *served)
        if not names:
            return NO_CLAIMS
        allocation = self.place.allocation(pod.name, claims, served)
        with_pod = self.place.with_allocation(pod.name, claims, allocation).devices
        devices: dict[str, tuple[ClaimedDevice, ...]] = {}
        if with_pod and not allocation.refusal:
            devices = dict(self._devices(pod.name, claims, served, with_pod))
        return JudgedClaims(names, allocation.refusal, allocation.unknown, frozenset(served), devices)

    def with_pod(self, pod: Pod, request: Mapping[str, int], advertised: Collection[str]) -> "NodeClaims":
        """Return the node's claims after a pod has come."""
        claims, served = self._allocated_names(pod, request, advertised)
        with_claims = self.place.with_claims(pod.name, claims, served)
        return self if with_claims is self.place else replace(self, place=with_claims)

    def without(self, name: str) -> "NodeClaims":
        """Return the node's claims after a pod has left, without those that it alone held."""
        devices = self.place.devices
        remaining = devices.without(name) if devices else None
        return self if remaining is devices else replace(self, place=replace(self.place, devices=remaining))

    def _allocated_names(
        self, pod: Pod, request: Mapping[str, int], advertised: Collection[str]
    ) -> tuple[tuple[PodClaim, ...], Served]:
        served = self.place.served(request, advertised) if self.extended else {}
        return as_pod_claims(pod.claims), served

    def _devices(
        self, pod: str, claims: Iterable[PodClaim], served: Served, devices: NodeDevices
    ) -> Iterator[tuple[str, tuple[ClaimedDevice, ...]]]:
        """Yield each claim's devices, by the pod's name for it or the extended resources that it serves."""
        names = {claim.claim: claim.name for claim in claims if claim.claim}
        names[spec_of_resources(pod, served).name] = ", ".join(sorted(served))
        for claim in devices.held_claims:
            if pod in claim.holders:
                name = names.get(claim.name, claim.name.removeprefix(f"{pod}/"))
                offered = (devices.by_id.get(device.device) or device.device for device in claim.devices)
                yield name, tuple(claimed_device(device, self.near) for device in offered)


def claimed_device(device: OfferedDevice | DeviceId, near: Mapping[str, int]) -> ClaimedDevice:
    """Return a device with the NUMA nodes that its driver names, else that of its PCI function (`near`)."""
    if not isinstance(device, OfferedDevice):
        return ClaimedDevice(*device)
    for name in (NUMA_NODE, *LEGACY_NUMA_NODES):
        value = device.attribute(name)
        places = value if isinstance(value, list) else [value]
        if numa_nodes := frozenset(node_id for node_id in places if type(node_id) is int and node_id >= 0):
            return ClaimedDevice(*device.id, numa_nodes, device.is_local)
    at = near.get(str(device.attribute(BUS_ID) or "").lower())
    return ClaimedDevice(*device.id, frozenset({at} if at is not None else ()), device.is_local)


def places_of(machine: NodeTopology) -> dict[str, int]:
    """Return the NUMA node of each PCI function of GPUs and NICs, by its address in lower case."""
    places = {gpu.pci_address: gpu.numa_node for gpu in machine.gpus}
    places |= {nic.pci_address: nic.numa_node for nic in machine.nics}
    return {address.lower(): numa_node for address, numa_node in places.items() if numa_node is not None}


def as_planned(
    name: str, scenario: Scenario, plan: NodePlan | None
) -> tuple[dict[str, str | None], ClaimWorld]:
    """Return the labels (None for one that it lacks) and claim objects of a node after its plan is applied.

    Without a plan, the objects are those of registered drivers; without these, claims are unknown.
    """
    machine = scenario.topology
    discovered = planned_labels(machine, plan) | _of_kubelet(machine)
    if plan is None:
        return discovered, claim_world(_registered(name, scenario))
    served = ServedNode(machine, plan, scenario.devices or {}, "")
    labels = {**discovered, **labels_of(served)}
    if plan.dra is None:
        return labels, NOTHING_KNOWN
    classes = planned_classes(claims_of(machine, plan))
    return labels, claim_world([*classes, *planned_slices(served, name)])


def _of_kubelet(machine: NodeTopology) -> dict[str, str]:
    """Return the labels that each kubelet gives its Node by itself; none for an unknown architecture."""
    architecture = _ARCHITECTURES.get(machine.architecture or "")
    if architecture is None:
        return {}
    values = {"arch": architecture, "os": "linux"}
    return {f"{beta}kubernetes.io/{key}": value for key, value in values.items() for beta in ("", "beta.")}


def _registered(name: str, scenario: Scenario) -> Iterator[dict[str, Any]]:
    """Yield the device classes of the registered drivers, and their slices."""
    slices = [*registered_slices(scenario.topology, name)]
    drivers = {device_slice["spec"]["driver"] for device_slice in slices}
    classes = planned_classes(served_by_claims(scenario.topology, _minor(scenario)))
    yield from (device_class for device_class in classes if device_class["metadata"]["name"] in drivers)
    yield from slices


def _minor(scenario: Scenario) -> int:
    return KubeletVersion.parse(scenario.version).minor if scenario.version else LATEST_MINOR


def with_claims(scenario: Scenario, plan: NodePlan | None, world: ClaimWorld) -> Scenario:
    """Return a scenario with the node's claims; its Node has the name that its kubelet registers."""
    machine = scenario.topology
    name = registered_name(machine.kubelet.flags if machine.kubelet else (), machine.hostname or "")
    return replace(scenario, claims=node_claims(name, scenario, plan, world))


def without_plugins(offered: Inventory, world: ClaimWorld) -> Inventory:
    """Return what a machine's plugins offer, without what given objects serve by claims."""
    if world.slices is None:
        return offered
    return {resource: devices for resource, devices in offered.items() if world.class_of(resource) is None}


def node_claims(name: str, scenario: Scenario, plan: NodePlan | None, given_world: ClaimWorld) -> NodeClaims:
    """Return how a node of this name serves claims, by the given objects and by its plan.

    Given ResourceSlices replace those of the plan, and count as all of the node's.
    """
    machine = scenario.topology
    labels, planned = as_planned(name, scenario, plan)
    world = planned.merged(given_world)
    present = {HOSTNAME_LABEL: name, **present_labels(labels)}
    devices, why = None, f"{UNKNOWN_OFFER}: no ResourceSlices are given"
    if world.slices is not None:
        is_planned = given_world.slices is None
        devices = devices_on(
            name, present, world.slices, world.held_claims(), world.rules, planned=is_planned
        )
    if given_world.slices is not None and devices and not (devices.devices or devices.incomplete):
        devices, why = None, f"{UNKNOWN_OFFER}: no given ResourceSlice is of the node {name}"
    if devices and scenario.state and not given_world.claims:
        devices, why = None, "which devices its pods have is not known: no ResourceClaims are given"
    if devices is None:
        world = replace(world, why_unknown=why)
    extended = _minor(scenario) >= FIRST_MINOR_WITH_EXTENDED_RESOURCES
    lacks = frozenset(labels) - present.keys()
    return NodeClaims(Place(name, present, devices, world), extended, places_of(machine), lacks)
