"""Racks after a roll-out: what their trays would disagree in, and which hosts are held back for it."""

from collections.abc import Collection, Iterable, Mapping

from numaforge.machine.topology.trays import NODE_LISTS, Disagreement, disagreements
from numaforge.rollout.cluster import ClusterNode, Lease
from numaforge.rollout.launch import Survey
from numaforge.rollout.record import unfinished

REMEDY = (
    "give every tray of the clique the same imex.nodes, in the profile of the inventory's group of the clique"
)


def disagreeing(survey: Survey, refused: Collection[str] = ()) -> tuple[Disagreement, ...]:
    """Return what the trays of one rack would disagree in; `refused` hosts stay as they are."""
    trays = {
        needs.host: needs.tray if needs.host in refused else needs.tray_planned for needs in survey.needs
    }
    return disagreements({host: tray for host, tray in trays.items() if tray is not None})


def held_back(
    disagreements: Iterable[Disagreement],
    survey: Survey,
    nodes: Mapping[str, ClusterNode],
    leases: Mapping[str, Lease],
) -> dict[str, Disagreement]:
    """Return the hosts not to begin: changing hosts of a clique whose lists of IMEX nodes differ.

    A node that is already in a roll-out is finished nevertheless.
    """
    begun = unfinished(leases.values())
    changing = {
        needs.host
        for needs in survey.needs
        if not (needs.joined and needs.node in begun)
        if needs.changes
        or (needs.joined and needs.node in nodes and needs.drains(nodes[needs.node], leases.get(needs.node)))
    }
    return {
        host: disagreement
        for disagreement in disagreements
        if disagreement.what == NODE_LISTS
        for host in disagreement.hosts
        if host in changing
    }
