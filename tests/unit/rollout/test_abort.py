"""A roll-out is undone: who is told, who undoes it, what is left, and that it ends."""

import pytest

from numaforge.rollout.abort import Abort
from numaforge.rollout.cluster import ApiUnreachableError
from numaforge.rollout.lead import ROLLOUT, Lead, take_lead
from numaforge.rollout.orders import situation, unlock
from numaforge.rollout.record import ABORT, Ending, Phase
from tests.fixtures.node_records import write_record
from tests.fixtures.rollout_world import NODE, World

ANN = "ann@a/boot/1.1"


def told(world: World, name: str = "default") -> Abort:
    order = Abort(world.cluster, name, "carol", world.time)
    world.end(world.time.spawn(order.tell()))
    return order


def undone(world: World, order: Abort, seconds: float = 600.0) -> list[str]:
    return world.end(world.time.spawn(order.undone(seconds)))


def led(world: World, state: dict[str, str] | None = None) -> Lead:
    taking = take_lead(world.cluster, "default", ANN, state or {}, go_on=False, clock=world.time)
    return world.end(world.time.spawn(taking))


def test_leader_is_stopped_and_named(world: World) -> None:
    lead = led(world)
    assert told(world).leader == ANN
    assert lead.keep() == "stopped by carol"


@pytest.mark.parametrize("phase", [Phase.CORDONED, Phase.APPLYING, Phase.APPLIED])
def test_living_process_undoes_its_own_node(world: World, phase: Phase) -> None:
    task = world.begin()
    world.reach(phase)
    order = told(world)
    assert (undone(world, order), order.outcomes[NODE].ending) == ([], Ending.ABORTED)
    assert world.end(task).ending is Ending.ABORTED


@pytest.mark.parametrize("without_slot", [False, True], ids=["its process died", "its slot was broken"])
def test_abort_resumes_node_without_live_holder(world: World, without_slot: bool) -> None:
    task = world.begin()
    world.reach(Phase.APPLYING)
    task.kill()
    if without_slot:
        world.end(world.time.spawn(unlock(world.cluster, NODE, force=True, clock=world.time)))
    order = told(world)
    assert undone(world, order) == [NODE]
    order.end(NODE, world.run("dan@d/boot/4.4"))
    assert (undone(world, order), order.outcomes[NODE].ending) == ([], Ending.ABORTED)


def test_abort_leaves_nodes_of_other_rollouts_running(world: World) -> None:
    task = world.begin()
    world.reach(Phase.APPLYING)
    order = told(world, "another")
    assert (undone(world, order), order.outcomes) == ([], {})
    assert world.end(task).ending is Ending.DONE


def test_abort_undoes_node_begun_meanwhile_by_leader(world: World) -> None:
    lead = led(world)
    order = told(world)
    task = world.begin()
    waiting = world.time.spawn(order.undone(600.0))
    world.time.run(lambda: task.ended)
    lead.end({})
    assert (world.end(waiting), order.outcomes[NODE].ending) == ([], Ending.ABORTED)


def test_process_that_never_ends_is_named_without_waiting(world: World) -> None:
    led(world)
    world.begin()
    world.reach(Phase.APPLYING)
    order = told(world)
    begun = world.time.now
    assert undone(world, order, 1.0) == []
    assert world.time.now - begun < 10
    assert f"{ANN} is still at work on it after 1 s" in order.outcomes[NODE].reason
    assert (order.outcomes[NODE].ending, order.leader) == (Ending.HELD, ANN)


def test_node_with_unreadable_record_is_held(world: World) -> None:
    write_record(world.cluster, world.node, "?")
    order = told(world)
    assert (undone(world, order), order.outcomes[NODE].ending) == ([], Ending.HELD)


def test_dead_leaders_lead_is_ended_and_keeps_its_state(world: World) -> None:
    led(world, {"begun": "x"})
    order = told(world)
    assert undone(world, order) == []
    (found,) = situation(world.cluster).rollouts
    assert (found.leader, found.state, order.leader) == ("", {"begun": "x", "ended": "aborted"}, "")


def test_abort_leaves_living_leader_to_finish(world: World) -> None:
    lead = led(world)
    order = told(world)
    waiting = world.time.spawn(order.undone(600.0))
    for _ in range(12):
        world.time.run(9.0)
        lead.cluster.put_lease(next(each for each in world.cluster.leases() if each.name.startswith(ROLLOUT)))
    assert not waiting.ended
    lead.end({"ended": "by itself"})
    world.end(waiting)
    (found,) = situation(world.cluster).rollouts
    assert found.state == {"ended": "by itself"}


def test_abort_retries_unreachable_api_server(world: World) -> None:
    world.cluster.fault = lambda _: (
        ApiUnreachableError("connection refused") if world.time.now < 1060 else None
    )
    task = world.begin()
    world.time.run(lambda: ABORT in world.lease.annotations or world.phase is Phase.APPLYING)
    order = told(world)
    assert (undone(world, order), order.outcomes[NODE].ending) == ([], Ending.ABORTED)
    assert world.end(task).ending is Ending.ABORTED
