"""Whether a node's devices serve claims: the scheduler's search, with unknowns.

k8s.io/dynamic-resource-allocation/structured of Kubernetes 1.37 (allocator_incubating.go, constraint.go,
consumable_capacity.go): the first solution in the order of pools, slices and devices. Searches the devices
known to match and, where that fails, also those that might.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any, NamedTuple

from numaforge.cluster.explain.claims import ClaimSpec, DeviceWish
from numaforge.cluster.explain.devices import DeviceId, HeldClaim, NodeDevices, OfferedDevice, TakenDevice
from numaforge.cluster.explain.placing import tolerates
from numaforge.cluster.explain.selectors import SelectorFailsError, selects
from numaforge.lib.given import mapping, mappings

MOST_DEVICES_OF_A_CLAIM = 32
"""AllocationResultsMaxSize."""
_MOST_TRIALS = 20_000
_SHOWN = 60
_TOO_LONG = "there are too many ways to try"
_TAINTS = ("NoSchedule", "NoExecute")

Classes = Mapping[str, Mapping[str, Any]]


class RequestCount(NamedTuple):
    """The number of a node's devices that match one request of a claim, and how many of these are free.

    `claim` is the pod's own name for the claim, or the name of a shared claim. `requested` is None for all
    devices. `unsure` devices might match: a selector or an attribute is unknown. `capacity` is requested of
    each device, by name; a free device has that much left.
    """

    claim: str
    request: str
    device_class: str
    requested: int | None
    match: int
    free: int
    unsure: int = 0
    capacity: tuple[tuple[str, Fraction], ...] = ()


class Allocation(NamedTuple):
    """Whether devices serve claims: `fits` is None where unknown, for the reasons `unknown`.

    `claims` are the resulting allocations; with `fits` None, of devices that might serve them. `refusal` is
    the scheduler's.
    """

    fits: bool | None
    refusal: str | None = None
    unknown: tuple[str, ...] = ()
    claims: tuple[HeldClaim, ...] = ()
    counts: tuple[RequestCount, ...] = ()


class AllocationEndsError(Exception):
    """The search ends, even if other solutions exist."""


def allocate(devices: NodeDevices, specs: Sequence[ClaimSpec], classes: Classes, holder: str) -> Allocation:
    """Return whether a node's devices serve claims held by a pod (`holder`); every class is in `classes`."""
    reader = _Matches(devices, classes)
    counts = tuple(reader.counts(specs))
    surely = _Search(devices, specs, reader, maybe=False)
    chosen, refusal = surely.answer()
    # A selector that is not evaluated may match, or fail.
    if reader.doubts and (chosen is None or surely.met_doubts):
        perhaps, maybe_refusal = (
            (chosen, None) if chosen else _Search(devices, specs, reader, maybe=True).answer()
        )
        if perhaps is not None or maybe_refusal != refusal:
            claims = _held_claims(specs, perhaps, holder) if perhaps else ()
            return Allocation(None, unknown=tuple(reader.doubts), claims=claims, counts=counts)
    if refusal == _TOO_LONG:
        return Allocation(None, unknown=(_TOO_LONG,), counts=counts)
    if chosen is None:
        return Allocation(False, refusal, counts=counts)
    return Allocation(True, claims=_held_claims(specs, chosen, holder), counts=counts)


def short_name(claim: str) -> str:
    """Return the pod's own name for a claim, or the name of a shared claim."""
    return claim.rpartition("/")[2]


def _held_claims(
    specs: Sequence[ClaimSpec], chosen: Sequence[list[TakenDevice]], holder: str
) -> tuple[HeldClaim, ...]:
    return tuple(
        HeldClaim(spec.name, frozenset({holder}), tuple(devices))
        for spec, devices in zip(specs, chosen, strict=True)
    )


class _Matches:
    """Which devices match which wish; `doubts` collects unknowns."""

    def __init__(self, devices: NodeDevices, classes: Classes) -> None:
        self._devices = devices
        self._classes = classes
        self._known: dict[tuple[int, DeviceId], bool | None] = {}
        self.doubts: dict[str, None] = {}

    def __call__(self, wish: DeviceWish, device: OfferedDevice) -> bool | None:
        """Return whether a device matches; raises AllocationEndsError where a selector fails on it."""
        key = id(wish), device.id
        if key not in self._known:
            self._known[key] = self._selects(wish, device)
        return self._known[key]

    def _selects(self, wish: DeviceWish, device: OfferedDevice) -> bool | None:
        of_class = mappings(mapping(self._classes[wish.device_class].get("spec")).get("selectors"))
        expressions = [str(mapping(selector.get("cel")).get("expression")) for selector in of_class]
        unknown: list[str] = []
        for expression in (*expressions, *wish.selectors):
            try:
                matches = selects(expression, device.view)
            except SelectorFailsError as failure:
                raise AllocationEndsError(f"a selector fails: {failure}") from failure
            if matches is False:
                return False
            if matches is None:
                unknown.append(expression)
        doubts = [f"{_short(expression)} is not evaluated" for expression in unknown]
        doubts += [f"{wish.unread} is not read"] if wish.unread else []
        self.doubts |= dict.fromkeys(doubts)
        return None if doubts else True

    def counts(self, specs: Sequence[ClaimSpec]) -> Iterator[RequestCount]:
        """Yield for each request how many devices match, and how many of these are free."""
        taken_ids = {device.device for device in self._devices.taken_devices if device.consumed is None}
        shares = _shares_of(self._devices)

        def is_free(device: OfferedDevice, wish: DeviceWish) -> bool:
            share = _share(device, wish)
            is_taken = device.id in taken_ids or _is_tainted(device, wish)
            return not is_taken and share is not None and _has_left(device, share, shares.get(device.id, {}))

        for claim, (name, ways) in ((spec.name, request) for spec in specs for request in spec.requests):
            for wish in ways:
                matches_of = []
                for device in self._devices.devices:
                    with suppress(AllocationEndsError):
                        matches_of.append((self(wish, device), device))
                matching = [device for matches, device in matches_of if matches]
                yield RequestCount(
                    short_name(claim),
                    name if len(ways) == 1 else f"{name}/{wish.name}",
                    wish.device_class,
                    None if wish.takes_all else wish.count,
                    len(matching),
                    sum(is_free(device, wish) for device in matching),
                    sum(matches is None for matches, _ in matches_of),
                    tuple(sorted(wish.capacity.items())),
                )


def _is_tainted(device: OfferedDevice, wish: DeviceWish) -> bool:
    return any(
        taint.get("effect") in _TAINTS
        and not any(tolerates(toleration, taint) for toleration in wish.tolerations)
        for taint in device.taints
    )


class _Search:
    """One search for the devices of all requests of some claims; with `maybe`, unknowns count as matches."""

    def __init__(
        self, devices: NodeDevices, specs: Sequence[ClaimSpec], matches: _Matches, *, maybe: bool
    ) -> None:
        self._devices = devices
        self._specs = specs
        self._steps = [(claim, *request) for claim, spec in enumerate(specs) for request in spec.requests]
        self._matches = matches
        self._maybe = maybe
        self._trials = 0
        self.met_doubts = False
        self._whole = {device.device for device in devices.taken_devices if device.consumed is None}
        self._chosen_for: dict[DeviceId, set[int]] = {}
        self._shares = _shares_of(devices)
        self._counters = {key: dict(amounts) for key, amounts in devices.counters.items()}
        taken_ids: set[DeviceId] = set()
        for device in devices.taken_devices:
            if device.device in devices.by_id and device.device not in taken_ids:
                taken_ids.add(device.device)
                self._count(devices.by_id[device.device], -1)
        self._result: list[list[TakenDevice]] = [[] for _ in specs]
        self._chosen: list[list[list[Any]]] = [[[] for _ in spec.constraints] for spec in specs]

    def answer(self) -> tuple[list[list[TakenDevice]] | None, str | None]:
        """Return the devices of each claim, or None and the reason."""
        try:
            chosen = self._run()
        except AllocationEndsError as failure:
            return None, str(failure)
        return chosen, None if chosen is not None else "cannot allocate all claims"

    def _run(self) -> list[list[TakenDevice]] | None:
        """Return the devices of each claim; None without a solution.

        Raises AllocationEndsError after too many trials, and where the scheduler tries no other solution: a
        selector fails on an examined device, or a request for all devices cannot have them together.
        """
        for _, wish in (row for spec in self._specs for row in spec.wishes):
            self._candidates(wish)
        return self._result if self._request(0) else None

    def _request(self, step: int) -> bool:
        """Return whether the requests from this step on can be served."""
        if step == len(self._steps):
            return True
        _, name, ways = self._steps[step]
        for wish in ways:
            request = name if len(ways) == 1 and wish.name == name else f"{name}/{wish.name}"
            listed, count = self._candidates(wish)
            if count and self._take(step, request, wish, listed, 0, count):
                return True
        return False

    def _candidates(self, wish: DeviceWish) -> tuple[Sequence[OfferedDevice], int]:
        """Return the devices to choose from and how many a wish needs; 0 where it cannot be served."""
        listed = self._devices.devices
        if not wish.takes_all:
            return listed, wish.count
        if self._devices.incomplete:
            raise AllocationEndsError(f"resource pool {self._devices.incomplete[0]} is being updated")
        matches_of = [(self._matches(wish, device), device) for device in listed]
        sure = [device for matches, device in matches_of if matches and _share(device, wish) is not None]
        unsure = [device for matches, device in matches_of if matches is None]
        self.met_doubts = self.met_doubts or bool(unsure)
        if not unsure:
            return sure, len(sure)
        if not self._maybe:
            return (), 0
        return (sure, len(sure)) if sure else (unsure, 1)  # any number of them may match

    def _take(
        self,
        step: int,
        request: str,
        wish: DeviceWish,
        listed: Sequence[OfferedDevice],
        start: int,
        missing: int,
    ) -> bool:
        """Take the `missing` devices, from index `start` on, then those of the following requests."""
        if not missing:
            return self._request(step + 1)
        claim = self._steps[step][0]
        if len(self._result[claim]) + missing > MOST_DEVICES_OF_A_CLAIM:
            return False
        for index in range(start, len(listed)):
            if len(listed) - index < missing:
                return self._none_of(claim, wish, listed[index:])
            device = listed[index]
            device_taken = None
            if not self._is_used(claim, wish, device) and self._may_be(wish, device):
                device_taken = self._try(claim, request, wish, device)
            if device_taken is not None:
                if self._take(step, request, wish, listed, index + 1, missing - 1):
                    return True
                self._undo(claim, request, device, device_taken)
            if wish.takes_all and self._matches(wish, device):
                return False
        return False

    def _none_of(self, claim: int, wish: DeviceWish, rest: Sequence[OfferedDevice]) -> bool:
        """Return False unless a selector has failed on the remaining devices; note those that might match."""
        for device in rest:
            if not self._is_used(claim, wish, device) and self._matches(wish, device) is None:
                self.met_doubts = True
        return False

    def _is_used(self, claim: int, wish: DeviceWish, device: OfferedDevice) -> bool:
        """Return whether a device is taken; for a monitor, only if its own claim has it."""
        chosen = self._chosen_for.get(device.id, set())
        return claim in chosen if wish.is_monitor else device.id in self._whole or bool(chosen)

    def _may_be(self, wish: DeviceWish, device: OfferedDevice) -> bool:
        """Return whether a device matches, or with `maybe` might, and its taints are tolerated."""
        self._trials += 1
        if self._trials > _MOST_TRIALS:
            raise AllocationEndsError(_TOO_LONG)
        matches = self._matches(wish, device)
        self.met_doubts = self.met_doubts or matches is None
        return bool(matches or (self._maybe and matches is None)) and not _is_tainted(device, wish)

    def _try(self, claim: int, request: str, wish: DeviceWish, device: OfferedDevice) -> TakenDevice | None:
        """Take a device for a request where counters, capacity and constraints allow it."""
        share = _share(device, wish)
        if share is None or not _has_left(device, share, self._shares.get(device.id, {})):
            return None
        consumed = share if device.view.several else None
        counts = not (device.view.several and device.id in self._shares)
        if counts and not self._has_counters(device):
            return None
        if not self._meets(claim, request, device):
            if wish.takes_all and self._matches(wish, device):
                raise AllocationEndsError("a constraint does not allow all devices")
            return None
        if consumed is not None:
            _add(self._shares.setdefault(device.id, {}), consumed)
        else:
            self._chosen_for.setdefault(device.id, set()).add(claim)
        if counts:
            self._count(device, -1)
        device_taken = TakenDevice(device.id, consumed, wish.is_monitor)
        self._result[claim].append(device_taken)
        return device_taken

    def _undo(self, claim: int, request: str, device: OfferedDevice, device_taken: TakenDevice) -> None:
        self._result[claim].remove(device_taken)
        for chosen, constraint in zip(self._chosen[claim], self._specs[claim].constraints, strict=True):
            if _binds(constraint.requests, request):
                chosen.pop()
        last = True
        if device_taken.consumed is not None:
            shares = self._shares[device.id]
            _add(shares, {name: -amount for name, amount in device_taken.consumed.items()})
            last = not any(shares.values())
            if last:
                del self._shares[device.id]
        else:
            self._chosen_for[device.id].discard(claim)
        if last:
            self._count(device, 1)

    def _meets(self, claim: int, request: str, device: OfferedDevice) -> bool:
        """Return whether the claim's constraints allow a device, and record its values if all do."""
        values = []
        for number, constraint in enumerate(self._specs[claim].constraints):
            if not _binds(constraint.requests, request):
                continue
            value = device.attribute(constraint.attribute)
            chosen = self._chosen[claim][number]
            if value is None:
                if device.view.complete:
                    return False
                self._matches.doubts[f"{constraint.attribute} is not known"] = None
                if not self._maybe:
                    return False
            same = [
                type(recorded) is type(value) and bool(recorded == value)
                for recorded in chosen
                if recorded is not None and value is not None
            ]
            if any(same) if constraint.is_distinct else not all(same):
                return False
            values.append((number, value))
        for number, value in values:
            self._chosen[claim][number].append(value)
        return True

    def _has_counters(self, device: OfferedDevice) -> bool:
        """Return whether the shared counters suffice; in a pool with a negative counter, none do."""
        pools = (amounts for key, amounts in self._counters.items() if key[:2] == device.id[:2])
        if device.counters and any(amount < 0 for amounts in pools for amount in amounts.values()):
            return False
        return all(
            self._counters.get((*device.id[:2], name), {}).get(counter, Fraction(0)) >= amount
            for name, amounts in device.counters
            for counter, amount in amounts.items()
        )

    def _count(self, device: OfferedDevice, sign: int) -> None:
        for name, amounts in device.counters:
            remaining = self._counters.get((*device.id[:2], name), {})
            _add(remaining, {key: sign * amount for key, amount in amounts.items() if key in remaining})


def _binds(requests: frozenset[str], request: str) -> bool:
    """Return whether a constraint applies to a request, by its name or by that of the chosen subrequest."""
    return not requests or request in requests or request.partition("/")[0] in requests


def _shares_of(devices: NodeDevices) -> dict[DeviceId, dict[str, Fraction]]:
    """Return the capacity that claims consume of each shared device."""
    consumed: dict[DeviceId, dict[str, Fraction]] = {}
    for device in devices.taken_devices:
        if device.consumed is not None:
            _add(consumed.setdefault(device.device, {}), device.consumed)
    return consumed


def _has_left(device: OfferedDevice, share: Mapping[str, Fraction], used: Mapping[str, Fraction]) -> bool:
    """Return whether a device has a share left; one that cannot be shared always does."""
    return not device.view.several or all(
        used.get(name, 0) + amount <= device.capacity[name].value for name, amount in share.items()
    )


def _share(device: OfferedDevice, wish: DeviceWish) -> dict[str, Fraction] | None:
    """Return what a wish takes of each capacity of a device; None where the device cannot provide it."""
    if any(name not in device.capacity for name in wish.capacity):
        return None
    amounts: dict[str, Fraction] = {}
    for name, capacity in device.capacity.items():
        amount = capacity.consumed(wish.capacity.get(name))
        if amount is None or amount > capacity.value:
            return None
        amounts[name] = amount
    return amounts


def _add(total: dict[str, Fraction], more: Mapping[str, Fraction]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount


def _short(expression: str) -> str:
    text = " ".join(expression.split())
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
