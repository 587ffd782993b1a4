"""What is asked of one GPU: counts of MIG devices by profile name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from numaforge.errors import NumaforgeError, PlanError
from numaforge.planning.mig.models import MigModel, MigProfile, profile_of
from numaforge.planning.mig.names import parse_profile_name

MOST_DEVICES = 64  # more than any GPU holds


@dataclass(frozen=True)
class WantedInstance:
    """A GPU instance with the compute slices of each of its compute instances."""

    profile: MigProfile
    compute_instances: tuple[int, ...]


def parse_counts(texts: Iterable[str]) -> dict[str, int]:
    """Return counts by profile name for words such as `3g.40gb` and `1g.10gb=2`.

    Raises NumaforgeError for what is no name, and for a count that is not from 1 to 64.
    """
    counts: dict[str, int] = defaultdict(int)
    for text in texts:
        name, sign, number = text.partition("=")
        parse_profile_name(name)
        if sign and not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= MOST_DEVICES):
            raise NumaforgeError(f"{text!r} has no count; write for example {name}=2, at most {MOST_DEVICES}")
        counts[name] += int(number) if sign else 1
    return dict(counts)


def wanted_instances(model: MigModel, counts: Mapping[str, int]) -> tuple[WantedInstance, ...]:
    """Return the GPU instances that hold the MIG devices of these counts.

    Compute instances of one profile, such as `1c.3g.40gb`, share as few GPU instances as hold them. Raises
    PlanError for a profile or a compute instance that the model does not have, and for more devices than any
    GPU holds.
    """
    if sum(counts.values()) > MOST_DEVICES:
        raise PlanError(f"{sum(counts.values())} MIG devices are more than any GPU holds")
    parts: dict[MigProfile, list[int]] = defaultdict(list)
    for text, count in counts.items():
        name = parse_profile_name(text)
        profile = profile_of(model, name)
        parts[profile] += [_compute_slices(model, text, name.compute) or profile.slices] * count
    return tuple(
        WantedInstance(profile, instance)
        for profile, sizes in parts.items()
        for instance in _packed(sizes, profile.slices)
    )


def _compute_slices(model: MigModel, text: str, compute: int | None) -> int | None:
    """Return the size of a compute instance; there are those that GPU instances have, too."""
    sizes = sorted({profile.slices for profile in model.profiles})
    if compute is not None and compute not in sizes:
        raise PlanError(
            f"{text}: no compute instance has {compute} compute slices",
            remedy=f"choose among {', '.join(map(str, sizes))}",
        )
    return compute


def _packed(sizes: Iterable[int], slices: int) -> list[tuple[int, ...]]:
    """Return compute instances by GPU instance: the largest first, each in the first one with room."""
    packed: list[list[int]] = []
    for size in sorted(sizes, reverse=True):
        room = next((one for one in packed if sum(one) + size <= slices), None)
        if room is None:
            packed.append([size])
        else:
            room.append(size)
    return [tuple(one) for one in packed]
