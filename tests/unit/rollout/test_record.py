"""A node's record: where it lies, who may change it, and in which order it and the cordon are written."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.rollout.cluster import ApiUnreachableError, ClusterNode, ConflictError, Lease
from numaforge.rollout.labels import SetLabel
from numaforge.rollout.names import ENDED, NODE_UID
from numaforge.rollout.names import NODE as OF_NODE
from numaforge.rollout.record import (
    ABORT,
    MARK,
    RECORD,
    Ending,
    OvertakenError,
    Phase,
    Record,
    TakenError,
    UncordonedError,
    UnreadableError,
    _dump,
    advance,
    change_labels,
    claim,
    cordon,
    lease_name,
    left_cordoned,
    read_ended,
    read_record,
    read_unfinished,
    take_over,
    uncordon,
    unreadable,
    write,
)
from tests.fixtures.node_records import request_abort
from tests.fixtures.rollout_world import NODE, World
from tests.fixtures.tables import cases

OURS = Record("ann", Phase.CLAIMED, was_unschedulable=False, offered={"nvidia.com/gpu": "8"})
CONFIG = "nvidia.com/device-plugin.config"
FOREIGN = "node-restriction.kubernetes.io/tenant"


def claimed(record: Record = OURS) -> tuple[World, Record]:
    """Return a world whose node is cordoned for a record, and the record."""
    world = World()
    written = claim(world.cluster, world.node, record)
    cordon(world.cluster, world.node, written)
    return world, write(world.cluster, replace(written, phase=Phase.CORDONED))


def lease(text: str, **labels: str) -> Lease:
    """Return a node's Lease with a text for a record."""
    return Lease(lease_name(NODE), "1", labels=labels, annotations={OF_NODE: NODE, RECORD: text})


# ---- record and cordon ----


def test_record_is_written_before_cordon(world):
    record = claim(world.cluster, world.node, OURS)
    assert (world.record, world.node.unschedulable, world.node.annotations) == (OURS, False, {})
    cordon(world.cluster, world.node, record)
    assert (world.node.unschedulable, world.record.has_marked(world.node)) == (True, True)


def test_node_changed_since_read_is_not_cordoned(world):
    node = world.node
    record = claim(world.cluster, node, OURS)
    world.cluster.change_node(NODE, unschedulable=True)
    with pytest.raises(ConflictError):
        cordon(world.cluster, node, record)
    assert not record.has_marked(world.node)


@pytest.mark.parametrize(
    "annotation",
    ["", "numaforge-node-node-0000", "numaforge-node-node-0000 0000000000000000"],
    ids=["nothing", "the name of the Lease", "another mark"],
)
def test_mark_that_differs_from_the_record_does_not_make_a_cordon_ours(world, annotation):
    record = claim(world.cluster, world.node, OURS)
    world.cluster.change_node(NODE, unschedulable=True, annotations={MARK: annotation})
    assert not record.has_marked(world.node)


def test_every_mark_is_unique():
    assert len({Record("ann", Phase.CLAIMED, was_unschedulable=False).mark for _ in range(100)}) == 100


def test_repeated_claim_keeps_its_mark(world):
    first = claim(world.cluster, world.node, OURS)
    again = claim(world.cluster, world.node, Record("ann", Phase.CLAIMED, was_unschedulable=False))
    assert again.mark == first.mark


def test_rollout_in_progress_is_not_claimed():
    world, _ = claimed()
    with pytest.raises(OvertakenError, match="ann has taken the node over"):
        claim(world.cluster, world.node, replace(OURS, runner="bob"))


def test_runner_holds_the_lease_until_the_end():
    world, record = claimed()
    assert (world.lease.holder, world.lease.annotations[NODE_UID]) == ("ann", world.node.uid)
    uncordon(world.cluster, record, Ending.DONE, "as planned")
    assert (world.lease.holder, world.lease.labels[ENDED]) == ("", "done")


LONG = "a" * 63 + ".b" * 95


@pytest.mark.parametrize("name", ["gpu-1", "gpu-1.rack-2.example.com", "n" * 238, LONG], ids=len)
def test_node_lease_name_is_valid(name):
    assert len(lease_name(name)) <= 253
    assert lease_name(name)[-1].isalnum()
    assert lease_name(name) != lease_name(f"{name[:-1]}0")


# ---- reading ----

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
            "ending": "somehow",
            "labels": {FOREIGN: "trusted"},
            "set_labels": {FOREIGN: {"value": "a", "before": "trusted"}},
        }.items()
    },
}


@pytest.mark.parametrize("text", RUBBISH.values(), ids=RUBBISH)
def test_unreadable_record_is_named_with_the_command_that_deletes_it(text):
    with pytest.raises(UnreadableError, match=f"{RECORD} cannot be read"):
        read_record(lease(text))
    assert f"kubectl -n numaforge delete lease {lease_name(NODE)}" in unreadable(lease(text))


def test_record_without_node_is_unreadable():
    assert "cannot be read" in unreadable(replace(lease(_dump(OURS)), annotations={RECORD: _dump(OURS)}))


@given(st.one_of(st.text(), st.dictionaries(st.text(max_size=3), st.text()).map(json.dumps)))
def test_any_text_is_a_record_or_reported_unreadable(text):
    assert unreadable(lease(text)) or read_record(lease(text))


def test_record_of_newer_release_names_the_version():
    with pytest.raises(UnreadableError, match="version 2"):
        read_record(lease(json.dumps({"version": 2, "stage": "x"})))


def test_record_contains_its_version_and_roll_out():
    document = json.loads(claimed()[0].lease.annotations[RECORD])
    assert (document["version"], document["rollout"]) == (1, "default")


@cases("name, belongs", {"its-own": ("default", True), "of-another": ("cpu", False)})
def test_record_belongs_to_rollout_of_its_name(name, belongs):
    assert OURS.belongs_to(name) is belongs


def test_last_roll_out_of_an_earlier_node_with_the_same_name_is_ignored():
    world, record = claimed()
    uncordon(world.cluster, record, Ending.DONE, "as planned")
    assert read_ended(world.lease, world.node).reason == "as planned"
    assert read_ended(world.lease, ClusterNode(NODE, "another", "1")) is None


# ---- what a kubelet may write of its own Node ----

FORGED = {
    "a-record": {RECORD: _dump(replace(OURS, phase=Phase.VERIFIED))},
    "a-mark": {MARK: f"{lease_name(NODE)} 0000000000000000"},
    "a-result": {"numaforge.io/rollout-result": '{"ending": "done", "reason": "", "runner": "ann"}'},
    "an-abort": {ABORT: "the kubelet", "numaforge.io/rollout-abort": "the kubelet"},
    "labels-of-before": {"numaforge.io/labels-before": f'{{"{FOREIGN}": {{"value":"a","before":"b"}}}}'},
}


@pytest.mark.parametrize("annotations", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("quarantined", [False, True], ids=["in-service", "in-quarantine"])
def test_forged_node_annotations_have_no_effect(annotations, quarantined):
    world, plain = World(), World()
    world.cluster.change_node(NODE, annotations=annotations, unschedulable=quarantined)
    plain.cluster.change_node(NODE, unschedulable=quarantined)
    assert world.run() == plain.run()
    assert (world.machine.applied, world.events()) == (plain.machine.applied, plain.events())
    assert (world.node.labels, {MARK, *world.node.annotations}) == (plain.node.labels, {MARK, *annotations})
    assert world.node.unschedulable is quarantined


# ---- whose it is ----


def test_record_of_another_runner_is_not_overwritten():
    world, record = claimed()
    take_over(world.cluster, world.node, "bob")
    with pytest.raises(OvertakenError, match="bob has taken the node over"):
        advance(world.cluster, record)
    with pytest.raises(OvertakenError):
        uncordon(world.cluster, record, Ending.DONE, "")
    assert world.node.unschedulable


def test_writing_the_record_keeps_an_abort_request():
    world, record = claimed()
    request_abort(world.cluster, NODE, "carol")
    advance(world.cluster, replace(record, phase=Phase.DRAINED))
    assert (world.phase, world.lease.annotations[ABORT]) == (Phase.DRAINED, "carol")


def test_uncordoned_node_is_distinguished_from_a_node_without_a_record():
    world, record = claimed()
    world.cluster.change_node(NODE, unschedulable=False)
    with pytest.raises(UncordonedError):
        advance(world.cluster, record)
    world.cluster.change_node(NODE, unschedulable=True)
    world.cluster.delete_lease(lease_name(NODE))
    with pytest.raises(TakenError, match="the record of its roll-out was deleted"):
        advance(world.cluster, record)


@cases(
    "phase, following",
    {"nothing-was-changed": (Phase.DRAINED, Phase.CLAIMED), "changed": (Phase.APPLIED, Phase.APPLIED)},
)
def test_record_is_taken_over_for_a_reregistered_node(phase, following):
    world, record = claimed()
    set_labels = {CONFIG: SetLabel("small", "big")}
    write(world.cluster, replace(record, phase=phase, labels={CONFIG: "big"}, set_labels=set_labels))
    node = replace(world.node, uid="another", unschedulable=False, annotations={})
    taken = take_over(world.cluster, node, "bob")
    assert (taken.uid, taken.phase, taken.was_unschedulable) == ("another", following, False)
    assert (taken.labels, taken.set_labels, taken.has_marked(node)) == ({}, {}, False)


# ---- labels ----


def test_previous_label_value_is_recorded_before_change():
    world, record = claimed()
    world.cluster.fault = lambda call: ApiUnreachableError("reset") if call == "patch_node" else None
    with pytest.raises(ApiUnreachableError):
        change_labels(world.cluster, record, lambda _: {CONFIG: "small"})
    world.cluster.fault = None
    assert (world.record.set_labels, CONFIG in world.node.labels) == (
        {CONFIG: SetLabel("small", None)},
        False,
    )


# ---- the end ----


def test_uncordon_comes_before_record_ends():
    world, record = claimed()
    seen = []
    world.cluster.watchers.append(lambda _, now: seen.append((now.unschedulable, world.record is not None)))
    uncordon(world.cluster, record, Ending.DONE, "as planned")
    assert (seen[0], world.record) == ((False, True), None)


def test_release_keeps_the_ending_and_cleans_the_node():
    world, record = claimed()
    request_abort(world.cluster, NODE)
    uncordon(world.cluster, record, Ending.DONE, "as planned")
    assert (world.node.unschedulable, world.node.annotations) == (False, {})
    assert (world.ended.ending, world.ended.reason) == (Ending.DONE, "as planned")
    assert ABORT not in world.lease.annotations
    uncordon(world.cluster, record, Ending.DONE, "as planned")  # the answer was lost
    with pytest.raises(TakenError):
        uncordon(world.cluster, record, Ending.BLOCKED, "something else")


def test_existing_cordon_stays(world):
    world.cluster.change_node(NODE, unschedulable=True)
    record = claim(world.cluster, world.node, replace(OURS, was_unschedulable=True))
    cordon(world.cluster, world.node, record)
    node, ended = uncordon(world.cluster, record, Ending.DONE, "")
    assert (node.unschedulable, left_cordoned(ended, node)) == (True, None)


def test_cordon_that_another_tool_now_needs_stays_and_is_reported():
    world, record = claimed()
    world.cluster.change_node(NODE, labels={"nvidia.com/mig.config.state": "pending"})
    node, ended = uncordon(world.cluster, record, Ending.DONE, "")
    assert node.unschedulable
    assert "its MIG geometry is being changed" in left_cordoned(ended, node)
    world.cluster.change_node(NODE, unschedulable=False)
    assert left_cordoned(world.ended, world.node) is None


def test_ended_record_is_not_a_roll_out_in_progress():
    world, record = claimed()
    uncordon(world.cluster, record, Ending.DONE, "")
    assert (read_unfinished(world.lease), world.cluster.leases()) == (None, [])
    assert [found.name for found in world.cluster.leases(ended=True)] == [lease_name(NODE)]
