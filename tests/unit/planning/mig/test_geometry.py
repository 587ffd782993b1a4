"""Which geometries fit, where they lie, and what is said of those that do not."""

from collections.abc import Iterator
from itertools import combinations, permutations, product

import pytest

from numaforge.roles.mig.geometry import counted_names, explain, place
from numaforge.roles.mig.instance import MigInstance
from numaforge.roles.mig.models import MigModel, MigProfile, model_named, profile_of
from numaforge.roles.mig.request import parse_counts, wanted_instances
from tests.fixtures.tables import cases, tables
from tests.unit.planning.mig.oracle import allowed, geometries

CASES = tables(__file__)

ONE_OF_EACH_FAMILY = [model_named(key) for key in ("h100-80gb", "a30-24gb", "rtx-pro-6000-96gb")]


def profiles(key: str, text: str) -> list[MigProfile]:
    return [one.profile for one in wanted_instances(model_named(key), parse_counts(text.split()))]


def lies(key: str, text: str, fixed: tuple[MigInstance, ...] = ()) -> str | None:
    placed = place(model_named(key), profiles(key, text), fixed)
    return None if placed is None else ", ".join(f"{one.profile}@{one.start}" for one in placed)


@cases("key, wanted, expected", CASES["geometries"])
def test_geometry_is_placed(key, wanted, expected):
    assert lies(key, wanted) == expected


def test_profile_order_does_not_change_the_placement():
    wishes = permutations(profiles("a100-40gb", "1g.5gb=2 2g.10gb 3g.20gb"))
    assert len({place(model_named("a100-40gb"), wish) for wish in wishes}) == 1


def test_kept_instance_is_an_obstacle():
    model = model_named("a100-40gb")
    stays = (profile_of(model, "1g.5gb").at(1),)
    assert lies("a100-40gb", "3g.20gb", stays) == "3g.20gb@4"
    assert lies("a100-40gb", "4g.20gb", stays) is None
    assert lies("a100-40gb", "1g.5gb=7", stays) is None


def test_base_profiles_of_the_seven_slice_family_have_77_geometries():
    model = model_named("h100-80gb")
    base = [profile for profile in model.profiles if not profile.attributes]
    wishes = product(*(range(profile.limit + 1) for profile in base))
    possible = [
        wish
        for wish in wishes
        if 0 < sum(n * profile.slices for n, profile in zip(wish, base, strict=True)) <= model.compute_slices
    ]
    fitting = [
        wish
        for wish in possible
        if place(model, [p for n, p in zip(wish, base, strict=True) for _ in range(n)]) is not None
    ]
    assert (len(possible), len(fitting)) == (102, 77)


def test_media_engines_leave_115_geometries_of_an_rtx_pro_6000():
    """With one flag for all media engines there were 150."""
    assert len(geometries(model_named("rtx-pro-6000-96gb"))) == 115


def multisets(model: MigModel) -> Iterator[tuple[MigProfile, ...]]:
    """Yield every multiset up to the limits of each profile, one more, and one slice more than there are."""

    def extend(
        chosen: tuple[MigProfile, ...], rest: tuple[MigProfile, ...]
    ) -> Iterator[tuple[MigProfile, ...]]:
        if not rest:
            yield chosen
            return
        for count in range(rest[0].limit + 2):
            more = chosen + (rest[0],) * count
            if sum(profile.slices for profile in more) > model.compute_slices + 1:
                return
            yield from extend(more, rest[1:])

    yield from extend((), model.profiles)


@pytest.mark.parametrize("model", ONE_OF_EACH_FAMILY, ids=lambda model: model.key)
def test_placement_agrees_with_exhaustive_search(model):
    legal = geometries(model)
    for wanted in multisets(model):
        placed = place(model, wanted)
        assert (placed is not None) == (wanted in legal), counted_names(wanted)
        if placed is not None:
            assert allowed(model, list(placed))
            assert sorted(p.profile for p in placed) == sorted(p.name for p in wanted)


# ---- what does not fit ----


@pytest.mark.parametrize("model", ONE_OF_EACH_FAMILY[:2], ids=lambda model: model.key)
def test_collision_is_minimal_and_its_advice_fits(model):
    for wanted in multisets(model):
        if place(model, wanted) is not None:
            continue
        collision = explain(model, wanted)
        colliding = collision.profiles
        assert place(model, colliding) is None
        assert all(place(model, fewer) is not None for fewer in combinations(colliding, len(colliding) - 1))
        assert collision.reasons
        assert all(place(model, one) is not None for one in (*collision.fewer, *collision.swapped))


@cases("key, wanted, colliding, reason", CASES["collisions"])
def test_reason_names_the_colliding_profiles(key, wanted, colliding, reason):
    collision = explain(model_named(key), profiles(key, wanted))
    assert counted_names(collision.profiles) == colliding
    assert reason in collision.reasons[0]


def test_reason_names_the_kept_instance():
    model = model_named("a100-40gb")
    stays = (profile_of(model, "1g.5gb").at(2),)
    collision = explain(model, profiles("a100-40gb", "4g.20gb"), stays)
    assert collision.reasons == (
        "they overlap in memory wherever they lie: 4g.20gb takes 4 memory slices from 0; 1g.5gb at 2:1 stays",
    )


def test_advice_lists_fewer_or_smaller_instances_that_fit():
    collision = explain(model_named("a100-40gb"), profiles("a100-40gb", "3g.20gb=2 1g.5gb"))
    assert [*map(counted_names, collision.fewer)] == ["2 x 3g.20gb", "3g.20gb, 1g.5gb"]
    assert [*map(counted_names, collision.swapped)] == ["3g.20gb, 2g.10gb, 1g.5gb"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param("1c.3g.20gb=3", [(1, 1, 1)], id="three share one GPU instance"),
        pytest.param("1c.3g.20gb=4", [(1, 1, 1), (1,)], id="the fourth needs another"),
        pytest.param("2c.3g.20gb 1c.3g.20gb=2", [(2, 1), (1,)], id="the largest first"),
        pytest.param("3g.20gb", [(3,)], id="a whole one by default"),
    ],
)
def test_compute_instances_fill_the_fewest_gpu_instances(wanted, expected):
    found = wanted_instances(model_named("a100-40gb"), parse_counts(wanted.split()))
    assert [one.compute_instances for one in found] == expected
