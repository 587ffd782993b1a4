"""Where nodes stand, that they be undone, that a lock be broken: orders beside a roll-out."""

from __future__ import annotations

import pytest

from numaforge.errors import NumaforgeError
from numaforge.rollout.lead import end_lead, stop_lead, take_lead
from numaforge.rollout.orders import silent, situation, unlock
from numaforge.rollout.record import Phase, ask_to_abort
from numaforge.rollout.slots import held_slots
from tests.fixtures.rollout_world import NODE, World


@pytest.fixture
def world() -> World:
    return World()


def break_lock(world: World, force: bool = False):
    task = world.time.spawn(unlock(world.cluster, NODE, force=force, clock=world.time))
    return world.end(task)


def test_a_node_in_the_middle_is_shown_with_its_phase_and_its_slot(world: World) -> None:
    world.begin()
    world.reach(Phase.APPLYING)
    found = situation(world.cluster)
    assert [(each.node, each.record.phase) for each in found.nodes if each.record] == [(NODE, Phase.APPLYING)]
    assert [slot.node for slot in found.slots] == [NODE]


def test_a_node_that_has_ended_is_shown_with_how(world: World) -> None:
    world.run()
    (node,) = situation(world.cluster).nodes
    assert (node.ending, node.record, node.unschedulable) == ("done", None, False)


def test_an_order_to_abort_reaches_only_nodes_in_the_middle(world: World) -> None:
    task = world.begin()
    world.reach(Phase.APPLIED)
    nodes = (NODE, "node-0001")
    assert [node for node in nodes if ask_to_abort(world.cluster, node, "ann")] == [NODE]
    assert world.end(task).ending == "aborted"


def test_an_order_to_abort_stops_the_leader(world: World) -> None:
    lead = world.end(
        world.time.spawn(take_lead(world.cluster, "a", "ann@a/b/1.1", {}, go_on=False, clock=world.time))
    )
    stop_lead(world.cluster, "a", "bob")
    assert lead.keep() == "stopped by bob"


def test_a_lead_of_the_dead_can_be_ended(world: World) -> None:
    task = world.time.spawn(
        take_lead(world.cluster, "a", "ann@a/b/1.1", {"begun": "x"}, go_on=False, clock=world.time)
    )
    world.end(task)
    world.end(world.time.spawn(end_lead(world.cluster, "a", "aborted", world.time)))
    (led,) = situation(world.cluster).rollouts
    assert (led.leader, led.state) == ("", {"begun": "x", "ended": "aborted"})


def test_a_living_leader_is_left_to_end_by_itself(world: World) -> None:
    taking = take_lead(world.cluster, "a", "ann@a/b/1.1", {}, go_on=False, clock=world.time)
    lead = world.end(world.time.spawn(taking))
    ending = world.time.spawn(end_lead(world.cluster, "a", "aborted", world.time))
    world.time.run(lambda: world.time.now >= 1010)
    assert not ending.ended
    lead.end({"ended": "by itself"})
    world.end(ending)
    (led,) = situation(world.cluster).rollouts
    assert led.state == {"ended": "by itself"}


def test_a_slot_of_the_living_is_not_taken(world: World) -> None:
    world.begin()
    world.reach(Phase.APPLYING)
    with pytest.raises(NumaforgeError, match="is at work on it"):
        break_lock(world)
    assert world.slots() == [NODE]


def test_a_slot_of_a_node_in_the_middle_is_taken_by_force_only(world: World) -> None:
    task = world.begin()
    world.reach(Phase.APPLYING)
    task.kill()
    with pytest.raises(NumaforgeError, match="in the middle of a roll-out"):
        break_lock(world)
    break_lock(world, force=True)
    assert world.slots() == []


def test_a_node_without_a_slot_is_said_to_have_none(world: World) -> None:
    with pytest.raises(NumaforgeError, match="holds no slot"):
        break_lock(world)


def test_the_silent_are_told_from_the_living(world: World) -> None:
    killed = world.begin()
    world.reach(Phase.APPLYING)
    killed.kill()
    slots = held_slots(world.cluster.leases())
    assert world.end(world.time.spawn(silent(world.cluster, slots, world.time))) == slots
