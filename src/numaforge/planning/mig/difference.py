"""What changes on a GPU: the fewest GPU instances are destroyed, and never one that is in use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from numaforge.planning.mig.advice import Collision, explain
from numaforge.planning.mig.geometry import Placement, place
from numaforge.planning.mig.models import MigModel, MigProfile


@dataclass(frozen=True)
class GpuInstance:
    """A GPU instance that exists; `busy` says who uses it."""

    placement: Placement
    busy: str | None = None


@dataclass(frozen=True)
class Difference:
    """What stays, what is destroyed, and what is created after that."""

    keep: tuple[GpuInstance, ...]
    destroy: tuple[GpuInstance, ...]
    create: tuple[Placement, ...]


@dataclass(frozen=True)
class InTheWay:
    """GPU instances in use that would have to be destroyed; no way destroys fewer of those."""

    instances: tuple[GpuInstance, ...]


def difference(
    model: MigModel, there: Sequence[GpuInstance], wanted: Iterable[MigProfile]
) -> Difference | InTheWay | Collision:
    """Return the change with the fewest destroyed GPU instances.

    A GPU instance in use is never destroyed: where that cannot be avoided the answer is InTheWay. What does
    not fit even an empty GPU gives its Collision.
    """
    target = tuple(wanted)
    if place(model, target) is None:
        return explain(model, target)
    ordered = sorted(there, key=lambda one: (one.placement.start, one.placement.profile.id))
    best = min(_ways(model, ordered, target), key=_disturbance)
    busy = tuple(one for one in best.destroy if one.busy)
    return InTheWay(busy) if busy else best


def _disturbance(way: Difference) -> tuple[int, int]:
    return sum(1 for one in way.destroy if one.busy), len(way.destroy)


def _ways(
    model: MigModel, there: Sequence[GpuInstance], target: Sequence[MigProfile]
) -> Iterator[Difference]:
    """Yield every way in which what stays is wanted and the rest fits beside it; one keeps nothing."""
    for count in range(len(there), -1, -1):
        for keep in combinations(there, count):
            left = Counter(target)
            left.subtract(one.placement.profile for one in keep)
            if min(left.values(), default=0) < 0:
                continue
            create = place(model, left.elements(), [one.placement for one in keep])
            if create is not None:
                destroy = tuple(one for one in there if one not in keep)
                yield Difference(keep, destroy, create)
