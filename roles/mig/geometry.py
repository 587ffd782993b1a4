"""Placement of GPU instances: an exact, deterministic search; why they do not fit, and what would.

The rules: placements do not overlap in memory, the compute slices and the media engines suffice, and each
profile has its limit (NVIDIA MIG User Guide, supported MIG profiles). NVML's own default placement may fail
for a geometry that fits; with explicit placements the order of creation does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from numaforge.roles.mig.instance import MigInstance
from numaforge.roles.mig.models import MigModel, MigProfile

_KEPT = 64  # cached answers: the GPUs of a machine, and often of a fleet, get the same request
_MOST = 3  # geometries of each kind of advice, and swaps in one geometry

Profiles = tuple[MigProfile, ...]


def place(
    model: MigModel, profiles: Iterable[MigProfile], fixed: Sequence[MigInstance] = ()
) -> tuple[MigInstance, ...] | None:
    """Return the wanted GPU instances, placed beside those that stay; None where they do not fit.

    Larger ones are placed first, each at the lowest start that leaves room for the others.
    """
    order = in_order(profiles)
    if any(broken_limits(model, [*order, *profiles_of(model, fixed)])):
        return None
    occupied = 0
    for one in fixed:
        occupied |= _mask(one.size, one.start)
    return _search(order, occupied, set())


def profiles_of(model: MigModel, instances: Sequence[MigInstance]) -> list[MigProfile]:
    """Return the model's profiles of GPU instances."""
    offered = {profile.id: profile for profile in model.profiles if instances}
    return [offered[one.profile_id] for one in instances]


def in_order(profiles: Iterable[MigProfile]) -> tuple[MigProfile, ...]:
    """Return profiles, the largest first: by memory, then compute slices, then NVML's id."""
    return tuple(sorted(profiles, key=lambda one: (-one.size, -one.slices, one.id)))


def counted_names(profiles: Iterable[MigProfile]) -> str:
    """Return a geometry in one line: `2 x 3g.40gb, 1g.10gb`."""
    counts = Counter(in_order(profiles))
    return ", ".join(f"{count} x {one.name}" if count > 1 else one.name for one, count in counts.items())


def broken_limits(model: MigModel, profiles: Sequence[MigProfile]) -> Iterator[str]:
    """Yield, in words, the limits of a model that a geometry exceeds whatever its placements."""
    for profile, count in Counter(profiles).items():
        if count > profile.limit:
            yield f"at most {profile.limit} of {profile.name} can exist at once, not {count}"
    decoding = [profile for profile in profiles if profile.decoders]
    decoders = sum(profile.decoders for profile in decoding)
    if decoders > model.decoders > 0:
        yield f"they need {decoders} video decoders, the GPU has {model.decoders}: {counted_names(decoding)}"
    with_ofa = [profile for profile in profiles if profile.ofas]
    if len(with_ofa) > 1:
        yield f"only one GPU instance can have the OFA, a media engine: {counted_names(with_ofa)}"
    slices = sum(profile.slices for profile in profiles)
    if slices > model.compute_slices:
        yield f"they need {slices} compute slices, the GPU has {model.compute_slices}"


def _search(
    order: Sequence[MigProfile], occupied: int, dead: set[tuple[int, int]]
) -> tuple[MigInstance, ...] | None:
    if not order:
        return ()
    state = (len(order), occupied)
    if state in dead:
        return None
    first, *rest = order
    for start in first.starts:
        mask = _mask(first.size, start)
        if not mask & occupied and (placements := _search(rest, occupied | mask, dead)) is not None:
            return (first.at(start), *placements)
    dead.add(state)
    return None


def _mask(size: int, start: int) -> int:
    return ((1 << size) - 1) << start


# ---- why they do not fit, and what would ----


class Collision(NamedTuple):
    """Why GPU instances do not fit.

    `profiles` is a minimal set that does not fit beside the instances that stay. `fewer` are the largest
    subsets of the wanted geometry that fit, `swapped` have a few GPU instances replaced by the next smaller.
    """

    profiles: Profiles
    reasons: tuple[str, ...]
    fewer: tuple[Profiles, ...]
    swapped: tuple[Profiles, ...]


def explain(model: MigModel, profiles: Iterable[MigProfile], fixed: Sequence[MigInstance] = ()) -> Collision:
    """Return why wanted GPU instances do not fit beside those that stay, and what would fit."""
    return _explained(model, in_order(profiles), tuple(fixed))


def forget() -> None:
    """Clear the cache of explanations, for benchmarks."""
    _explained.cache_clear()


@lru_cache(_KEPT)
def _explained(model: MigModel, order: Profiles, fixed: tuple[MigInstance, ...]) -> Collision:
    colliding = _colliding(model, order, fixed)
    return Collision(
        colliding,
        _reasons(model, colliding, fixed),
        _fewer(model, order, fixed),
        _swapped(model, order, fixed),
    )


def _colliding(model: MigModel, order: Profiles, fixed: Sequence[MigInstance]) -> Profiles:
    remaining = list(order)
    for profile in order:
        without = list(remaining)
        without.remove(profile)
        if place(model, without, fixed) is None:
            remaining = without
    return tuple(remaining)


def _reasons(model: MigModel, colliding: Profiles, fixed: Sequence[MigInstance]) -> tuple[str, ...]:
    limits = tuple(broken_limits(model, [*colliding, *profiles_of(model, fixed)]))
    if limits:
        return limits
    size = sum(profile.size for profile in colliding)
    if size > model.memory_slices:
        return (f"they need {size} memory slices, the GPU has {model.memory_slices}",)
    lie = "; ".join(_where(profile) for profile in dict.fromkeys(colliding))
    stay = "".join(f"; {one} stays" for one in fixed)
    return (f"they overlap in memory wherever they lie: {lie}{stay}",)


def _where(profile: MigProfile) -> str:
    starts = ", ".join(map(str, profile.starts))
    slices = "1 memory slice" if profile.size == 1 else f"{profile.size} memory slices"
    return f"{profile.name} takes {slices} from {starts}"


def _fewer(model: MigModel, order: Profiles, fixed: Sequence[MigInstance]) -> tuple[Profiles, ...]:
    fitting: list[Profiles] = [()]
    for profile, count in Counter(order).items():
        grown = []
        for chosen in fitting:
            for more in range(count + 1):
                larger = chosen + (profile,) * more
                if place(model, larger, fixed) is None:
                    break
                grown.append(larger)
        fitting = grown
    most = max(map(len, fitting), default=0)
    return _largest(chosen for chosen in fitting if chosen and len(chosen) == most)


def _swapped(model: MigModel, order: Profiles, fixed: Sequence[MigInstance]) -> tuple[Profiles, ...]:
    if len(order) > model.compute_slices:
        return ()
    tried = {order}
    for _ in range(_MOST):
        tried = {swapped for geometry in tried for swapped in _with_one_smaller(model, geometry)}
        fitting = [geometry for geometry in tried if place(model, geometry, fixed) is not None]
        if fitting:
            return _largest(fitting)
    return ()


def _with_one_smaller(model: MigModel, geometry: Profiles) -> Iterable[Profiles]:
    for profile in dict.fromkeys(geometry):
        smaller = [
            one
            for one in model.profiles
            if one.attributes == profile.attributes
            and one.size <= profile.size
            and (one.slices, one.size) < (profile.slices, profile.size)
        ]
        if smaller:
            remaining = list(geometry)
            remaining.remove(profile)
            yield in_order([*remaining, max(smaller, key=lambda one: (one.slices, one.size))])


def _largest(geometries: Iterable[Profiles]) -> tuple[Profiles, ...]:
    """Return the few geometries with the most compute slices and memory, in a stable order."""

    def key(geometry: Profiles) -> tuple[int, int, list[int]]:
        slices, size = (sum(values) for values in zip(*((p.slices, p.size) for p in geometry), strict=True))
        return -slices, -size, [profile.id for profile in geometry]

    return tuple(sorted(geometries, key=key)[:_MOST])
