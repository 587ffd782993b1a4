"""Whether a node serves a pod's claims: what the scheduler refuses at once, else the search for devices.

pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go of Kubernetes 1.37.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from numaforge.cluster.explain.allocation import Allocation, allocate
from numaforge.cluster.explain.claims import (
    MOST_USERS,
    ClaimSpec,
    ClaimWorld,
    PodClaim,
    spec_of_claim,
    spec_of_resources,
)
from numaforge.cluster.explain.devices import NodeDevices
from numaforge.cluster.explain.placing import Labels
from numaforge.lib.given import mapping

_DOES_NOT_EXIST, _IS_NOT_GIVEN = "does not exist", "is not given"


class _ClaimRefusedError(Exception):
    """The scheduler refuses the node, or the pod, before it looks at devices."""


@dataclass(frozen=True)
class Place:
    """A node as the allocation of claims sees it; `devices` is None where unknown."""

    node: str
    labels: Labels
    devices: NodeDevices | None
    world: ClaimWorld

    def allocation(
        self, pod: str, claims: Sequence[PodClaim], served: Mapping[str, tuple[str, int]]
    ) -> Allocation:
        """Return whether a pod's claims can be served, and its extended resources that claims serve.

        `served` has for each such resource the device class and the amount that the pod asks for.
        """
        unknown: list[str] = []
        try:
            specs = [
                claim.changed(spec)
                for claim in claims
                if (spec := self._spec(claim, pod, unknown)) is not None
            ]
            specs += [spec_of_resources(pod, served)] if served else []
            for request, missing in self._missing_classes(specs):
                unknown.append(
                    self._lacking(f"DeviceClass {missing}", f"request {request}: device class {missing}")
                )
        except _ClaimRefusedError as refusal:
            return Allocation(False, str(refusal))
        if self.devices is None:
            unknown.append(self.world.why_unknown or "what its drivers offer is not known")
        if unknown or self.devices is None:
            return Allocation(None, unknown=tuple(dict.fromkeys(unknown)))
        return allocate(self.devices, specs, self.world.classes, pod)

    def served(self, request: Mapping[str, int], advertised: Collection[str]) -> dict[str, tuple[str, int]]:
        """Return the extended resources that a claim, not a device plugin, serves here: class and amount.

        pkg/scheduler/framework/plugins/dynamicresources, filterExtendedResources.
        """
        return {
            resource: (device_class, amount)
            for resource, amount in request.items()
            if amount
            and resource not in advertised
            and (device_class := self.world.class_of(resource)) is not None
        }

    def with_claims(
        self, pod: str, claims: Sequence[PodClaim], served: Mapping[str, tuple[str, int]]
    ) -> "Place":
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
        if claim.template is not None:
            document, name = (
                self.world.templates.get(claim.template),
                f"ResourceClaimTemplate {claim.template}",
            )
        else:
            document, name = self.world.claims.get(str(claim.claim)), f"ResourceClaim {claim.claim}"
        if document is None:
            unknown.append(self._lacking(name, name))
            return None
        spec = mapping(document.get("spec"))
        if claim.template is not None:
            return spec_of_claim(mapping(spec.get("spec")), f"{pod}/{claim.name}")
        return spec_of_claim(spec, str(claim.claim))

    def _lacking(self, name: str, said_by_scheduler: str) -> str:
        """Return what is unknown; raises _ClaimRefusedError where it is known to be missing."""
        if self.world.is_whole:
            raise _ClaimRefusedError(f"{said_by_scheduler} {_DOES_NOT_EXIST}")
        return f"{name} {_IS_NOT_GIVEN}"

    def _missing_classes(self, specs: Sequence[ClaimSpec]) -> Iterator[tuple[str, str]]:
        for spec in specs:
            for request, ways in spec.requests:
                for wish in ways:
                    if wish.device_class not in self.world.classes:
                        yield request, wish.device_class
