"""Slots: who gets one, who takes one over, and how they are given back."""

import threading
from dataclasses import replace

import pytest

from numaforge.rollout import slots
from numaforge.rollout.budget import Budget, CachedPool, Share
from numaforge.rollout.cluster import ApiUnreachableError, ConflictError
from numaforge.rollout.slots import (
    SILENT_SECONDS,
    LeaseWatch,
    NoSlotError,
    RenewedSlot,
    release,
    renew,
    take_slot,
)
from numaforge.rollout.steps import in_thread, run
from tests.fixtures.rollout_world import NODE, World
from tests.fixtures.tables import cases

ANN, BOB = "ann@a/boot/1.1", "bob@b/boot/2.2"
OTHER = "node-0001"


def take(
    world: World,
    name: str = NODE,
    runner: str = ANN,
    count: int = 1,
    seconds: float = 300.0,
    cached_pool: CachedPool | None = None,
    **options,
):
    cached_pool = cached_pool or CachedPool(world.cluster, Budget(Share(count=count)), world.time)
    steps = take_slot(
        world.cluster,
        name,
        runner,
        cached_pool,
        clock=world.time,
        tell=lambda _: None,
        patience_seconds=seconds,
        **options,
    )
    return world.time.spawn(steps)


def taken(world: World, *args, **options):
    task = take(world, *args, **options)
    world.time.finish(task)
    if task.error:
        raise task.error
    return task.result[0]


def test_slots_taken_never_exceed_the_budget(world):
    taken(world)
    with pytest.raises(NoSlotError, match="1 of at most 1 nodes are out of service: node-0000"):
        taken(world, OTHER)


def test_released_slot_goes_to_the_waiting_runner(world):
    slot = taken(world)
    waiting = take(world, OTHER)
    world.time.run(30.0)
    assert not waiting.ended
    release(world.cluster, slot)
    world.time.finish(waiting)
    assert world.slots() == [OTHER]


def test_simultaneous_slot_requests_share_one_budget():
    world = World(nodes=9)
    tasks = [take(world, f"node-000{number}", f"r{number}@x/b/1.1", 3, 30.0) for number in range(9)]
    world.time.finish(*tasks)
    assert len(world.slots()) == 3
    assert sum(task.error is None for task in tasks) == 3


def test_dead_runners_slot_is_taken_over_after_silence_on_the_local_clock(world):
    taken(world)
    begun = world.time.now
    assert taken(world, runner=BOB).runner == BOB
    assert SILENT_SECONDS <= world.time.now - begun <= SILENT_SECONDS + 10


def test_living_runners_slot_is_not_taken_over(world):
    slot = taken(world)
    waiting = take(world, runner=BOB, seconds=150.0)
    for _ in range(20):
        world.time.run(10.0)
        slot = renew(world.cluster, slot)
    world.time.finish(waiting)
    assert f"{ANN} is at work on it" in str(waiting.error)


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "registered again with another UID"])
def test_slot_of_node_that_left_the_cluster_is_free(world, again):
    taken(world)
    node = world.node
    world.cluster.delete_node(NODE)
    if again:
        world.cluster.add_node(replace(node, uid="another"))
    assert taken(world, OTHER, BOB).lease.name == "numaforge-slot-0"


def test_cordoned_node_with_deleted_slot_still_counts(world):
    cached_pool = CachedPool(world.cluster, Budget(Share(count=1)), world.time)
    cached_pool.pool()
    slot = taken(world)
    world.cluster.change_node(NODE, unschedulable=True)
    world.cluster.delete_lease(slot.lease.name)
    with pytest.raises(NoSlotError, match="1 of at most 1 nodes are out of service: node-0000"):
        taken(world, OTHER, BOB, seconds=0.0, cached_pool=cached_pool)


def test_slot_released_too_early_is_checked_against_budget_again(world):
    taken(world)
    world.cluster.change_node(OTHER, unschedulable=True)
    with pytest.raises(NoSlotError, match="1 of at most 1 nodes"):
        taken(world)
    assert world.slots() == []


def test_veto_ends_the_wait_for_a_slot(world):
    taken(world)
    said = []
    waiting = take(world, OTHER, veto=lambda: said[0] if said else None)
    world.time.run(20.0)
    said.append("another node has failed")
    world.time.finish(waiting)
    assert "another node has failed" in str(waiting.error)


@pytest.mark.parametrize("write", [renew, release], ids=["renewed", "given back"])
def test_slot_write_with_lost_answer_can_be_repeated(write):
    world = World()
    slot = taken(world)
    calls = iter(range(100))
    world.cluster.fault = lambda _: ApiUnreachableError("connection reset") if next(calls) == 1 else None
    with pytest.raises(ApiUnreachableError):
        write(world.cluster, slot)
    write(world.cluster, slot)
    assert world.slots() == ([NODE] if write is renew else [])


def test_slot_taken_over_by_another_runner_is_neither_renewed_nor_released(world):
    slot = taken(world)
    taken(world, runner=BOB)
    with pytest.raises(ConflictError):
        renew(world.cluster, slot)
    release(world.cluster, slot)
    assert world.slots() == [NODE]


def test_slot_is_renewed_while_work_waits(world):
    holding = RenewedSlot(world.cluster, taken(world), world.time, lambda _: None)
    watch = LeaseWatch(world.time)

    def work():
        yield 600.0

    task = world.time.spawn(holding.during(work()))
    longest = 0.0
    while not task.ended:
        world.time.run(5.0)
        longest = max(longest, watch.of(world.cluster.leases()[0]))
    assert longest <= 15.0


def test_api_outage_does_not_count_as_runner_silence(world):
    slot = taken(world)
    waiting = take(world, runner=BOB, seconds=3600.0)
    world.time.run(20.0)
    world.cluster.fault = lambda _: ApiUnreachableError("connection refused")
    world.time.run(5 * SILENT_SECONDS)
    world.cluster.fault = None
    world.time.run(9.0)  # until the runner's next renewal
    renew(world.cluster, slot)
    world.time.run(30.0)
    assert not waiting.ended


@pytest.fixture
def often(monkeypatch):
    """Have slots renewed all the time."""
    monkeypatch.setattr(slots, "RENEW_SECONDS", 0.001)


@pytest.mark.usefixtures("often")
def test_slot_is_renewed_only_until_blocked_work_ends(world):
    holding = RenewedSlot(world.cluster, taken(world), world.time, lambda _: None)
    renewed = threading.Semaphore(0)
    world.cluster.fault = lambda call: renewed.release() if call == "put_lease" else None
    threads = threading.active_count()

    def work():
        for _ in range(10):
            assert renewed.acquire(timeout=30)
        return "done"
        yield

    assert run(holding.during(work(), in_thread)) == "done"
    assert threading.active_count() == threads
    release(world.cluster, holding.slot)
    assert world.slots() == []


@pytest.mark.usefixtures("often")
@cases("failure", {"API": ApiUnreachableError("refused"), "kubectl": OSError("no kubectl")})
def test_failed_renewal_is_reported_and_retried(world, failure):
    told = []
    holding = RenewedSlot(world.cluster, taken(world), world.time, told.append)
    failures, renewed = [failure], threading.Event()

    def fault(call):
        if failures:
            return failures.pop()
        renewed.set()
        return None

    world.cluster.fault = fault

    def work():
        assert renewed.wait(30)
        yield 0.0

    run(holding.during(work(), in_thread))
    assert (told, holding.lost) == ([str(failure)], False)


@pytest.mark.usefixtures("often")
def test_slot_loss_during_blocked_work_is_noticed(world):
    told = threading.Event()
    holding = RenewedSlot(world.cluster, taken(world), world.time, lambda _: told.set())
    world.cluster.delete_lease(holding.slot.lease.name)

    def work():
        assert told.wait(30)
        yield 0.0
        return holding.lost

    assert run(holding.during(work(), in_thread)) is True
