"""Which hosts a roll-out leaves as they are, while the others go on."""

from dataclasses import replace
from pathlib import Path

import pytest

from numaforge.rollout.budget import Budget, Share
from numaforge.rollout.in_place import UNPROTECTED
from numaforge.rollout.launch import HostNeeds, Survey
from numaforge.rollout.record import node_leases
from numaforge.rollout.refusals import refusals
from numaforge.rollout.same_machine import Access
from tests.fixtures.memory_cluster import control_planes
from tests.fixtures.node_records import write_record
from tests.fixtures.rollout_world import NODE, World
from tests.fixtures.tables import cases

GOOD = HostNeeds("good", NODE, True, True, (), {}, {})
OTHER = "node-0001"
HOST = replace(GOOD, host="host", joined=False, restarts=False)


def refused(
    *needs: HostNeeds, world: World | None = None, budget: Budget | None = None, **hosts: str
) -> dict[str, str]:
    world = world or World()
    world.cluster.denied = {"get nodes/proxy"}
    nodes = {node.name: node for node in world.cluster.nodes()}
    survey = Survey(needs, (), hosts, {}, Path("log"))
    return refusals(world.cluster, nodes, node_leases(world.cluster.leases()), survey, budget or Budget())


@cases(
    "needs, why",
    {
        "unknown": (replace(GOOD, host="bad", node="none"), "the cluster knows no node none"),
        "unreadable": (replace(GOOD, host="bad", node=OTHER, unreadable="403"), "(/configz): 403"),
        "a Node that is not at its address": (
            replace(GOOD, host="bad", node=OTHER, access=Access("bad", addresses=("192.0.2.66",))),
            f"only its own claim makes it the node {OTHER}",
        ),
        "reboots outside a cluster": (replace(HOST, host="bad", reboots=True), UNPROTECTED),
    },
)
def test_bad_host_is_refused_alone_with_a_reason(needs, why):
    found = refused(GOOD, needs)
    assert [*found] == ["bad"]
    assert why in found["bad"]


@cases(
    "needs",
    {
        "a node": GOOD,
        "a node that reboots": replace(GOOD, reboots=True),
        "a host that does not reboot": HOST,
        "a reboot where it is said how many": replace(
            HOST, reboots=True, said=frozenset({"max_unavailable"})
        ),
    },
)
def test_changeable_hosts_are_not_refused(needs):
    assert refused(needs) == {}


def test_refusal_by_the_host_itself_is_its_reason():
    assert refused(replace(GOOD, host="bad", node="none"), bad="no such profile") == {
        "bad": "no such profile"
    }


def test_hosts_that_say_they_are_one_node_are_all_refused_and_the_others_are_not():
    found = refused(GOOD, replace(GOOD, host="twin"), replace(GOOD, host="other", node=OTHER))
    assert {*found} == {"good", "twin"}
    assert "each of them is the node" in found["twin"]


OUTSIDE = Budget(Share(count=1), pool="role=gpu")


@cases("needs", {"whose pods would leave": GOOD, "whose pods would stay": replace(GOOD, restarts=False)})
def test_node_outside_pool_is_refused_naming_the_selector(needs):
    found = refused(needs, budget=OUTSIDE)
    assert "outside the pool 'role=gpu' and not of the control plane: give a pool" in found["good"]


@cases("needs", {"as planned": replace(GOOD, restarts=False, changes=False), "no node": HOST})
def test_pool_is_ignored_when_no_node_changes(needs):
    assert refused(needs, budget=OUTSIDE) == {}


def test_unfinished_node_is_finished_whatever_the_pool(world):
    write_record(world.cluster, world.node)
    assert refused(GOOD, world=world, budget=OUTSIDE) == {}


@pytest.mark.parametrize(
    ("count", "permitted", "said"),
    [
        pytest.param(1, False, "only API server", id="one"),
        pytest.param(2, False, "etcd has 2 members", id="two"),
        pytest.param(3, False, "", id="three"),
        pytest.param(1, True, "", id="one, and it is permitted"),
    ],
)
def test_control_plane_without_redundancy_is_refused_up_front(world, count, permitted, said):
    for node in control_planes(count):
        world.cluster.add_node(node)
    needs = replace(GOOD, host="control-0000", node="control-0000")
    found = refused(needs, world=world, budget=Budget(control_plane_outage=permitted))
    assert (bool(found), said in found.get("control-0000", "")) == (bool(said), True)
