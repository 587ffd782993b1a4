"""Placement of GPU instances: an exact, deterministic search.

The rules: placements do not overlap in memory, the compute slices and the media engines suffice, and each
profile has its limit (NVIDIA MIG User Guide, supported MIG profiles). NVML's own default placement may fail
for a geometry that fits; with explicit placements the order of creation does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numaforge.roles.mig.instance import MigInstance
    from numaforge.roles.mig.models import MigModel, MigProfile


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
