"""A change destroys as few GPU instances as can be, and none that is in use."""

from numaforge.roles.mig.difference import Difference, LiveInstance, difference
from numaforge.roles.mig.geometry import Collision
from numaforge.roles.mig.models import model_named, profile_of
from numaforge.roles.mig.request import parse_counts, wanted_instances
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

A100 = model_named("a100-40gb")


def there(*texts: str) -> list[LiveInstance]:
    """Return GPU instances written as `1g.5gb@0`, `1g.5gb@0!` in use, or `3g.20gb@0:2+1` with sizes."""
    found = []
    for text in texts:
        name, place = text.rstrip("!").split("@")
        start, _, sizes = place.partition(":")
        compute = tuple(map(int, sizes.split("+"))) if sizes else (0,)
        instance = profile_of(A100, name).at(int(start), compute)
        found.append(LiveInstance(**vars(instance), busy="a process" if text.endswith("!") else None))
    return found


def changed(present: list[str], wanted: str) -> Difference:
    change = difference(A100, there(*present), wanted_instances(A100, parse_counts(wanted.split())))
    assert isinstance(change, Difference)
    return change


def test_wish_too_large_for_an_empty_gpu_is_a_collision():
    wanted = wanted_instances(A100, parse_counts(["3g.20gb=2", "1g.5gb"]))
    assert isinstance(difference(A100, there("1g.5gb@0!"), wanted), Collision)


def written(placements) -> str:
    return ", ".join(f"{one.profile}@{one.start}" for one in placements)


@cases("present, wanted, keep, destroy, create", CASES["changes"])
def test_difference_keeps_destroys_and_creates_instances(present, wanted, keep, destroy, create):
    change = changed(present, " ".join(wanted))
    assert (written(change.keep), written(change.destroy)) == (keep, destroy)
    assert written(change.create) == create


@cases("present, wanted, named", CASES["in_the_way"])
def test_busy_instance_in_the_way_is_named(present, wanted, named):
    in_the_way = changed(present, " ".join(wanted)).in_the_way
    assert written(in_the_way) == named
    assert all(one.busy == "a process" for one in in_the_way)


@cases("present, wanted, in_the_end, recut", CASES["recuts"])
def test_only_compute_instances_are_recreated_where_gpu_instances_fit(present, wanted, in_the_end, recut):
    change = changed(present, wanted)
    sizes = [f"{one.start}:{'+'.join(map(str, one.compute_instances))}" for one in change.instances]
    assert " ".join(sizes) == in_the_end
    assert written(change.recut) == recut
    assert (change.destroy, change.create) == ((), ())


def test_instance_with_fitting_compute_instances_is_kept():
    change = changed(["3g.20gb@0:3", "3g.20gb@4:1+1+1"], "1c.3g.20gb=3")
    assert (written(change.keep), change.recut) == ("3g.20gb@4", ())


def test_recut_of_a_busy_instance_is_in_the_way():
    assert written(changed(["3g.20gb@0:3!"], "1c.3g.20gb=3").in_the_way) == "3g.20gb@0"
