"""What stands on a node about its roll-out, and who may change that."""

from __future__ import annotations

import pytest

from numaforge.rollout.cluster import ClusterError, ConflictError
from numaforge.rollout.record import (
    ABORT,
    RECORD,
    RESULT,
    Ending,
    OvertakenError,
    Phase,
    Record,
    TakenError,
    UncordonedError,
    advance,
    claim,
    hand_back,
    left_cordoned,
    read_record,
    take_over,
)
from tests.fixtures.rollout_world import NODE, World

OURS = Record("ann", Phase.CORDONED, was_unschedulable=False, offered={"nvidia.com/gpu": "8"})


def claimed() -> World:
    world = World()
    claim(world.cluster, world.node, OURS)
    return world


def test_the_cordon_and_its_record_are_one_write():
    world = World()
    claim(world.cluster, world.node, OURS)
    assert (world.node.unschedulable, read_record(world.node)) == (True, OURS)
    assert world.cluster.calls["patch_node"] == 1


def test_a_node_that_has_changed_since_it_was_read_is_not_claimed():
    world = World()
    node = world.node
    world.cluster.change_node(NODE, labels={})
    with pytest.raises(ConflictError):
        claim(world.cluster, node, OURS)
    assert not world.node.unschedulable


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"phase": "drained"}', '{"phase": "lost"}', '"x"'])
def test_an_annotation_that_is_none_of_ours_is_named(text):
    world = World()
    world.cluster.change_node(NODE, annotations={RECORD: text})
    with pytest.raises(ClusterError, match=f"{RECORD} cannot be read"):
        read_record(world.node)


def test_a_record_of_another_runner_is_not_written_over():
    world = claimed()
    take_over(world.cluster, NODE, "bob")
    with pytest.raises(OvertakenError, match="bob has taken the node over"):
        advance(world.cluster, NODE, OURS)
    with pytest.raises(OvertakenError):
        hand_back(world.cluster, NODE, OURS, Ending.DONE, "")
    assert world.node.unschedulable


def test_a_record_survives_what_the_kubelet_writes():
    world = claimed()
    world.cluster.change_node(NODE, ready=True)
    advance(world.cluster, NODE, OURS)


def test_an_uncordoned_node_is_told_from_one_without_a_record():
    world = claimed()
    world.cluster.change_node(NODE, unschedulable=False)
    with pytest.raises(UncordonedError):
        advance(world.cluster, NODE, OURS)
    world.cluster.change_node(NODE, annotations={})
    with pytest.raises(TakenError, match="taken the roll-out's record off"):
        advance(world.cluster, NODE, OURS)


def test_handing_back_leaves_only_how_it_ended():
    world = claimed()
    world.cluster.patch_node(world.node, annotations={ABORT: "carol"})
    hand_back(world.cluster, NODE, OURS, Ending.DONE, "as planned")
    assert (world.node.unschedulable, set(world.node.annotations)) == (False, {RESULT})
    hand_back(world.cluster, NODE, OURS, Ending.DONE, "as planned")  # the answer was lost
    with pytest.raises(TakenError):
        hand_back(world.cluster, NODE, OURS, Ending.BLOCKED, "something else")


def test_a_cordon_that_was_there_before_stays():
    world = World()
    world.cluster.change_node(NODE, unschedulable=True)
    record = Record("ann", Phase.CORDONED, was_unschedulable=True)
    claim(world.cluster, world.node, record)
    node = hand_back(world.cluster, NODE, record, Ending.DONE, "")
    assert (node.unschedulable, left_cordoned(node)) == (True, None)


def test_a_cordon_that_somebody_else_needs_by_now_stays_and_says_so():
    world = claimed()
    world.cluster.change_node(NODE, labels={"nvidia.com/mig.config.state": "pending"})
    node = hand_back(world.cluster, NODE, OURS, Ending.DONE, "")
    assert node.unschedulable
    assert "its MIG geometry is being changed" in left_cordoned(node)
    world.cluster.change_node(NODE, unschedulable=False)
    assert left_cordoned(world.node) is None
