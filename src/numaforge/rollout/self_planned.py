"""Nodes that plan themselves, by the report on their Node: an annotation written with the kubelet's login."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from numaforge.rollout.cluster import Cluster, ClusterNode, ConflictError

ANNOTATION = "numaforge.io/boot"
CONDITION = "numaforge.io/Verified"
UNVERIFIED = "numaforge.io/unverified"
"""The key of the taint with which such a node joins, if its profile sets it."""
MOST_SAID = 1000


@dataclass(frozen=True)
class SelfPlanned:
    """A node's report: its profile and who named that, the plan's digest, and whether it is as planned.

    `says` is why it is not, `boot_id` the boot in which it was `checked_at`. All of it is self-reported.
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
        """The result as text."""
        return "as planned" if self.verified else self.says or "not as planned"


_READ = TypeAdapter(SelfPlanned)


def self_planned(node: ClusterNode) -> SelfPlanned | None:
    """Return a node's report; None where there is none, or none that can be read."""
    text = node.annotations.get(ANNOTATION)
    if text is None:
        return None
    try:
        return _READ.validate_json(text)
    except ValidationError:
        return None


def plan_themselves(nodes: Iterable[ClusterNode], changed: Collection[str]) -> dict[str, SelfPlanned]:
    """Return the reports of nodes that plan themselves and are not `changed` by a roll-out, by name."""
    reports = {node.name: self_planned(node) for node in nodes if node.name not in changed}
    return {name: report for name, report in reports.items() if report is not None}


def is_tainted(node: ClusterNode) -> bool:
    """Whether a node still has the taint with which it joined."""
    return any(taint.key == UNVERIFIED for taint in node.taints)


def why_not_released(node: ClusterNode) -> str | None:
    """Return why a tainted node must keep its taint; None where it has verified itself in this boot."""
    report = self_planned(node)
    if report is None:
        return "it has not reported its state"
    if report.boot_id != node.boot_id:
        return "its report is from an earlier boot"
    return None if report.verified else report.verdict


def release_verified(cluster: Cluster) -> tuple[list[str], dict[str, str]]:
    """Remove the taint of every node that has verified itself; return those, and why others keep theirs."""
    released: list[str] = []
    reasons: dict[str, str] = {}
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
            reasons[node.name] = why
    return released, reasons
