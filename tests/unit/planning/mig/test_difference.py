"""A change destroys as few GPU instances as can be, and none that is in use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.roles.mig.advice import Collision
from numaforge.roles.mig.difference import Difference, LiveInstance, difference
from numaforge.roles.mig.geometry import profiles_of
from numaforge.roles.mig.instance import MigInstance
from numaforge.roles.mig.models import MigModel, MigProfile, model_named, profile_of
from numaforge.roles.mig.request import WantedInstance, parse_counts, wanted_instances
from tests.unit.planning.mig.oracle import allowed, fewest_destroyed

A100 = model_named("a100-40gb")
SMALL = [model_named("a30-24gb"), A100, model_named("rtx-pro-6000-96gb")]


def live(instance: MigInstance, busy: str | None) -> LiveInstance:
    return LiveInstance(**vars(instance), busy=busy)


def there(*texts: str) -> list[LiveInstance]:
    """Return GPU instances written as `1g.5gb@0`, `1g.5gb@0!` in use, or `3g.20gb@0:2+1` with sizes."""
    found = []
    for text in texts:
        name, place = text.rstrip("!").split("@")
        start, _, sizes = place.partition(":")
        compute = tuple(map(int, sizes.split("+"))) if sizes else (0,)
        instance = profile_of(A100, name).at(int(start), compute)
        found.append(live(instance, "a process" if text.endswith("!") else None))
    return found


def whole(*profiles: MigProfile) -> list[WantedInstance]:
    return [WantedInstance(profile, (profile.slices,)) for profile in profiles]


def written(placements) -> str:
    return ", ".join(f"{one.profile}@{one.start}" for one in placements)


CHANGES = {
    "nothing changes": (["3g.20gb@4"], ["3g.20gb"], "3g.20gb@4", "", ""),
    "an empty GPU": ([], ["3g.20gb"], "", "", "3g.20gb@0"),
    "none is wanted": (["3g.20gb@0"], [], "", "3g.20gb@0", ""),
    "the rest lies around it": (["1g.5gb@5"], ["1g.5gb", "3g.20gb"], "1g.5gb@5", "", "3g.20gb@0"),
    "of two alike, the one in the way goes": (
        ["1g.5gb@0", "1g.5gb@6"],
        ["4g.20gb", "1g.5gb"],
        "1g.5gb@6",
        "1g.5gb@0",
        "4g.20gb@0",
    ),
    "of two, that in use stays": (["1g.5gb@0", "1g.5gb@1!"], ["1g.5gb"], "1g.5gb@1", "1g.5gb@0", ""),
}


@pytest.mark.parametrize(("present", "wanted", "keep", "destroy", "create"), CHANGES.values(), ids=CHANGES)
def test_difference_keeps_destroys_and_creates_instances(present, wanted, keep, destroy, create):
    change = difference(A100, there(*present), whole(*(profile_of(A100, name) for name in wanted)))
    assert isinstance(change, Difference)
    assert written(change.keep) == keep
    assert written(change.destroy) == destroy
    assert written(change.create) == create


IN_THE_WAY = {
    "it is not wanted": (["2g.10gb@0!"], ["1g.5gb"], "2g.10gb@0"),
    "it lies in the way": (["1g.5gb@0!", "1g.5gb@5"], ["4g.20gb", "1g.5gb"], "1g.5gb@0"),
    "only those in the way are named": (["1g.5gb@0!", "1g.5gb@5!"], ["4g.20gb", "1g.5gb"], "1g.5gb@0"),
}


@pytest.mark.parametrize(("present", "wanted", "named"), IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_busy_instance_in_the_way_is_named(present, wanted, named):
    answer = difference(A100, there(*present), whole(*(profile_of(A100, name) for name in wanted)))
    assert isinstance(answer, Difference)
    assert written(answer.in_the_way) == named
    assert all(one.busy == "a process" for one in answer.in_the_way)


def test_wish_too_large_for_an_empty_gpu_is_a_collision():
    wanted = whole(*(profile_of(A100, name) for name in ("3g.20gb", "3g.20gb", "1g.5gb")))
    assert isinstance(difference(A100, there("1g.5gb@0!"), wanted), Collision)


RECUTS = {
    "what is there as it is wanted stays so": (
        ["3g.20gb@0:1+1+1", "3g.20gb@4:3"],
        "3g.20gb 1c.3g.20gb=3",
        "0:1+1+1 4:3",
        "",
    ),
    "the other is recut": (["3g.20gb@0:1+1+1", "3g.20gb@4:3"], "3g.20gb=2", "0:3 4:3", "3g.20gb@0"),
    "that in use stays as it is": (
        ["3g.20gb@0:3", "3g.20gb@4:3!"],
        "3g.20gb 1c.3g.20gb=3",
        "0:1+1+1 4:3",
        "3g.20gb@0",
    ),
    "what is not known is not claimed": (["3g.20gb@4"], "1c.3g.20gb=3", "4:1+1+1", ""),
}


@pytest.mark.parametrize(("present", "wanted", "in_the_end", "recut"), RECUTS.values(), ids=RECUTS)
def test_only_compute_instances_are_recreated_where_gpu_instances_fit(present, wanted, in_the_end, recut):
    change = difference(A100, there(*present), wanted_instances(A100, parse_counts(wanted.split())))
    assert isinstance(change, Difference)
    sizes = [f"{one.start}:{'+'.join(map(str, one.compute_instances))}" for one in change.instances]
    assert " ".join(sizes) == in_the_end
    assert written(change.recut) == recut
    assert (change.destroy, change.create) == ((), ())


def test_instance_with_fitting_compute_instances_is_kept():
    present = there("3g.20gb@0:3", "3g.20gb@4:1+1+1")
    change = difference(A100, present, wanted_instances(A100, {"1c.3g.20gb": 3}))
    assert isinstance(change, Difference)
    assert (written(change.keep), change.recut) == ("3g.20gb@4", ())


def test_recut_of_a_busy_instance_is_in_the_way():
    change = difference(A100, there("3g.20gb@0:3!"), wanted_instances(A100, {"1c.3g.20gb": 3}))
    assert isinstance(change, Difference)
    assert written(change.in_the_way) == "3g.20gb@0"


@st.composite
def cases(draw) -> tuple[MigModel, list[LiveInstance], list]:
    model = draw(st.sampled_from(SMALL))
    places = [profile.at(start, (0,)) for profile in model.profiles for start in profile.starts]
    present: list[MigInstance] = []
    for placement in draw(st.lists(st.sampled_from(places), max_size=5)):
        if allowed(model, [*present, placement]):
            present.append(placement)
    instances = [live(one, draw(st.sampled_from([None, None, "a process"]))) for one in present]
    kept = [profile for profile in profiles_of(model, present) if draw(st.booleans())]
    return model, instances, kept + draw(st.lists(st.sampled_from(model.profiles), max_size=2))


@given(cases())
def test_no_other_change_destroys_fewer_instances(case):
    model, present, wanted = case
    answer = difference(model, present, whole(*wanted))
    known = [(one, one.busy is not None) for one in present]
    fewest = fewest_destroyed(model, known, wanted)
    if not isinstance(answer, Difference) or answer.in_the_way:
        assert fewest is None
        return
    assert len(answer.destroy) == fewest
    assert not any(one.busy for one in answer.destroy)
    assert set(answer.keep) | set(answer.destroy) == set(present)
    after = [*answer.keep, *answer.create]
    assert allowed(model, after)
    assert sorted(one.profile for one in after) == sorted(profile.name for profile in wanted)
