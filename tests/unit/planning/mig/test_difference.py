"""A change destroys as few GPU instances as can be, and none that is in use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.planning.mig.advice import Collision
from numaforge.planning.mig.difference import Difference, GpuInstance, InTheWay, difference
from numaforge.planning.mig.geometry import Placement
from numaforge.planning.mig.models import MigModel, model_named, profile_of
from tests.unit.planning.mig.oracle import allowed, fewest_destroyed

A100 = model_named("a100-40gb")
SMALL = [model_named("a30-24gb"), A100, model_named("rtx-pro-6000-96gb")]


def there(*texts: str) -> list[GpuInstance]:
    """Return GPU instances written as `1g.5gb@0`, or `1g.5gb@0!` for one in use."""
    found = []
    for text in texts:
        name, start = text.rstrip("!").split("@")
        placement = Placement(profile_of(A100, name), int(start))
        found.append(GpuInstance(placement, "a process" if text.endswith("!") else None))
    return found


def written(placements) -> str:
    return ", ".join(f"{one.profile.name}@{one.start}" for one in placements)


@pytest.mark.parametrize(
    ("present", "wanted", "keep", "destroy", "create"),
    [
        pytest.param(["3g.20gb@4"], ["3g.20gb"], "3g.20gb@4", "", "", id="nothing changes"),
        pytest.param([], ["3g.20gb"], "", "", "3g.20gb@0", id="an empty GPU"),
        pytest.param(["3g.20gb@0"], [], "", "3g.20gb@0", "", id="none is wanted"),
        pytest.param(
            ["1g.5gb@5"], ["1g.5gb", "3g.20gb"], "1g.5gb@5", "", "3g.20gb@0", id="the rest lies around it"
        ),
        pytest.param(
            ["1g.5gb@0", "1g.5gb@6"],
            ["4g.20gb", "1g.5gb"],
            "1g.5gb@6",
            "1g.5gb@0",
            "4g.20gb@0",
            id="of two alike, the one in the way goes",
        ),
        pytest.param(
            ["1g.5gb@0", "1g.5gb@1!"], ["1g.5gb"], "1g.5gb@1", "1g.5gb@0", "", id="of two, that in use stays"
        ),
    ],
)
def test_a_change(present, wanted, keep, destroy, create):
    change = difference(A100, there(*present), [profile_of(A100, name) for name in wanted])
    assert isinstance(change, Difference)
    assert written(one.placement for one in change.keep) == keep
    assert written(one.placement for one in change.destroy) == destroy
    assert written(change.create) == create


@pytest.mark.parametrize(
    ("present", "wanted", "named"),
    [
        pytest.param(["2g.10gb@0!"], ["1g.5gb"], "2g.10gb@0", id="it is not wanted"),
        pytest.param(["1g.5gb@0!", "1g.5gb@5"], ["4g.20gb", "1g.5gb"], "1g.5gb@0", id="it lies in the way"),
        pytest.param(
            ["1g.5gb@0!", "1g.5gb@5!"],
            ["4g.20gb", "1g.5gb"],
            "1g.5gb@0",
            id="only those in the way are named",
        ),
    ],
)
def test_what_is_in_use_is_never_destroyed(present, wanted, named):
    answer = difference(A100, there(*present), [profile_of(A100, name) for name in wanted])
    assert isinstance(answer, InTheWay)
    assert written(one.placement for one in answer.instances) == named
    assert all(one.busy == "a process" for one in answer.instances)


def test_what_does_not_fit_an_empty_gpu_is_a_collision():
    wanted = [profile_of(A100, name) for name in ("3g.20gb", "3g.20gb", "1g.5gb")]
    assert isinstance(difference(A100, there("1g.5gb@0!"), wanted), Collision)


@st.composite
def cases(draw) -> tuple[MigModel, list[GpuInstance], list]:
    model = draw(st.sampled_from(SMALL))
    places = [Placement(profile, start) for profile in model.profiles for start in profile.starts]
    present: list[Placement] = []
    for placement in draw(st.lists(st.sampled_from(places), max_size=5)):
        if allowed(model, [*present, placement]):
            present.append(placement)
    instances = [GpuInstance(one, draw(st.sampled_from([None, None, "a process"]))) for one in present]
    kept = [one.profile for one in present if draw(st.booleans())]
    return model, instances, kept + draw(st.lists(st.sampled_from(model.profiles), max_size=2))


@given(cases())
def test_no_change_destroys_fewer(case):
    model, present, wanted = case
    answer = difference(model, present, wanted)
    known = [(one.placement, one.busy is not None) for one in present]
    fewest = fewest_destroyed(model, known, wanted)
    if not isinstance(answer, Difference):
        assert fewest is None
        return
    assert len(answer.destroy) == fewest
    assert not any(one.busy for one in answer.destroy)
    assert set(answer.keep) | set(answer.destroy) == set(present)
    after = [*(one.placement for one in answer.keep), *answer.create]
    assert allowed(model, after)
    assert sorted(one.profile.name for one in after) == sorted(profile.name for profile in wanted)
