"""What a roll-out would meet."""

from dataclasses import replace
from pathlib import Path

import pytest

from numaforge.roles.device_owners import DRA_DRIVER
from numaforge.rollout.cluster import DisruptionBudget
from numaforge.rollout.launch import HostNeeds, Survey
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.outlook import NodeOutlook, look_ahead
from numaforge.rollout.record import Phase, lease_name, node_leases
from tests.fixtures.node_records import write_record
from tests.fixtures.rollout_world import NODE, World, pod
from tests.fixtures.tables import cases

CORDONED = "the node was cordoned before (permit: include_cordoned)"


def needs(
    node: str,
    *,
    restarts: bool = True,
    joined: bool = True,
    devices: frozenset[str] = frozenset(),
    unpins: bool = False,
) -> HostNeeds:
    return HostNeeds(node, node, joined, restarts, (), {"cpu": "60"}, {}, devices=devices, unpins=unpins)


def ahead(world: World, *hosts: HostNeeds, **options: object) -> list[NodeOutlook]:
    nodes = {node.name: node for node in world.cluster.nodes()}
    survey = Survey(hosts, (), {}, {}, Path("log"))
    return look_ahead(
        world.cluster, nodes, node_leases(world.cluster.leases(ended=True)), survey, RolloutOptions(**options)
    )


@cases(
    "fields, options, in_the_way",
    {
        "nothing": ({}, {}, ()),
        "not-Ready": ({"ready": False, "ready_message": "PLEG"}, {}, ("the node is not Ready: PLEG",)),
        "cordoned": ({"unschedulable": True}, {}, (CORDONED,)),
        "cordoned-and-permitted": ({"unschedulable": True}, {"include_cordoned": True}, ()),
        "everything-that-is-in-the-way": (
            {"unschedulable": True, "deleting": True},
            {},
            ("another maintenance of the node is in progress: its Node object is being deleted", CORDONED),
        ),
    },
)
def test_blockers_of_a_node_are_listed(world, fields, options, in_the_way):
    world.cluster.change_node(NODE, **fields)
    (node,) = ahead(world, needs(NODE), **options)
    assert node.in_the_way == in_the_way


@pytest.mark.parametrize(
    ("fixed", "cut", "in_the_way"),
    [
        pytest.param(True, {NODE}, (DRA_DRIVER.message,), id="it-is-to-be-cut-for-good"),
        pytest.param(False, {NODE}, (), id="its-profile-leaves-that-to-the-driver"),
        pytest.param(True, {"node-0001"}, (), id="the-driver-cuts-another"),
    ],
)
def test_dra_driver_blocks_only_fixed_partitions_on_its_nodes(world, fixed, cut, in_the_way):
    world.cluster.cut_by_driver |= cut
    (node,) = ahead(world, needs(NODE, devices=frozenset({DRA_DRIVER.devices} if fixed else ())))
    assert node.in_the_way == in_the_way
    assert world.cluster.calls["dynamic_mig"] == fixed


def test_undrainable_work_blocks_node():
    (node,) = ahead(World(), replace(needs(NODE), ended_work="the change would end work"))
    assert node.in_the_way == ("the change would end work",)


def test_unfinished_node_is_shown_as_to_be_resumed(world):
    world.begin()
    world.reach(Phase.APPLYING)
    (node,) = ahead(world, needs(NODE))
    assert node.in_the_way == ("in the middle of a roll-out (applying): resume or abort it",)


def test_unreadable_record_is_shown_with_the_remedy(world):
    write_record(world.cluster, world.node, "?")
    (node,) = ahead(world, needs(NODE, restarts=False))
    assert "cannot be read" in node.in_the_way[0]
    assert f"kubectl -n numaforge delete lease {lease_name(NODE)}" in node.in_the_way[0]


def test_blocking_and_awaited_pods_are_named():
    world = World(pods=[pod("web-1"), pod("bare", owner=None)])
    world.cluster.set_budget(DisruptionBudget("default", "web", {"matchLabels": {"app": "web"}}, 0, 1, 1))
    (node,) = ahead(world, needs(NODE))
    assert (node.evicted, node.waits_for) == (
        1,
        ("default/web-1: PodDisruptionBudget default/web allows no disruption now",),
    )
    assert [line.partition(":")[0] for line in node.in_the_way] == ["default/bare"]


def test_restarts_are_shown_in_order_with_canaries_first(world):
    names = ("node-0001", "node-0000", "node-0002")
    shown = ahead(world, *(needs(name) for name in names), canary_hosts=["node-0002"])
    assert [each.needs.host for each in shown] == ["node-0002", "node-0000", "node-0001"]


@pytest.mark.parametrize("fields", [{"restarts": False}, {"joined": False}], ids=["no restart", "not joined"])
def test_node_that_stays_in_service_is_not_in_the_outlook(fields):
    assert ahead(World(), needs(NODE, **fields)) == []


def test_changed_values_are_shown_beside_the_current_values():
    (node,) = ahead(World(), needs(NODE))
    assert node.allocatable == {"cpu": ("64", "60")}


@cases(
    "unpins, named",
    {"where-the-static-policy-ends": (True, {"default/train": 16}), "never-where-it-stays": (False, {})},
)
def test_pods_losing_exclusive_cpus_are_named(unpins, named):
    world = World(pods=[pod("web-1"), pod("train", whole_cpus=16)])
    (node,) = ahead(world, needs(NODE, unpins=unpins))
    assert node.unpinned == named
