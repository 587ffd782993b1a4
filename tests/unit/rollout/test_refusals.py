"""Which hosts a roll-out leaves as they are, while the others go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from numaforge.rollout.in_place import UNPROTECTED
from numaforge.rollout.launch import HostNeeds, Survey
from numaforge.rollout.refusals import refusals
from tests.fixtures.rollout_world import NODE, World

GOOD = HostNeeds("good", NODE, True, True, (), {}, {})
HOST = replace(GOOD, host="host", joined=False, restarts=False)


def refused(*needs: HostNeeds, **hosts: str) -> dict[str, str]:
    world = World()
    world.cluster.denied = {"get nodes/proxy"}
    nodes = {node.name: node for node in world.cluster.nodes()}
    return refusals(world.cluster, nodes, Survey(needs, (), hosts, {}, Path("log")))


@pytest.mark.parametrize(
    ("needs", "why"),
    [
        pytest.param(replace(GOOD, host="bad", node="none"), "the cluster knows no node none", id="unknown"),
        pytest.param(replace(GOOD, host="bad", unreadable="403"), "(/configz): 403", id="unreadable"),
        pytest.param(replace(HOST, host="bad", reboots=True), UNPROTECTED, id="reboots outside a cluster"),
    ],
)
def test_a_host_is_refused_alone(needs, why):
    found = refused(GOOD, needs)
    assert [*found] == ["bad"]
    assert why in found["bad"]


@pytest.mark.parametrize(
    "needs",
    [
        GOOD,
        replace(GOOD, reboots=True),
        HOST,
        replace(HOST, reboots=True, said=frozenset({"max_unavailable"})),
    ],
    ids=[
        "a node",
        "a node that reboots",
        "a host that does not reboot",
        "a reboot where it is said how many",
    ],
)
def test_a_host_is_not_refused(needs):
    assert refused(needs) == {}


def test_what_a_host_refuses_itself_is_said_of_it():
    assert refused(replace(GOOD, host="bad", node="none"), bad="no such profile") == {
        "bad": "no such profile"
    }
