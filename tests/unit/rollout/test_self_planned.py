"""Nodes that plan themselves, as the cluster has them: what they say, and when their taint is lifted."""

import json
from dataclasses import asdict, replace

import pytest

from numaforge.rollout.cluster import ClusterNode, ConflictError, Taint
from numaforge.rollout.orders import situation
from numaforge.rollout.self_planned import (
    ANNOTATION,
    UNVERIFIED,
    SelfPlanned,
    plan_themselves,
    release_verified,
    self_planned,
)
from tests.fixtures.rollout_world import NODE, World

OTHER = Taint("example.com/other", "x", "NoExecute")
JOINED = Taint(UNVERIFIED, "", "NoSchedule")


def said(node: ClusterNode, **fields: object) -> SelfPlanned:
    told = SelfPlanned(
        profile="training",
        named_by="/etc/numaforge/boot.yaml: profile",
        plan="0123456789abcdef",
        version="1.0",
        boot_id=node.boot_id,
        verified=True,
        says="",
        checked_at="2026-11-26T01:00:00Z",
    )
    return replace(told, **fields)  # type: ignore[arg-type]


def tell(world: World, text: str) -> None:
    world.cluster.change_node(NODE, annotations={ANNOTATION: text}, taints=(OTHER, JOINED))


def taints(world: World) -> list[str]:
    return [taint.key for taint in world.node.taints]


def test_verified_node_loses_only_its_own_taint(world: World) -> None:
    tell(world, json.dumps(asdict(said(world.node))))
    assert release_verified(world.cluster) == ([NODE], {})
    assert taints(world) == [OTHER.key]
    assert release_verified(world.cluster) == ([], {})


KEPT: dict[str, tuple[str | dict[str, object] | None, str]] = {
    "it printed nothing": (None, "it has not reported its state"),
    "what it says is not valid JSON": ("{", "it has not reported its state"),
    "what it says is something else": ('{"verified": true}', "it has not reported its state"),
    "it was as planned before it booted": (
        {"boot_id": "another"},
        "its report is from an earlier boot",
    ),
    "it is not as planned": ({"verified": False, "says": "1 of 60 is not kept"}, "1 of 60 is not kept"),
}


@pytest.mark.parametrize("case", KEPT)
def test_unverified_node_keeps_its_taint(case: str, world: World) -> None:
    told, why = KEPT[case]
    if isinstance(told, dict):
        told = json.dumps(asdict(said(world.node, **told)))
    world.cluster.change_node(NODE, annotations={ANNOTATION: told} if told else {}, taints=(JOINED,))
    assert release_verified(world.cluster) == ([], {NODE: why})
    assert taints(world) == [UNVERIFIED]


def test_node_changed_meanwhile_keeps_its_taint(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(world, json.dumps(asdict(said(world.node))))
    lift = world.cluster.lift_taint

    def meanwhile(node: ClusterNode, key: str) -> ClusterNode:
        world.cluster.change_node(NODE, labels={"meanwhile": "1"})
        return lift(node, key)

    monkeypatch.setattr(world.cluster, "lift_taint", meanwhile)
    released, kept = release_verified(world.cluster)
    assert (released, list(kept)) == ([], [NODE])
    with pytest.raises(ConflictError):
        lift(replace(world.node, resource_version="0"), UNVERIFIED)


def test_rollout_status_shows_self_planned_nodes(world: World) -> None:
    tell(world, json.dumps(asdict(said(world.node, verified=False, says="why"))))
    (status,) = situation(world.cluster).nodes
    assert (status.own and status.own.verdict, status.tainted, status.trouble) == ("why", True, "")


def test_unreadable_annotation_is_reported(world: World) -> None:
    tell(world, "[]")
    (status,) = situation(world.cluster).nodes
    assert status.trouble == f"the annotation {ANNOTATION} cannot be read"
    assert self_planned(world.node) is None


def test_nodes_in_the_roll_out_are_not_listed_as_self_planned(world: World) -> None:
    tell(world, json.dumps(asdict(said(world.node))))
    nodes = world.cluster.nodes()
    assert list(plan_themselves(nodes, set())) == [NODE]
    assert plan_themselves(nodes, {NODE}) == {}
