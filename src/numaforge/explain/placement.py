"""Place pods one after another, like a scheduler that knows each kubelet's answer."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from numaforge.explain.candidates import Candidate
from numaforge.explain.workload import GangPod, Unit
from numaforge.kubelet.admission.pod import shape_of_pod

_SAME = 1e-9


@dataclass(frozen=True)
class Placement:
    """Pods placed one after another: the nodes afterwards, and the node of each pod.

    `domain` is the value of the label that all these nodes share, None where they need not.
    """

    nodes: tuple[Candidate, ...]
    where: tuple[str, ...]
    domain: str | None = None


def place(units: Sequence[Unit], nodes: Sequence[Candidate]) -> Placement:
    """Place pods one after another until one does not fit, each on the emptiest node that takes it.

    The pods of a unit with a domain go to nodes that share a value of that label: the first with which all
    fit, else the one with which the most do. A node whose label is not known may have any value.
    """
    placement = Placement(tuple(nodes), ())
    for unit in units:
        found = _place_unit(unit, placement.nodes)
        placement = Placement(found.nodes, placement.where + found.where, placement.domain or found.domain)
        if len(found.where) < len(unit.members):
            break
    return placement


def _place_unit(unit: Unit, nodes: Sequence[Candidate]) -> Placement:
    domain = unit.domain
    if domain is None:
        return _place(unit.members, nodes)
    unknown = {each.name for each in nodes if domain not in each.labels and not each.labels_known}
    values = sorted({each.labels[domain] for each in nodes if domain in each.labels})
    best = Placement(tuple(nodes), ())
    if not values:
        return _place(unit.members, nodes) if unknown else best
    for value in values:
        within = [each for each in nodes if each.labels.get(domain) == value or each.name in unknown]
        found = replace(_place(unit.members, within), domain=value)
        if len(found.where) > len(best.where) or best.domain is None:
            best = found
        if len(found.where) == len(unit.members):
            break
    changed = {each.name: each for each in best.nodes}
    return replace(best, nodes=tuple(changed.get(each.name, each) for each in nodes))


def likely(member: GangPod, nodes: Sequence[Candidate]) -> str | None:
    """Return the node that the scheduler prefers for a pod; None where several are equally empty.

    By default it prefers the node with the largest free share, whatever the kubelet would answer; its other
    scores (images, spread, preferences) are ignored.
    """
    shares = {each.name: each.free_share for each in nodes if not each.judge(member).reasons}
    most = max(shares.values(), default=0.0)
    best = [name for name, share in shares.items() if share > most - _SAME]
    return best[0] if len(best) == 1 else None


def _place(members: Sequence[GangPod], nodes: Sequence[Candidate]) -> Placement:
    now = {each.name: each for each in nodes}
    alike: dict[Hashable, tuple[GangPod, dict[str, float]]] = {}
    where: list[str] = []
    for member in members:
        kind = shape_of_pod(member.pod), id(member.placing), member.claims
        if kind not in alike:
            fitting = {name: each.free_share for name, each in now.items() if each.judge(member).fits}
            alike[kind] = member, fitting
        fitting = alike[kind][1]
        if not fitting:
            break
        best = max(fitting, key=fitting.__getitem__)
        now[best] = now[best].placed(member)
        where.append(best)
        if now[best].has_claims(member) and _tell(now, best, member):
            alike.clear()
        for example, still in alike.values():
            still.pop(best, None)
            if now[best].judge(example).fits:
                still[best] = now[best].free_share
    return Placement(tuple(now.values()), tuple(where))


def _tell(now: dict[str, Candidate], best: str, member: GangPod) -> bool:
    """Record a placed pod's claims on the other nodes; return whether any of them changed."""
    changed = False
    for name, each in now.items():
        if name != best and (beside := each.beside(now[best], member)) is not each:
            now[name], changed = beside, True
    return changed
