"""What changes on a GPU: the fewest GPU instances are destroyed, and those in use stay."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from numaforge.roles.mig.advice import Collision, explain
from numaforge.roles.mig.geometry import Placement, place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numaforge.roles.mig.models import MigModel, MigProfile
    from numaforge.roles.mig.request import WantedInstance


@dataclass(frozen=True)
class LiveInstance:
    """A GPU instance that exists; `busy` says who uses it.

    `compute_instances` are the compute slices of each, largest first; None where they are not known.
    """

    placement: Placement
    busy: str | None = None
    compute_instances: tuple[int, ...] | None = None


@dataclass(frozen=True)
class PlannedInstance:
    """A GPU instance that is to be, with the compute slices of each of its compute instances."""

    placement: Placement
    compute_instances: tuple[int, ...]


@dataclass(frozen=True)
class Difference:
    """What stays, what is destroyed, and what is created after that.

    Those of `recut` stay, and get other compute instances. `instances` are all that there are in the end, as
    they lie in memory.
    """

    keep: tuple[LiveInstance, ...]
    destroy: tuple[LiveInstance, ...]
    create: tuple[Placement, ...]
    recut: tuple[LiveInstance, ...]
    instances: tuple[PlannedInstance, ...]

    @property
    def in_the_way(self) -> tuple[LiveInstance, ...]:
        """Return those in use that would not stay as they are."""
        return tuple(one for one in (*self.destroy, *self.recut) if one.busy)


def difference(
    model: MigModel, there: Sequence[LiveInstance], wanted: Iterable[WantedInstance]
) -> Difference | Collision:
    """Return the change that disturbs the least.

    That is, in this order: as few GPU instances in use as possible, as few destroyed, as few with other
    compute instances. What does not fit even an empty GPU gives its Collision.
    """
    target = tuple(wanted)
    profiles = [one.profile for one in target]
    if place(model, profiles) is None:
        return explain(model, profiles)
    ordered = sorted(there, key=lambda one: (one.placement.start, one.placement.profile.id))
    if any(one.start is not None for one in target):
        return _as_placed(ordered, target)
    best: Difference | None = None
    for keeping in range(len(ordered), -1, -1):
        ways = [*([best] if best else []), *_ways(model, ordered, target, keeping)]
        best = min(ways, key=_disturbance, default=None)
        if best and not best.in_the_way:
            return best
    if best is None:
        raise AssertionError("what fits an empty GPU has a way that keeps nothing")
    return best


def _disturbance(way: Difference) -> tuple[int, int, int]:
    return len(way.in_the_way), len(way.destroy), len(way.recut)


def _ways(
    model: MigModel, there: Sequence[LiveInstance], target: Sequence[WantedInstance], keeping: int
) -> Iterator[Difference]:
    """Yield every way in which so many stay, all of them wanted, and the rest fits beside them."""
    for keep in combinations(there, keeping):
        left = Counter(one.profile for one in target)
        left.subtract(one.placement.profile for one in keep)
        if min(left.values(), default=0) < 0:
            continue
        create = place(model, left.elements(), [one.placement for one in keep])
        if create is not None:
            yield _with_compute_instances(keep, [one for one in there if one not in keep], create, target)


def _as_placed(there: Sequence[LiveInstance], target: Sequence[WantedInstance]) -> Difference:
    places = [Placement(one.profile, one.start) for one in target if one.start is not None]
    keep = [one for one in there if one.placement in places]
    kept = [one.placement for one in keep]
    create = tuple(one for one in places if one not in kept)
    return _with_compute_instances(keep, [one for one in there if one not in keep], create, target)


def _with_compute_instances(
    keep: Sequence[LiveInstance],
    destroy: Sequence[LiveInstance],
    create: tuple[Placement, ...],
    target: Sequence[WantedInstance],
) -> Difference:
    """Give each GPU instance its compute instances: those that it has where they are wanted, busy ones first.

    All others get what is left in the order of their places, so that the same answer is found again.
    """
    left: dict[MigProfile, list[tuple[int, ...]]] = defaultdict(list)
    for one in target:
        left[one.profile].append(one.compute_instances)
    given: dict[Placement, tuple[int, ...]] = {}
    for live in sorted(keep, key=lambda one: not one.busy):
        has = live.compute_instances
        if has is not None and has in left[live.placement.profile]:
            left[live.placement.profile].remove(has)
            given[live.placement] = has
    places = sorted([*(one.placement for one in keep), *create], key=lambda one: one.start)
    for placement in places:
        if placement not in given:
            given[placement] = left[placement.profile].pop(0)
    recut = tuple(one for one in keep if one.compute_instances not in (None, given[one.placement]))
    instances = tuple(PlannedInstance(placement, given[placement]) for placement in places)
    return Difference(tuple(keep), tuple(destroy), create, recut, instances)
