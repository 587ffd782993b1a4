"""Where nodes stand, that a lock be broken: orders beside a roll-out."""

import json
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from numaforge.lib.errors import NumaforgeError
from numaforge.report.rollout import situation_document, situation_tables
from numaforge.rollout.cluster import Lease
from numaforge.rollout.lead import ROLLOUT, STATE, STOP
from numaforge.rollout.names import ENDED
from numaforge.rollout.names import NODE as OF_NODE
from numaforge.rollout.orders import situation, unlock
from numaforge.rollout.record import ABORT, MARK, RECORD, Phase, lease_name
from numaforge.rollout.slots import SLOT
from tests.fixtures.node_records import write_record
from tests.fixtures.rollout_world import NODE, World

KEYS = ("version", "runner", "phase", "was_unschedulable", "offered", "transaction", "reason", "ending", "x")


def break_lock(world: World, force: bool = False):
    task = world.time.spawn(unlock(world.cluster, NODE, force=force, clock=world.time))
    return world.end(task)


def test_node_in_progress_is_shown_with_phase_and_slot(world):
    world.begin()
    world.reach(Phase.APPLYING)
    found = situation(world.cluster)
    assert [(each.node, each.record.phase) for each in found.nodes if each.record] == [(NODE, Phase.APPLYING)]
    assert [slot.node for slot in found.slots] == [NODE]


def test_finished_node_is_shown_with_its_ending(world):
    world.run()
    (node,) = situation(world.cluster).nodes
    assert (node.ending, node.record, node.unschedulable) == ("done", None, False)


def test_slot_of_living_runner_is_not_broken(world):
    world.begin()
    world.reach(Phase.APPLYING)
    with pytest.raises(NumaforgeError, match="is at work on it"):
        break_lock(world)
    assert world.slots() == [NODE]


@pytest.mark.parametrize("readable", [True, False], ids=["a record", "an unreadable record"])
def test_lock_of_a_node_in_mid_roll_out_is_broken_only_by_force(world, readable):
    task = world.begin()
    world.reach(Phase.APPLYING)
    task.kill()
    if not readable:
        write_record(world.cluster, world.node, "?")
    with pytest.raises(NumaforgeError, match="in the middle of a roll-out"):
        break_lock(world)
    break_lock(world, force=True)
    assert world.slots() == []


def test_lock_of_a_node_without_a_slot_cannot_be_broken(world):
    with pytest.raises(NumaforgeError, match="holds no slot"):
        break_lock(world)


RUBBISH = st.one_of(
    st.text(max_size=50),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=8),
    ).map(json.dumps),
)


@given(record=RUBBISH, ended=st.none() | RUBBISH, state=RUBBISH, node=RUBBISH, holder=st.text(max_size=20))
def test_arbitrary_lease_and_annotation_text_never_breaks_status(record, ended, state, node, holder):
    world = World()
    world.cluster.change_node(NODE, annotations={RECORD: record, MARK: record, ABORT: record})
    annotations = {OF_NODE: NODE, RECORD: record, ABORT: state}
    labels = {} if ended is None else {ENDED: ended}
    world.cluster.put_lease(Lease(lease_name(NODE), holder=holder, labels=labels, annotations=annotations))
    world.cluster.put_lease(Lease(f"{SLOT}0", holder=holder, annotations={OF_NODE: node}))
    world.cluster.put_lease(Lease(f"{ROLLOUT}a", holder=holder, annotations={STATE: state, STOP: state}))
    found = situation(world.cluster)
    (standing,) = found.nodes
    assert standing.record or standing.trouble
    assert json.dumps(situation_document(found))
    console = Console(file=StringIO(), width=200)
    console.print(situation_tables(found))
    assert {*console.file.getvalue()} - {"\n", "\t"} <= {
        c for c in console.file.getvalue() if c.isprintable()
    }


def test_earlier_results_are_shown_without_a_request_each(world):
    world.run()
    world.run(name="node-0001", runner="ann@a/boot/3.3")
    calls = world.cluster.calls.copy()
    found = {node.node: node for node in situation(world.cluster).nodes}
    assert {name: node.ending for name, node in found.items()} == {NODE: "done", "node-0001": "done"}
    assert world.cluster.calls - calls == {"leases": 1, "nodes": 1}


def test_node_deleted_mid_rollout_is_shown(world):
    task = world.begin()
    world.reach(Phase.APPLIED)
    task.kill()
    world.cluster.delete_node(NODE)
    (node,) = situation(world.cluster).nodes
    assert (node.node, node.record.phase) == (NODE, Phase.APPLIED)
    assert f"delete the Lease {lease_name(NODE)}" in node.reason


@pytest.mark.parametrize(
    ("lease", "said"),
    [
        pytest.param(Lease(f"{ROLLOUT}a", annotations={STATE: "["}), "cannot be read", id="a-lead"),
        pytest.param(Lease(f"{SLOT}0", holder="ann"), "held by ann for no node", id="a-slot"),
    ],
)
def test_malformed_lease_is_reported_as_trouble(world, lease, said):
    world.cluster.put_lease(lease)
    (trouble,) = situation(world.cluster).troubles
    assert said in trouble
