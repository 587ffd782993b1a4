"""The change of a GPU's geometry that destroys the fewest GPU instances and spares those in use."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from numaforge.roles.mig.geometry import Collision, explain, place
from numaforge.roles.mig.instance import MigInstance
from numaforge.roles.mig.models import MigModel

if TYPE_CHECKING:
    from numaforge.roles.mig.request import WantedInstance


@dataclass(frozen=True)
class LiveInstance(MigInstance):
    """An existing GPU instance; `busy` names its users."""

    busy: str | None = None


class Difference(NamedTuple):
    """The instances that stay, those that are destroyed, and those that are created afterwards.

    Those in `recut` stay and get other compute instances. `instances` is the final geometry, in memory order.
    """

    keep: tuple[LiveInstance, ...] = ()
    destroy: tuple[LiveInstance, ...] = ()
    create: tuple[MigInstance, ...] = ()
    recut: tuple[LiveInstance, ...] = ()
    instances: tuple[MigInstance, ...] = ()

    @property
    def in_the_way(self) -> tuple[LiveInstance, ...]:
        """Return the instances in use that would change or go."""
        return tuple(one for one in (*self.destroy, *self.recut) if one.busy)


NOTHING = Difference()


def difference(
    model: MigModel, present: Sequence[LiveInstance], targets: Iterable[WantedInstance]
) -> Difference | Collision:
    """Return the change that disturbs the least.

    It minimizes, in this order: changed GPU instances in use, destroyed ones, and ones with other compute
    instances. Returns a Collision for what would not fit on an empty GPU either.
    """
    target = tuple(targets)
    profiles = [one.profile for one in target]
    if place(model, profiles) is None:
        return explain(model, profiles)
    ordered = sorted(present, key=lambda one: (one.start, one.profile_id))
    if any(one.start is not None for one in target):
        return _as_placed(ordered, target)
    best: Difference | None = None
    for keeping in range(len(ordered), -1, -1):
        ways = [*([best] if best else []), *_ways(model, ordered, target, keeping)]
        best = min(ways, key=lambda way: [*map(len, (way.in_the_way, way.destroy, way.recut))], default=None)
        if best and not best.in_the_way:
            return best
    if best is None:
        raise AssertionError("what fits an empty GPU has a way that keeps nothing")
    return best


def _ways(
    model: MigModel, present: Sequence[LiveInstance], target: Sequence[WantedInstance], keeping: int
) -> Iterator[Difference]:
    """Yield every way in which `keeping` wanted instances stay and the rest fits beside them."""
    profiles = {one.profile.id: one.profile for one in target}
    for keep in combinations(present, keeping):
        unplaced = Counter(one.profile.id for one in target)
        unplaced.subtract(one.profile_id for one in keep)
        if min(unplaced.values(), default=0) < 0:
            continue
        create = place(model, [profiles[number] for number in unplaced.elements()], keep)
        if create is not None:
            yield _with_compute_instances(present, keep, create, target)


def _as_placed(present: Sequence[LiveInstance], target: Sequence[WantedInstance]) -> Difference:
    placed = [one.profile.at(one.start) for one in target if one.start is not None]
    places, present_places = {one.place for one in placed}, {one.place for one in present}
    keep = [one for one in present if one.place in places]
    return _with_compute_instances(
        present, keep, [one for one in placed if one.place not in present_places], target
    )


def _with_compute_instances(
    present: Sequence[LiveInstance],
    keep: Sequence[LiveInstance],
    create: Sequence[MigInstance],
    target: Sequence[WantedInstance],
) -> Difference:
    """Assign compute instances: a GPU instance keeps its own where they are wanted, busy ones first.

    The others get the rest in the order of their places, so that the answer is stable.
    """
    profiles = {one.profile.id: one.profile for one in target}
    unassigned: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for one in target:
        unassigned[one.profile.id].append(one.compute_instances)
    assigned: dict[tuple[int, int], tuple[int, ...]] = {}
    for live in sorted(keep, key=lambda one: not one.busy):
        if live.compute_instances in unassigned[live.profile_id]:
            unassigned[live.profile_id].remove(live.compute_instances)
            assigned[live.place] = live.compute_instances
    places = sorted((one.place for one in (*keep, *create)), key=lambda place: place[1])
    for number, start in places:
        if (number, start) not in assigned:
            assigned[number, start] = unassigned[number].pop(0)
    recuttable = [one for one in keep if 0 not in one.compute_instances]
    instances = tuple(profiles[number].at(start, assigned[number, start]) for number, start in places)
    kept_places = {one.place for one in keep}
    return Difference(
        tuple(keep),
        tuple(one for one in present if one.place not in kept_places),
        tuple(one for one in instances if one.place not in kept_places),
        tuple(one for one in recuttable if one.compute_instances != assigned[one.place]),
        instances,
    )
