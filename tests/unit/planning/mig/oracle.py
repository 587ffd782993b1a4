"""Where GPU instances could lie, tried out without cleverness: an independent witness for tests."""

from collections import Counter
from itertools import product

from numaforge.roles.mig.geometry import profiles_of
from numaforge.roles.mig.instance import MigInstance
from numaforge.roles.mig.models import MigModel, MigProfile


def allowed(model: MigModel, instances: list[MigInstance]) -> bool:
    """Say whether a GPU could hold these GPU instances as they lie."""
    taken = [slot for one in instances for slot in range(one.start, one.start + one.size)]
    profiles = profiles_of(model, instances)
    return (
        len(set(taken)) == len(taken)
        and all(slot < model.memory_slices for slot in taken)
        and all(one.start in profile.starts for one, profile in zip(instances, profiles, strict=True))
        and sum(profile.slices for profile in profiles) <= model.compute_slices
        and all(count <= profile.limit for profile, count in Counter(profiles).items())
        and sum(profile.ofas for profile in profiles) <= 1
        and sum(profile.decoders for profile in profiles) <= (model.decoders or 99)
    )


def geometries(model: MigModel) -> set[tuple[MigProfile, ...]]:
    """Return every geometry that a GPU can hold, found by adding one GPU instance at a time."""
    everything = [profile.at(start) for profile in model.profiles for start in profile.starts]
    order = {profile: position for position, profile in enumerate(model.profiles)}
    found: set[tuple[MigProfile, ...]] = set()

    def add(instances: list[MigInstance], first: int) -> None:
        found.add(tuple(sorted(profiles_of(model, instances), key=order.__getitem__)))
        for position in range(first, len(everything)):
            larger = [*instances, everything[position]]
            if allowed(model, larger):
                add(larger, position + 1)

    add([], 0)
    return found


def completes(model: MigModel, instances: list[MigInstance], missing: list[MigProfile]) -> bool:
    """Say whether a GPU could hold these GPU instances as they lie, and the missing ones anywhere."""
    if not allowed(model, instances):
        return False
    if not missing:
        return True
    first, *rest = missing
    return any(completes(model, [*instances, first.at(start)], rest) for start in first.starts)


def fewest_destroyed(
    model: MigModel, there: list[tuple[MigInstance, bool]], wanted: list[MigProfile]
) -> int | None:
    """Return how few GPU instances a change destroys when those in use (True) stay; None without a way."""
    target = Counter(wanted)
    best = None
    for kept in product((True, False), repeat=len(there)):
        pairs = list(zip(there, kept, strict=True))
        stay = [placement for (placement, _), keep in pairs if keep]
        if any(busy and not keep for (_, busy), keep in pairs) or Counter(profiles_of(model, stay)) - target:
            continue
        missing = list((target - Counter(profiles_of(model, stay))).elements())
        if completes(model, stay, missing):
            destroyed = len(there) - len(stay)
            best = destroyed if best is None else min(best, destroyed)
    return best
