"""The devices that serve claims: the ResourceSlices of a node, and allocations.

resource.k8s.io/v1 of Kubernetes 1.37, and pools_incubating.go of k8s.io/dynamic-resource-allocation: only a
pool's newest generation counts, and a pool with missing slices serves nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple

from numaforge.cluster.explain.placing import Labels, term_selects
from numaforge.cluster.explain.selectors import Release, SelectedDevice
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import mapping, mappings
from numaforge.lib.quantity import parse_quantity

DeviceId = tuple[str, str, str]
"""Driver, pool and name."""
Document = Mapping[str, Any]
_ATTRIBUTE_TYPES = ("string", "int", "bool", "version", "strings", "ints", "bools", "versions")


@dataclass(frozen=True)
class Capacity:
    """A device's amount of something; `policy` is the requestPolicy, which rounds a share of it."""

    value: Fraction
    policy: Document = field(default_factory=dict)

    def consumed(self, amount: Fraction | None) -> Fraction | None:
        """Return the amount of a share (calculateConsumedCapacity); None where the policy forbids it."""
        default, span = amount_of(self.policy.get("default")), mapping(self.policy.get("validRange"))
        values = [
            valid for value in self.policy.get("validValues") or () if (valid := amount_of(value)) is not None
        ]
        if amount is None:
            return self.value if default is None else default
        if values:
            return next((value for value in values if amount <= value), None)
        least, most, step = (amount_of(span.get(key)) for key in ("min", "max", "step"))
        if least is not None:
            amount = max(amount, least)
            if step:
                amount = least + -(-(amount - least) // step) * step
        return None if most is not None and amount > most else amount


@dataclass(frozen=True)
class OfferedDevice:
    """A device of a slice, `is_local` to one node; `counters` is its share of its pool's, by set."""

    id: DeviceId
    view: SelectedDevice
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    taints: tuple[Document, ...] = ()
    counters: tuple[tuple[str, Mapping[str, Fraction]], ...] = ()
    is_local: bool = True

    def attribute(self, name: str) -> Any:
        """Return an attribute by its full name; None where the device lacks it."""
        domain, _, short_name = name.rpartition("/")
        return self.view.attributes.get(domain or self.view.driver, {}).get(short_name)


class TakenDevice(NamedTuple):
    """A held device, or a share of it: `consumed`, by capacity; a monitor (admin access) takes nothing."""

    device: DeviceId
    consumed: Mapping[str, Fraction] | None = None
    is_monitor: bool = False


class HeldClaim(NamedTuple):
    """An allocated claim: its holders' UIDs, its devices, and its nodes."""

    name: str
    holders: frozenset[str]
    devices: tuple[TakenDevice, ...]
    selector: tuple[Document, ...] | None = None

    def is_on(self, node: str, labels: Labels) -> bool:
        """Return whether pods on a node can use it."""
        return self.selector is None or any(term_selects(term, labels, node) for term in self.selector)


@dataclass(frozen=True)
class NodeDevices:
    """The devices of a node in the scheduler's order, and the claims that hold them.

    `held_claims` has all allocated claims of the cluster, some with devices of other nodes. `incomplete` are
    pools with missing slices. `counters` has shared counters by driver, pool and set; `by_id` also has other
    nodes' devices that share them. `answers` is a cache of this instance.
    """

    devices: tuple[OfferedDevice, ...]
    held_claims: tuple[HeldClaim, ...] = ()
    incomplete: tuple[str, ...] = ()
    counters: Mapping[DeviceId, Mapping[str, Fraction]] = field(default_factory=dict)
    by_id: Mapping[DeviceId, OfferedDevice] = field(default_factory=dict)
    answers: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def taken_devices(self) -> Iterator[TakenDevice]:
        """The held devices and shares."""
        for claim in self.held_claims:
            yield from (device for device in claim.devices if not device.is_monitor)

    def claim(self, name: str) -> HeldClaim | None:
        """Return an allocated claim, by its full name."""
        return next((claim for claim in self.held_claims if claim.name == name), None)

    def with_claim(self, claim: HeldClaim) -> NodeDevices:
        """Return the devices with a further claim, or a further holder of an allocated one."""
        if (existing := self.claim(claim.name)) is None:
            return replace(self, held_claims=(*self.held_claims, claim))
        shared = existing._replace(holders=existing.holders | claim.holders)
        return replace(
            self,
            held_claims=tuple(
                shared if held_claim is existing else held_claim for held_claim in self.held_claims
            ),
        )

    def without(self, uid: str) -> NodeDevices:
        """Return the devices after a pod has left, without the claims that it alone held."""
        if not any(uid in claim.holders for claim in self.held_claims):
            return self
        claims = (
            claim._replace(holders=claim.holders - {uid})
            for claim in self.held_claims
            if claim.holders != {uid}
        )
        return replace(self, held_claims=tuple(claims))

    def emptied(self) -> NodeDevices:
        """Return the devices without the claims on the node's own."""
        shared = {device.id for device in self.by_id.values() if not device.is_local}
        claims = tuple(
            claim for claim in self.held_claims if any(one.device in shared for one in claim.devices)
        )
        return replace(self, held_claims=claims)

    def of_another(self, node: str) -> NodeDevices:
        """Return the devices of another node like this one: local devices get new ids."""

        def of_node(device: OfferedDevice) -> OfferedDevice:
            driver, pool, name = device.id
            return replace(device, id=(driver, f"{pool}/{node}", name)) if device.is_local else device

        pools = {device.id[:2] for device in self.devices if device.is_local}
        counters = {
            (driver, f"{pool}/{node}" if (driver, pool) in pools else pool, name): amounts
            for (driver, pool, name), amounts in self.counters.items()
        }
        devices = tuple(of_node(device) for device in self.devices)
        by_id = {device.id: device for device in (*devices, *self.by_id.values())}
        return replace(self, devices=devices, counters=counters, by_id=by_id)


def devices_on(
    node: str,
    labels: Labels,
    slices: Iterable[Document],
    claims: Iterable[HeldClaim] = (),
    rules: Iterable[Document] = (),
    *,
    planned: bool = False,
) -> NodeDevices:
    """Return the devices of slices for a node, under DeviceTaintRules; `planned` ones may omit properties."""
    pools: dict[tuple[str, str], list[Document]] = {}
    for device_slice in slices:
        spec = mapping(device_slice.get("spec"))
        pool = mapping(spec.get("pool"))
        pools.setdefault((str(spec.get("driver")), str(pool.get("name"))), []).append(device_slice)
    offered_devices: list[OfferedDevice] = []
    incomplete: list[str] = []
    counters: dict[DeviceId, Mapping[str, Fraction]] = {}
    by_id: dict[DeviceId, OfferedDevice] = {}
    taints = [*map(mapping, (rule.get("spec") for rule in rules))]
    for (driver, name), listed in sorted(pools.items()):
        newest = max(_generation(device_slice) for device_slice in listed)
        current = sorted(
            (device_slice for device_slice in listed if _generation(device_slice) == newest), key=_name
        )
        of_pool: list[OfferedDevice] = []
        for device_slice in current:
            spec = mapping(device_slice.get("spec"))
            for shared in mappings(spec.get("sharedCounters")):
                counters[driver, name, str(shared.get("name"))] = _amounts(shared.get("counters"))
            for device in mappings(spec.get("devices")):
                chosen = device if spec.get("perDeviceNodeSelection") else spec
                offered = _device(driver, name, device, taints, planned=planned)
                offered = replace(offered, is_local=bool(chosen.get("nodeName")))
                by_id[offered.id] = offered
                if _is_for(chosen, node, labels):
                    of_pool.append(offered)
        if len(current) == mapping(mapping(current[0].get("spec")).get("pool")).get("resourceSliceCount", 1):
            offered_devices += of_pool
        elif of_pool or any(
            _is_for(mapping(device_slice.get("spec")), node, labels) for device_slice in current
        ):
            incomplete.append(f"{driver}/{name}")
    return NodeDevices(tuple(offered_devices), tuple(claims), tuple(incomplete), counters, by_id)


def held_claims(claims: Iterable[Document]) -> Iterator[HeldClaim]:
    """Yield the allocated ResourceClaims."""
    for claim in claims:
        status = mapping(claim.get("status"))
        allocation = mapping(status.get("allocation"))
        if not allocation:
            continue
        terms = mapping(allocation.get("nodeSelector")).get("nodeSelectorTerms")
        results = mappings(mapping(allocation.get("devices")).get("results"))
        yield HeldClaim(
            full_name(claim),
            frozenset(str(user.get("uid")) for user in mappings(status.get("reservedFor"))),
            tuple(map(_taken_device, results)),
            tuple(mappings(terms)) if terms else None,
        )


def full_name(document: Document) -> str:
    """Return the namespace and name of an object."""
    metadata = mapping(document.get("metadata"))
    return f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"


def _taken_device(result: Document) -> TakenDevice:
    device = str(result.get("driver")), str(result.get("pool")), str(result.get("device"))
    is_share = bool(result.get("shareID"))
    consumed = _amounts(result.get("consumedCapacity")) if is_share else None
    return TakenDevice(device, consumed, bool(result.get("adminAccess")))


def _device(
    driver: str, pool: str, document: Document, rules: Sequence[Document], *, planned: bool
) -> OfferedDevice:
    body = mapping(document.get("basic")) or document  # v1beta1
    name = str(document.get("name"))
    attributes: dict[str, dict[str, Any]] = {}
    for key, value in mapping(body.get("attributes")).items():
        domain, _, attribute = str(key).rpartition("/")
        attributes.setdefault(domain or driver, {})[attribute] = _value(mapping(value))
    capacity: dict[str, Capacity] = {}
    for key, size in mapping(body.get("capacity")).items():
        value = amount_of(mapping(size).get("value"))
        if value is not None:
            capacity[str(key)] = Capacity(value, mapping(mapping(size).get("requestPolicy")))
    by_domain: dict[str, dict[str, Fraction]] = {}
    for key, size in capacity.items():
        domain, _, attribute = key.rpartition("/")
        by_domain.setdefault(domain or driver, {})[attribute] = size.value
    of_rules = (mapping(rule.get("taint")) for rule in rules if _meets(rule, driver, pool, name))
    return OfferedDevice(
        (driver, pool, name),
        SelectedDevice(
            driver, attributes, by_domain, bool(body.get("allowMultipleAllocations")), complete=not planned
        ),
        capacity,
        (*mappings(body.get("taints")), *of_rules),
        tuple(
            (str(consumed.get("counterSet")), _amounts(consumed.get("counters")))
            for consumed in mappings(body.get("consumesCounters"))
        ),
    )


def _meets(rule: Document, driver: str, pool: str, device: str) -> bool:
    """Return whether a DeviceTaintRule selects a device; a rule without a selector selects none."""
    selector = rule.get("deviceSelector")
    if not isinstance(selector, Mapping):
        return False
    ids = {"driver": driver, "pool": pool, "device": device}
    return all(selector.get(key) in (None, value) for key, value in ids.items())


def _is_for(spec: Document, node: str, labels: Labels) -> bool:
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node)
    if spec.get("allNodes"):
        return True
    terms = mappings(mapping(spec.get("nodeSelector")).get("nodeSelectorTerms"))
    return any(term_selects(term, labels, node) for term in terms)


def _value(typed: Document) -> Any:
    """Return an attribute's value: a version as a Release, an unknown type as None."""
    for kind in _ATTRIBUTE_TYPES:
        if kind in typed:
            value = typed[kind]
            if kind == "version":
                return Release(str(value))
            return [Release(str(version)) for version in value] if kind == "versions" else value
    return None


def _generation(device_slice: Document) -> int:
    generation = mapping(mapping(device_slice.get("spec")).get("pool")).get("generation", 0)
    return generation if type(generation) is int else 0


def _name(device_slice: Document) -> str:
    return str(mapping(device_slice.get("metadata")).get("name"))


def _amounts(listed: object) -> dict[str, Fraction]:
    """Return amounts by name: `{name: "1Gi"}`, or `{name: {value: "1Gi"}}`."""
    amounts = {}
    for name, value in mapping(listed).items():
        amount = amount_of(value.get("value") if isinstance(value, Mapping) else value)
        if amount is not None:
            amounts[str(name)] = amount
    return amounts


def amount_of(text: object) -> Fraction | None:
    """Return a quantity that is given as text or as a number; None for anything else."""
    try:
        return parse_quantity(str(text)) if isinstance(text, str | int | float) else None
    except NumaforgeError:
        return None
