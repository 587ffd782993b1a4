"""Nodes that plan themselves, as they say it on their Node: an annotation that the kubelet's login writes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from numaforge.rollout.cluster import Cluster, ClusterNode, ConflictError

ANNOTATION = "numaforge.io/boot"
CONDITION = "numaforge.io/Verified"
UNVERIFIED = "numaforge.io/unverified"
"""The key of the taint with which such a node joins, where its profile says so."""
MOST_SAID = 1000


@dataclass(frozen=True)
class SelfPlanned:
    """What a node says of itself: its profile, who named it, the plan's digest, and whether it is as planned.

    `says` is why it is not, `boot_id` the boot in which it was `checked_at`. It is the node's own word.
    """

    profile: str
    named_by: str
    plan: str
    version: str
    boot_id: str
    verified: bool
    says: str
    checked_at: str

    @property
    def verdict(self) -> str:
        """How it is, in words."""
        return "as planned" if self.verified else self.says or "not as planned"


_READ = TypeAdapter(SelfPlanned)


def self_planned(node: ClusterNode) -> SelfPlanned | None:
    """Return what a node says of itself; None where it says nothing, or what cannot be read."""
    text = node.annotations.get(ANNOTATION)
    if text is None:
        return None
    try:
        return _READ.validate_json(text)
    except ValidationError:
        return None


def plan_themselves(nodes: Iterable[ClusterNode], changed: Collection[str]) -> dict[str, SelfPlanned]:
    """Return what nodes say that plan themselves and are not among those that a roll-out sees to, by name."""
    found = {node.name: self_planned(node) for node in nodes if node.name not in changed}
    return {name: said for name, said in found.items() if said is not None}


def is_tainted(node: ClusterNode) -> bool:
    """Say whether a node still has the taint with which it has joined."""
    return any(taint.key == UNVERIFIED for taint in node.taints)


def why_not_released(node: ClusterNode) -> str | None:
    """Say why a tainted node is to keep its taint; None where it has verified itself in this very boot."""
    said = self_planned(node)
    if said is None:
        return "it has not said how it is"
    if said.boot_id != node.boot_id:
        return "what it has said is of an earlier boot"
    return None if said.verified else said.verdict


def release_verified(cluster: Cluster) -> tuple[list[str], dict[str, str]]:
    """Lift the taint of every node that has verified itself; return whose, and why others keep theirs."""
    released: list[str] = []
    kept: dict[str, str] = {}
    for node in cluster.nodes():
        if not is_tainted(node):
            continue
        why = why_not_released(node)
        if why is None:
            try:
                cluster.lift_taint(node, UNVERIFIED)
            except ConflictError:
                why = "it has changed meanwhile: run again"
        if why is None:
            released.append(node.name)
            cluster.tell(node, "Released", f"has verified itself: the taint {UNVERIFIED} is lifted")
        else:
            kept[node.name] = why
    return released, kept
