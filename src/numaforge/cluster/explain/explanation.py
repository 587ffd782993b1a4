"""Where a pod or a gang would go, why not elsewhere, and remedies."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from numaforge.cluster.explain.candidates import Candidate, SaidOfPod
from numaforge.cluster.explain.placement import Placement, likely, place
from numaforge.cluster.explain.remedies import Remedy, aligning, pinning, remedies
from numaforge.cluster.explain.workload import GangPod, Unit, Workload
from numaforge.kubelet.admission.alignment import explain_gpus
from numaforge.kubelet.admission.qos import Remark


class OfNode(NamedTuple):
    """The verdict on one pod on one node, and how many pods of the workload are placed there."""

    node: str
    judgement: SaidOfPod
    placed: int
    not_seen: tuple[str, ...]
    doubts: tuple[str, ...]


class Explanation(NamedTuple):
    """The answer for one workload.

    `fit` pods can be placed now, in order, on nodes where scheduler and kubelet agree. `verdicts` are on the
    pod `about`: the first that does not fit after the others, else the first. `likely` is the scheduler's
    preferred node for the first pod. `domain` is the label value that all nodes must share: the one that fits
    the most pods. `update_waits`: all fit, and there is no room for the one that an update adds first.
    `remarks` are on the pod `about`.
    """

    workload: Workload
    fit: int
    about: GangPod
    verdicts: tuple[OfNode, ...]
    likely: str | None
    remedies: tuple[Remedy, ...] = ()
    domain: str | None = None
    update_waits: bool = False
    remarks: tuple[Remark, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether enough pods fit to start together."""
        return self.fit >= self.workload.least

    @property
    def disagreeing(self) -> tuple[OfNode, ...]:
        """The nodes that the scheduler accepts and the kubelet refuses."""
        return tuple(verdict for verdict in self.verdicts if verdict.judgement.disagrees)


def explain(workload: Workload, nodes: Sequence[Candidate]) -> tuple[Explanation, tuple[Candidate, ...]]:
    """Place what fits of a workload and explain the rest; also return the nodes, with its pods if it fits."""
    members = workload.members
    if not members:
        raise ValueError("a workload without pods")
    placement = place(workload.units, nodes)
    fit = len(placement.where)
    all_fit = fit == len(members)
    about = members[0 if all_fit else fit]
    judged_nodes = nodes if all_fit else placement.nodes
    counts = Counter(placement.where)
    explanation = Explanation(
        workload=workload,
        fit=fit,
        about=about,
        verdicts=tuple(
            OfNode(node.name, node.judge(about), counts[node.name], node.not_seen(about), node.doubts)
            for node in judged_nodes
        ),
        likely=likely(members[0], nodes),
        domain=placement.domain,
        remarks=explain_gpus(about.pod, *(node.scenario.devices for node in nodes if node.scenario)),
        update_waits=all_fit and workload.surges and not place((Unit((about,)),), placement.nodes).where,
    )
    return explanation._replace(remedies=_remedies(explanation, nodes, placement)), (
        placement.nodes if explanation.fits else tuple(nodes)
    )


def _remedies(
    explanation: Explanation, nodes: Sequence[Candidate], placement: Placement
) -> tuple[Remedy, ...]:
    if explanation.workload.least > len(explanation.workload.members):
        return ()  # pods are missing, not room
    if not explanation.fits:
        return remedies(explanation.workload, explanation.about, nodes, placement)
    if len(explanation.workload.members) > 1:
        return ()
    refusing = {verdict.node for verdict in explanation.disagreeing}
    open_to = [node for node in nodes if node.name in refusing]
    helpful = (
        remedies(explanation.workload, explanation.about, open_to, Placement(tuple(open_to), ()))
        if open_to
        else ()
    )
    return (*helpful, *pinning(explanation.about, nodes), *aligning(explanation.about, nodes))
