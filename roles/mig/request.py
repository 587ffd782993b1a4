"""The request for one GPU: counts of MIG devices by profile name, or starts of GPU instances."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from numaforge.lib.errors import NumaforgeError, PlanError
from numaforge.roles.mig.geometry import broken_limits, place
from numaforge.roles.mig.models import MigModel, MigProfile, profile_of
from numaforge.roles.mig.names import MOST_DEVICES, parse_profile_name


class WantedInstance(NamedTuple):
    """A GPU instance with the compute slices of its compute instances, largest first; `start`: where."""

    profile: MigProfile
    compute_instances: tuple[int, ...]
    start: int | None = None


def parse_counts(texts: Iterable[str]) -> dict[str, int]:
    """Return counts by profile name from words such as `3g.40gb` and `1g.10gb=2`; at most 64."""
    counts: dict[str, int] = defaultdict(int)
    for text in texts:
        name, sign, number = text.partition("=")
        parse_profile_name(name)
        if sign and not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= MOST_DEVICES):
            raise NumaforgeError(f"{text!r} has no count; write for example {name}=2, at most {MOST_DEVICES}")
        counts[name] += int(number) if sign else 1
    return dict(counts)


def wanted_instances(model: MigModel, counts: Mapping[str, int | str]) -> tuple[WantedInstance, ...]:
    """Return the GPU instances that hold these counts of MIG devices.

    Compute instances of one profile, such as `1c.3g.40gb`, share as few GPU instances as possible. One count
    may be "all": as many as fit beside the others. Raises PlanError for a profile or a compute instance that
    the model does not have, and for more devices than any GPU holds.
    """
    exact = {name: count for name, count in counts.items() if isinstance(count, int)}
    if sum(exact.values()) > MOST_DEVICES:
        raise PlanError(f"{sum(exact.values())} MIG devices are more than any GPU holds")
    targets = _counted(model, exact)
    filled = [name for name in counts if name not in exact]
    if len(filled) > 1:
        raise PlanError(f"{' and '.join(filled)} cannot both be all", remedy="give one of them a number")
    return targets + _filling(model, filled[0], targets) if filled else targets


def placed_instances(model: MigModel, placements: Mapping[str, Sequence[int]]) -> tuple[WantedInstance, ...]:
    """Return the GPU instances that begin at these memory slices, given by profile name.

    Raises PlanError for a start that the profile does not have, for overlapping GPU instances, and for those
    beyond the model's limits.
    """
    targets = []
    for name, starts in placements.items():
        profile = profile_of(model, parse_profile_name(name, short=True))
        for start in starts:
            if start not in profile.starts:
                accepted = ", ".join(map(str, profile.starts))
                raise PlanError(f"no {profile.name} starts at {start}", remedy=f"choose among {accepted}")
            targets.append(WantedInstance(profile, (profile.slices,), start))
    for one, second in combinations(targets, 2):
        if _memory_slices(one) & _memory_slices(second):
            raise PlanError(
                f"{one.profile.name} at {one.start} and {second.profile.name} at {second.start} overlap",
                remedy="`numaforge mig explain` shows how many memory slices each profile takes",
            )
    for broken in broken_limits(model, [one.profile for one in targets]):
        raise PlanError(broken)
    return tuple(targets)


def _memory_slices(one: WantedInstance) -> set[int]:
    begin = one.start or 0
    return set(range(begin, begin + one.profile.size))


def _filling(
    model: MigModel, name: str, neighbours: tuple[WantedInstance, ...]
) -> tuple[WantedInstance, ...]:
    """Return as many MIG devices of a profile as fit beside others, but at least one."""
    fitting: tuple[WantedInstance, ...] = ()
    for count in range(1, MOST_DEVICES):
        more = _counted(model, {name: count})
        if place(model, [one.profile for one in (*neighbours, *more)]) is None:
            break
        fitting = more
    return fitting or _counted(model, {name: 1})


def _counted(model: MigModel, counts: Mapping[str, int]) -> tuple[WantedInstance, ...]:
    parts: dict[MigProfile, list[int]] = defaultdict(list)
    for text, count in counts.items():
        name = parse_profile_name(text, short=True)
        profile = profile_of(model, name)
        parts[profile] += [_compute_slices(model, text, name.compute) or profile.slices] * count
    return tuple(
        WantedInstance(profile, instance)
        for profile, sizes in parts.items()
        for instance in _packed(sizes, profile.slices)
    )


def _compute_slices(model: MigModel, text: str, compute: int | None) -> int | None:
    """Return the size of a compute instance, which must be the size of some GPU instance of the model."""
    sizes = sorted({profile.slices for profile in model.profiles})
    if compute is not None and compute not in sizes:
        raise PlanError(
            f"{text}: no compute instance has {compute} compute slices",
            remedy=f"choose among {', '.join(map(str, sizes))}",
        )
    return compute


def _packed(sizes: Iterable[int], slices: int) -> list[tuple[int, ...]]:
    """Return compute instances by GPU instance, packed largest first into the first one with room."""
    packed: list[list[int]] = []
    for size in sorted(sizes, reverse=True):
        room = next((one for one in packed if sum(one) + size <= slices), None)
        if room is None:
            packed.append([size])
        else:
            room.append(size)
    return [tuple(one) for one in packed]
