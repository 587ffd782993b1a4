"""Where a pod or a gang would go, why not elsewhere, and what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from numaforge.explain.candidates import Candidate, SaidOfPod
from numaforge.explain.placement import Placement, likely, place
from numaforge.explain.remedies import Remedy, aligning, pinning, remedies
from numaforge.explain.workload import GangPod, Workload


@dataclass(frozen=True)
class OfNode:
    """The verdict on one pod on one node, and how many pods of the workload are placed there."""

    node: str
    judgement: SaidOfPod
    placed: int
    not_seen: tuple[str, ...]
    doubts: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """The answer for one workload.

    `fit` pods can be placed now, one after another, on nodes where scheduler and kubelet agree. `verdicts`
    are those on the pod `about`: the first that does not fit once the others are placed, else the first.
    `likely` is the node that the scheduler prefers for the first pod. `domain` is the value of the label that
    all nodes must share: the one with which the most pods fit.
    """

    workload: Workload
    fit: int
    about: GangPod
    verdicts: tuple[OfNode, ...]
    likely: str | None
    remedies: tuple[Remedy, ...] = ()
    domain: str | None = None

    @property
    def fits(self) -> bool:
        """Whether enough pods fit to start together."""
        return self.fit >= self.workload.least

    @property
    def disagreeing(self) -> tuple[OfNode, ...]:
        """The nodes that the scheduler accepts, but whose kubelets refuse the pod."""
        return tuple(each for each in self.verdicts if each.judgement.disagrees)


def explain(workload: Workload, nodes: Sequence[Candidate]) -> tuple[Explanation, tuple[Candidate, ...]]:
    """Place as much of a workload as fits, and explain why the rest does not.

    Also returns the nodes: with its pods where it fits, else as they were.
    """
    members = workload.members
    if not members:
        raise ValueError("a workload without pods")
    placement = place(workload.units, nodes)
    fit = len(placement.where)
    whole = fit == len(members)
    about = members[0 if whole else fit]
    seen = nodes if whole else placement.nodes
    counts = Counter(placement.where)
    found = Explanation(
        workload=workload,
        fit=fit,
        about=about,
        verdicts=tuple(
            OfNode(each.name, each.judge(about), counts[each.name], each.not_seen(about), each.doubts)
            for each in seen
        ),
        likely=likely(members[0], nodes),
        domain=placement.domain,
    )
    return replace(found, remedies=_remedies(found, nodes, placement)), (
        placement.nodes if found.fits else tuple(nodes)
    )


def _remedies(found: Explanation, nodes: Sequence[Candidate], placement: Placement) -> tuple[Remedy, ...]:
    if found.workload.least > len(found.workload.members):
        return ()  # pods are missing, not room
    if not found.fits:
        return remedies(found.workload, found.about, nodes, placement)
    if len(found.workload.members) > 1:
        return ()
    refusing = {each.node for each in found.disagreeing}
    open_to = [each for each in nodes if each.name in refusing]
    helpful = remedies(found.workload, found.about, open_to, Placement(tuple(open_to), ())) if open_to else ()
    return (*helpful, *pinning(found.about, nodes), *aligning(found.about, nodes))
