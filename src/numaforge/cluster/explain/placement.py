"""Place pods in order, like a scheduler that knows each kubelet's answer."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from numaforge.cluster.explain.candidates import Candidate
from numaforge.cluster.explain.workload import GangPod, Unit
from numaforge.kubelet.admission.pod import shape_of_pod

_SAME = 1e-9


class Placement(NamedTuple):
    """The nodes with their placed pods, the node of each, and the value of the label `domain`, if shared."""

    nodes: tuple[Candidate, ...]
    where: tuple[str, ...]
    domain: str | None = None


def place(units: Sequence[Unit], nodes: Sequence[Candidate]) -> Placement:
    """Place pods in order until one does not fit, each on the emptiest accepting node.

    The pods of a unit with a domain go to nodes that share a value of that label: the first that fits all,
    else the one that fits the most. A node with an unknown label may have any value.
    """
    placement = Placement(tuple(nodes), ())
    for unit in units:
        placed = _place_unit(unit, placement.nodes)
        placement = Placement(placed.nodes, placement.where + placed.where, placement.domain or placed.domain)
        if len(placed.where) < len(unit.members):
            break
    return placement


def _place_unit(unit: Unit, nodes: Sequence[Candidate]) -> Placement:
    domain = unit.domain
    if domain is None:
        return _place(unit.members, nodes)
    unknown = {node.name for node in nodes if domain not in node.labels and not node.labels_known}
    values = sorted({node.labels[domain] for node in nodes if domain in node.labels})
    best = Placement(tuple(nodes), ())
    if not values:
        return _place(unit.members, nodes) if unknown else best
    for value in values:
        within = [node for node in nodes if node.labels.get(domain) == value or node.name in unknown]
        attempt = _place(unit.members, within)._replace(domain=value)
        if len(attempt.where) > len(best.where) or best.domain is None:
            best = attempt
        if len(attempt.where) == len(unit.members):
            break
    changed = {node.name: node for node in best.nodes}
    return best._replace(nodes=tuple(changed.get(node.name, node) for node in nodes))


def likely(member: GangPod, nodes: Sequence[Candidate]) -> str | None:
    """Return the node that the scheduler prefers for a pod; None where several are equally empty.

    By default it prefers the node with the largest free share, whatever the kubelet would answer; its other
    scores (images, spread, preferences) are ignored.
    """
    shares = {node.name: node.free_share for node in nodes if not node.judge(member).reasons}
    most = max(shares.values(), default=0.0)
    best = [name for name, share in shares.items() if share > most - _SAME]
    return best[0] if len(best) == 1 else None


def _place(members: Sequence[GangPod], nodes: Sequence[Candidate]) -> Placement:
    candidates = {node.name: node for node in nodes}
    alike: dict[Hashable, tuple[GangPod, dict[str, float]]] = {}
    where: list[str] = []
    for member in members:
        kind = shape_of_pod(member.pod), id(member.placing), member.claims
        if kind not in alike:
            fitting = {name: node.free_share for name, node in candidates.items() if node.judge(member).fits}
            alike[kind] = member, fitting
        fitting = alike[kind][1]
        if not fitting:
            break
        best = max(fitting, key=fitting.__getitem__)
        candidates[best] = candidates[best].placed(member)
        where.append(best)
        if candidates[best].has_claims(member):
            others = [(name, node) for name, node in candidates.items() if name != best]
            updated = {name: node.with_claims_of(candidates[best], member) for name, node in others}
            if any(updated[name] is not node for name, node in others):
                alike.clear()
            candidates |= updated
        for example, still in alike.values():
            still.pop(best, None)
            if candidates[best].judge(example).fits:
                still[best] = candidates[best].free_share
    return Placement(tuple(candidates.values()), tuple(where))
