"""The lead: one process runs a roll-out of a name."""

import pytest

from numaforge.rollout.cluster import ApiUnreachableError, Lease
from numaforge.rollout.lead import STOP, Lead, LedError, take_lead
from numaforge.rollout.slots import SILENT_SECONDS
from tests.fixtures.rollout_world import World

ANN, BOB = "ann@a/boot/1.1", "bob@b/boot/2.2"


def begin(world: World, runner: str, go_on: bool = False):
    return world.time.spawn(take_lead(world.cluster, "gpu", runner, {}, go_on=go_on, clock=world.time))


def lead(world: World, runner: str = ANN, go_on: bool = False) -> Lead:
    task = begin(world, runner, go_on)
    world.time.finish(task)
    if task.error:
        raise task.error
    return task.result


def test_second_runner_is_refused_with_the_leaders_name(world):
    first = lead(world)
    second = begin(world, BOB)
    for _ in range(5):
        world.time.run(10.0)
        first.keep()
    assert isinstance(second.error, LedError)
    assert f"{ANN} leads this roll-out" in str(second.error)


def test_only_one_of_two_simultaneous_runners_leads(world):
    turns = [
        take_lead(world.cluster, "gpu", runner, {}, go_on=True, clock=world.time) for runner in (ANN, BOB)
    ]
    looked, found = world.cluster.lease, [Lease("numaforge-rollout-gpu")] * 2
    world.cluster.lease = lambda _: found.pop()  # both look before either writes
    tasks = [world.time.spawn(steps) for steps in turns]
    world.time.run(1.0)
    world.cluster.lease = looked
    assert [type(task.error) for task in tasks] == [type(None), LedError]
    assert world.cluster.leases()[0].holder == ANN


@pytest.mark.parametrize("go_on", [True, False], ids=["gone on with", "named as unfinished"])
def test_rollout_of_dead_leader_is_resumed_or_named_unfinished(world, go_on):
    lead(world)
    begun = world.time.now
    if go_on:
        assert lead(world, BOB, go_on=True).lease.holder == BOB
    else:
        with pytest.raises(LedError, match="ann@a has left this roll-out unfinished"):
            lead(world, BOB)
    assert world.time.now - begun >= SILENT_SECONDS


def test_released_lead_is_free_at_once(world):
    lead(world).end({"nodes": 3})
    begun = world.time.now
    assert lead(world, BOB).lease.holder == BOB
    assert world.time.now == begun


def test_released_lead_goes_to_the_waiting_runner(world):
    first = lead(world)
    second = begin(world, BOB)
    world.time.run(5.0)
    first.end({})
    world.time.finish(second)
    assert second.result.lease.holder == BOB


def test_stop_request_is_read_on_lease_renewal(world):
    held = lead(world)
    assert held.keep() is None
    found = world.cluster.leases()[0]
    world.cluster.put_lease(
        type(found)(**{**vars(found), "annotations": {**found.annotations, STOP: "carol"}})
    )
    world.time.run(10.0)
    assert held.keep() == "stopped by carol"
    held.end({})
    assert world.cluster.leases()[0].holder == ""


def test_lead_taken_by_another_runner_ends_the_run(world):
    held = lead(world)
    world.time.run(SILENT_SECONDS)
    lead(world, BOB, go_on=True)
    assert held.keep() == f"{BOB} leads it now"
    with pytest.raises(LedError):
        held.end({})


def test_unreachable_api_server_does_not_stop_the_leader(world):
    held = lead(world)
    world.cluster.fault = lambda _: ApiUnreachableError("connection refused")
    assert held.keep() is None


def test_end_with_lost_answer_counts_as_done(world):
    held = lead(world)
    calls = iter(range(100))
    world.cluster.fault = lambda call: (
        ApiUnreachableError("connection reset") if call == "put_lease" and next(calls) == 1 else None
    )
    with pytest.raises(ApiUnreachableError):
        held.end({})
    held.end({})
