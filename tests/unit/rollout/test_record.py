"""What stands on a node about its roll-out, and who may change that."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.rollout.cluster import ClusterNode, ConflictError
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
    UnreadableError,
    _dump,
    advance,
    claim,
    hand_back,
    left_cordoned,
    read_record,
    read_result,
    take_over,
    unreadable,
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


RUBBISH = {
    "nothing": "",
    "no-JSON": "?",
    "no-keys": "{}",
    "a-list": "[]",
    "null": "null",
    "a-text": '"x"',
    "nested-too-deeply": "[" * 100_000,
    "a-number-of-5000-digits": "9" * 5000,
    "keys-that-are-missing": '{"phase": "drained"}',
    "a-text-for-false": json.dumps({**json.loads(_dump(OURS)), "was_unschedulable": "false"}),
    "a-number-for-false": json.dumps({**json.loads(_dump(OURS)), "was_unschedulable": 0}),
    **{
        f"{key}-is-{value!r}": json.dumps({**json.loads(_dump(OURS)), key: value})
        for key, value in {
            "phase": "lost",
            "runner": None,
            "was_unschedulable": "perhaps",
            "offered": {"nvidia.com/gpu": 8},
            "transaction": "../../x",
            "reason": ["x"],
            "version": True,
            "rollout": 7,
        }.items()
    },
}


@pytest.mark.parametrize("text", RUBBISH.values(), ids=RUBBISH)
def test_an_annotation_that_is_none_of_ours_is_named(text):
    world = World()
    world.cluster.change_node(NODE, annotations={RECORD: text})
    with pytest.raises(UnreadableError, match=f"{RECORD} cannot be read"):
        read_record(world.node)
    assert f"kubectl annotate node {NODE} {RECORD}-" in unreadable(world.node)


@given(st.one_of(st.text(), st.dictionaries(st.text(max_size=3), st.text()).map(json.dumps)))
def test_no_text_does_more_than_not_to_be_a_record(text):
    node = ClusterNode(NODE, "uid", "1", annotations={RECORD: text})
    assert unreadable(node) or read_record(node)


def test_a_record_of_a_newer_release_names_the_version():
    world = World()
    world.cluster.change_node(NODE, annotations={RECORD: json.dumps({"version": 2, "stage": "x"})})
    with pytest.raises(UnreadableError, match="version 2"):
        read_record(world.node)


def test_keys_of_a_newer_release_stay_until_the_record_goes():
    world = claimed()
    newer = {**json.loads(world.node.annotations[RECORD]), "ticket": {"id": 7}, "others": "x"}
    world.cluster.change_node(NODE, annotations={RECORD: json.dumps(newer)})

    def written():
        return {key: json.loads(world.node.annotations[RECORD]).get(key) for key in ("ticket", "others")}

    _, record = take_over(world.cluster, NODE, "bob")
    assert written() == {"ticket": {"id": 7}, "others": "x"}
    advance(world.cluster, NODE, replace(record, phase=Phase.DRAINED))
    assert written() == {"ticket": {"id": 7}, "others": "x"}
    hand_back(world.cluster, NODE, record, Ending.DONE, "")
    assert RECORD not in world.node.annotations


def test_a_record_says_its_version_and_whose_roll_out_it_is():
    document = json.loads(claimed().node.annotations[RECORD])
    assert (document["version"], document["rollout"]) == (1, "default")


@pytest.mark.parametrize(
    ("said", "name", "belongs"),
    [("gpu", "gpu", True), ("gpu", "cpu", False), (None, "gpu", True)],
    ids=["its-own", "of-another", "of-a-release-without-names"],
)
def test_a_roll_out_has_the_nodes_of_its_name(said, name, belongs):
    document = {key: value for key, value in json.loads(_dump(OURS)).items() if key != "rollout"}
    text = json.dumps(document | ({"rollout": said} if said else {}))
    record = read_record(ClusterNode(NODE, "uid", "1", annotations={RECORD: text}))
    assert record.belongs_to(name) is belongs


@pytest.mark.parametrize("text", ["", "?", "[]", "7", "[" * 100_000], ids=lambda text: text[:3] or "nothing")
def test_a_result_that_cannot_be_read_is_none(text):
    assert read_result(ClusterNode(NODE, "uid", "1", annotations={RESULT: text})) == {}


def test_keys_of_a_newer_release_do_not_hide_a_result():
    text = json.dumps({"ending": "done", "reason": "x", "runner": "ann", "seconds": 7})
    found = read_result(ClusterNode(NODE, "uid", "1", annotations={RESULT: text}))
    assert found == {"ending": "done", "reason": "x", "runner": "ann"}


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
    with pytest.raises(TakenError, match="roll-out's record was removed from"):
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
