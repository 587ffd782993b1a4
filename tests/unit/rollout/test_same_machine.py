"""Whether what a host has no say in leads to the Node that it says it is."""

import pytest

from numaforge.rollout.cluster import ClusterNode
from numaforge.rollout.names import NodeNameError, node_name
from numaforge.rollout.record import Ending, Phase
from numaforge.rollout.same_machine import Access, claimed_twice, other_address
from tests.fixtures.rollout_world import NODE, World
from tests.fixtures.tables import cases, tables

CASES = tables(__file__)

NODES = {
    name: ClusterNode(
        name, f"uid-{name}", "1", addresses=(name, *addresses), provider_id=f"aws:///eu-1a/i-{name}"
    )
    for name, addresses in {
        "gpu-01": ("10.0.0.1", "gpu-01.fleet.example"),
        "gpu-02": ("10.0.0.2", "2001:db8::2"),
    }.items()
}


def why_not(node: str, host: str = "a", **access: object) -> str | None:
    return other_address(NODES[node], Access(host, **access), NODES.values)  # type: ignore[arg-type]


@cases("node, access", CASES["accepted"])
def test_matching_host_is_accepted_as_its_node(node, access):
    assert why_not(node, **access) is None


@cases("access, said", CASES["refused"])
def test_host_without_proof_of_its_node_is_refused_with_remedy(access, said):
    assert said in str(why_not("gpu-01", **access))


def test_hosts_that_say_they_are_one_node_are_all_refused_and_the_others_are_not():
    refused = claimed_twice({"a": "gpu-01", "b": "gpu-02", "c": "gpu-01"})
    assert refused.keys() == {"a", "c"}
    assert refused["a"].startswith("a, c say that each of them is the node gpu-01")


@pytest.mark.parametrize("name", ["gpu-01", "10.0.0.1", "gpu-01.fleet.example", "a" * 253])
def test_dns_subdomain_is_a_valid_node_name(name):
    assert node_name(name) == name


DOTS, PATHS = ("", ".", "..", "gpu-01."), ("gpu-01/../../secrets", "gpu-01?pretty", "gpu%2d01")
OTHERS = ("gpu-01,spec.nodeName=gpu-02", "gpu_01", "Gpu-01", "-gpu", "gpu-01\n", "a" * 254, "gpu\u0660")


@pytest.mark.parametrize("name", [*DOTS, *PATHS, *OTHERS])
def test_other_text_is_refused_as_node_name(name):
    with pytest.raises(NodeNameError):
        node_name(name)


# ---- a hostile host: it names another node, and has copied all that a host says of itself ----


def claimed_by(world: World, access: Access) -> World:
    world.machine.access = lambda: access  # type: ignore[method-assign]
    return world


@cases(
    "access",
    {
        "reached at another address": Access("gpu-66", addresses=("10.66.6.6",)),
        "pinned to another node": Access("gpu-66", pin="gpu-66", addresses=("192.0.2.1",)),
    },
)
def test_node_claimed_by_hostile_host_stays_in_service(world, access):
    assert claimed_by(world, access).run().ending is Ending.BLOCKED
    assert (world.node.unschedulable, world.slots(), world.events()) == (False, [], [])


def test_node_in_mid_change_is_held_when_another_host_claims_its_name(world):
    task = world.begin()
    world.reach(Phase.APPLYING)
    task.kill()
    world.time.run(100.0)
    outcome = claimed_by(world, Access("gpu-66", addresses=("10.66.6.6",))).run("ann@a/boot/2.1")
    assert (outcome.ending, world.node.unschedulable) == (Ending.HELD, True)
    assert "only its own claim" in outcome.reason


def test_host_at_its_node_address_is_changed_whatever_its_name(world):
    world.cluster.change_node(NODE, addresses=("192.0.2.7",))
    assert claimed_by(world, Access("rack-3-slot-9", addresses=("192.0.2.7",))).run().ending is Ending.DONE


def test_pinned_host_must_still_match_the_machine_id_of_its_node(world):
    world.cluster.change_node(NODE, machine_id="another")
    outcome = claimed_by(world, Access(NODE, pin=NODE)).run()
    assert (outcome.ending, "machine ID" in outcome.reason) == (Ending.BLOCKED, True)
