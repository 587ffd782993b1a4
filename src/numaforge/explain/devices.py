"""The devices that serve claims: what ResourceSlices offer a node, and what is taken.

resource.k8s.io/v1 of Kubernetes 1.37, and pools_incubating.go of k8s.io/dynamic-resource-allocation: only a
pool's newest generation counts, and a pool with missing slices serves nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from numaforge.errors import NumaforgeError
from numaforge.explain.placing import Labels, term_selects
from numaforge.explain.selectors import Release, SelectedDevice
from numaforge.given import mapping, mappings
from numaforge.quantity import parse_quantity

DeviceId = tuple[str, str, str]
"""Driver, pool and name."""
Document = Mapping[str, Any]
_ATTRIBUTE_TYPES = ("string", "int", "bool", "version", "strings", "ints", "bools", "versions")


@dataclass(frozen=True)
class Capacity:
    """How much of something a device has, and how a share of it is rounded.

    `policy` is the requestPolicy as it is written.
    """

    value: Fraction
    policy: Document = field(default_factory=dict)

    def consumed(self, asked: Fraction | None) -> Fraction | None:
        """Return what a share takes (calculateConsumedCapacity); None where the policy does not allow it."""
        default, span = amount_of(self.policy.get("default")), mapping(self.policy.get("validRange"))
        values = [
            found for each in self.policy.get("validValues") or () if (found := amount_of(each)) is not None
        ]
        if asked is None:
            return self.value if default is None else default
        if values:
            return next((each for each in values if asked <= each), None)
        least, most, step = (amount_of(span.get(key)) for key in ("min", "max", "step"))
        if least is not None:
            asked = max(asked, least)
            if step:
                asked = least + -(-(asked - least) // step) * step
        return None if most is not None and asked > most else asked


@dataclass(frozen=True)
class OfferedDevice:
    """A device of a slice; `counters` is what it consumes of its pool's shared counters, by set.

    `is_local`: it belongs to one node alone.
    """

    id: DeviceId
    seen: SelectedDevice
    capacity: Mapping[str, Capacity] = field(default_factory=dict)
    taints: tuple[Document, ...] = ()
    counters: tuple[tuple[str, Mapping[str, Fraction]], ...] = ()
    is_local: bool = True

    def attribute(self, name: str) -> Any:
        """Return an attribute by its full name; None where the device lacks it."""
        domain, _, own = name.rpartition("/")
        return self.seen.attributes.get(domain or self.seen.driver, {}).get(own)


@dataclass(frozen=True)
class TakenDevice:
    """A device that a claim holds, or a share of it: `consumed`, by name of the capacity.

    A monitor (admin access) takes nothing from others.
    """

    device: DeviceId
    consumed: Mapping[str, Fraction] | None = None
    is_monitor: bool = False


@dataclass(frozen=True)
class HeldClaim:
    """An allocated claim: its holders' UIDs, its devices, and the nodes on which it can be used."""

    name: str
    holders: frozenset[str]
    devices: tuple[TakenDevice, ...]
    selector: tuple[Document, ...] | None = None

    def is_on(self, node: str, labels: Labels) -> bool:
        """Return whether pods on a node can use it."""
        return self.selector is None or any(term_selects(each, labels, node) for each in self.selector)


@dataclass(frozen=True)
class NodeDevices:
    """The devices of a node in the scheduler's order, and the claims that hold them.

    `held` has all allocated claims of the cluster: some of their devices may be on other nodes. `incomplete`
    are the pools with missing slices. `counters` has the counters that devices share, by driver, pool and
    set; `by_id` also has the devices of other nodes that share them. `answers` is a cache for this instance.
    """

    devices: tuple[OfferedDevice, ...]
    held: tuple[HeldClaim, ...] = ()
    incomplete: tuple[str, ...] = ()
    counters: Mapping[DeviceId, Mapping[str, Fraction]] = field(default_factory=dict)
    by_id: Mapping[DeviceId, OfferedDevice] = field(default_factory=dict)
    answers: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def taken(self) -> Iterator[TakenDevice]:
        """The devices and shares that are held."""
        for claim in self.held:
            yield from (each for each in claim.devices if not each.is_monitor)

    def claim(self, name: str) -> HeldClaim | None:
        """Return an allocated claim, by its full name."""
        return next((each for each in self.held if each.name == name), None)

    def with_claim(self, claim: HeldClaim) -> NodeDevices:
        """Return the devices with one more claim, or with one more holder of an allocated one."""
        if (there := self.claim(claim.name)) is None:
            return replace(self, held=(*self.held, claim))
        shared = replace(there, holders=there.holders | claim.holders)
        return replace(self, held=tuple(shared if each is there else each for each in self.held))

    def without(self, uid: str) -> NodeDevices:
        """Return the devices after a pod has left, and with it the claims that it alone held."""
        if not any(uid in each.holders for each in self.held):
            return self
        left = (replace(each, holders=each.holders - {uid}) for each in self.held if each.holders != {uid})
        return replace(self, held=tuple(left))

    def emptied(self) -> NodeDevices:
        """Return the devices without the claims on the node's own."""
        shared = {each.id for each in self.by_id.values() if not each.is_local}
        held = tuple(each for each in self.held if any(one.device in shared for one in each.devices))
        return replace(self, held=held)

    def of_another(self, node: str) -> NodeDevices:
        """Return the devices of another node like this one: local devices get ids of their own."""

        def own(device: OfferedDevice) -> OfferedDevice:
            driver, pool, name = device.id
            return replace(device, id=(driver, f"{pool}/{node}", name)) if device.is_local else device

        pools = {each.id[:2] for each in self.devices if each.is_local}
        counters = {
            (driver, f"{pool}/{node}" if (driver, pool) in pools else pool, name): amounts
            for (driver, pool, name), amounts in self.counters.items()
        }
        devices = tuple(own(each) for each in self.devices)
        by_id = {each.id: each for each in (*devices, *self.by_id.values())}
        return replace(self, devices=devices, counters=counters, by_id=by_id)


def devices_on(
    node: str,
    labels: Labels,
    slices: Iterable[Document],
    held: Iterable[HeldClaim] = (),
    rules: Iterable[Document] = (),
    *,
    planned: bool = False,
) -> NodeDevices:
    """Return what slices offer a node; `rules` are DeviceTaintRules.

    With `planned` slices, whatever they omit of a device is unknown.
    """
    pools: dict[tuple[str, str], list[Document]] = {}
    for each in slices:
        spec = mapping(each.get("spec"))
        pool = mapping(spec.get("pool"))
        pools.setdefault((str(spec.get("driver")), str(pool.get("name"))), []).append(each)
    found: list[OfferedDevice] = []
    incomplete: list[str] = []
    counters: dict[DeviceId, Mapping[str, Fraction]] = {}
    by_id: dict[DeviceId, OfferedDevice] = {}
    taints = [*map(mapping, (each.get("spec") for each in rules))]
    for (driver, name), listed in sorted(pools.items()):
        newest = max(_generation(each) for each in listed)
        current = sorted((each for each in listed if _generation(each) == newest), key=_name)
        here: list[OfferedDevice] = []
        for each in current:
            spec = mapping(each.get("spec"))
            for shared in mappings(spec.get("sharedCounters")):
                counters[driver, name, str(shared.get("name"))] = _amounts(shared.get("counters"))
            for device in mappings(spec.get("devices")):
                chosen = device if spec.get("perDeviceNodeSelection") else spec
                offered = _device(driver, name, device, taints, planned=planned)
                offered = replace(offered, is_local=bool(chosen.get("nodeName")))
                by_id[offered.id] = offered
                if _is_for(chosen, node, labels):
                    here.append(offered)
        if len(current) == mapping(mapping(current[0].get("spec")).get("pool")).get("resourceSliceCount", 1):
            found += here
        elif here or any(_is_for(mapping(each.get("spec")), node, labels) for each in current):
            incomplete.append(f"{driver}/{name}")
    return NodeDevices(tuple(found), tuple(held), tuple(incomplete), counters, by_id)


def held_claims(claims: Iterable[Document]) -> Iterator[HeldClaim]:
    """Yield the ResourceClaims that are allocated."""
    for claim in claims:
        status = mapping(claim.get("status"))
        allocation = mapping(status.get("allocation"))
        if not allocation:
            continue
        terms = mapping(allocation.get("nodeSelector")).get("nodeSelectorTerms")
        results = mappings(mapping(allocation.get("devices")).get("results"))
        yield HeldClaim(
            full_name(claim),
            frozenset(str(each.get("uid")) for each in mappings(status.get("reservedFor"))),
            tuple(map(_taken, results)),
            tuple(mappings(terms)) if terms else None,
        )


def full_name(document: Document) -> str:
    """Return the namespace and name of an object."""
    metadata = mapping(document.get("metadata"))
    return f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"


def _taken(result: Document) -> TakenDevice:
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
    for key, said in mapping(body.get("attributes")).items():
        domain, _, own = str(key).rpartition("/")
        attributes.setdefault(domain or driver, {})[own] = _value(mapping(said))
    capacity: dict[str, Capacity] = {}
    for key, said in mapping(body.get("capacity")).items():
        value = amount_of(mapping(said).get("value"))
        if value is not None:
            capacity[str(key)] = Capacity(value, mapping(mapping(said).get("requestPolicy")))
    by_domain: dict[str, dict[str, Fraction]] = {}
    for key, size in capacity.items():
        domain, _, own = key.rpartition("/")
        by_domain.setdefault(domain or driver, {})[own] = size.value
    of_rules = (mapping(each.get("taint")) for each in rules if _meets(each, driver, pool, name))
    return OfferedDevice(
        (driver, pool, name),
        SelectedDevice(
            driver, attributes, by_domain, bool(body.get("allowMultipleAllocations")), complete=not planned
        ),
        capacity,
        (*mappings(body.get("taints")), *of_rules),
        tuple(
            (str(each.get("counterSet")), _amounts(each.get("counters")))
            for each in mappings(body.get("consumesCounters"))
        ),
    )


def _meets(rule: Document, driver: str, pool: str, device: str) -> bool:
    """Return whether a DeviceTaintRule selects a device; a rule without a selector selects none."""
    selector = rule.get("deviceSelector")
    if not isinstance(selector, Mapping):
        return False
    own = {"driver": driver, "pool": pool, "device": device}
    return all(selector.get(key) in (None, value) for key, value in own.items())


def _is_for(spec: Document, node: str, labels: Labels) -> bool:
    if spec.get("nodeName"):
        return bool(spec["nodeName"] == node)
    if spec.get("allNodes"):
        return True
    terms = mappings(mapping(spec.get("nodeSelector")).get("nodeSelectorTerms"))
    return any(term_selects(each, labels, node) for each in terms)


def _value(said: Document) -> Any:
    """Return an attribute's value: a version as a Release, an unknown type as None."""
    for kind in _ATTRIBUTE_TYPES:
        if kind in said:
            found = said[kind]
            if kind == "version":
                return Release(str(found))
            return [Release(str(each)) for each in found] if kind == "versions" else found
    return None


def _generation(each: Document) -> int:
    found = mapping(mapping(each.get("spec")).get("pool")).get("generation", 0)
    return found if type(found) is int else 0


def _name(each: Document) -> str:
    return str(mapping(each.get("metadata")).get("name"))


def _amounts(said: object) -> dict[str, Fraction]:
    """Return amounts by name: `{name: "1Gi"}`, or `{name: {value: "1Gi"}}`."""
    found = {}
    for name, each in mapping(said).items():
        amount = amount_of(each.get("value") if isinstance(each, Mapping) else each)
        if amount is not None:
            found[str(name)] = amount
    return found


def amount_of(text: object) -> Fraction | None:
    """Return a quantity that is given as text or as a number; None for anything else."""
    try:
        return parse_quantity(str(text)) if isinstance(text, str | int | float) else None
    except NumaforgeError:
        return None
