"""The hosts that a roll-out refuses from the beginning, and why; it continues with the others."""

from collections.abc import Collection, Iterable, Mapping

from numaforge.machine.topology.trays import NODE_LISTS, Disagreement, disagreements
from numaforge.rollout.budget import Budget, outside_the_pool
from numaforge.rollout.cluster import Cluster, ClusterNode, Lease
from numaforge.rollout.configz import not_readable, unreadable_refusal
from numaforge.rollout.control_plane import ControlPlane, is_control_plane, refused_outage
from numaforge.rollout.in_place import UNPROTECTED
from numaforge.rollout.launch import HostNeeds, Survey
from numaforge.rollout.record import unfinished
from numaforge.rollout.same_machine import claimed_twice, other_address

RACK_REMEDY = (
    "give every tray of the clique the same imex.nodes, in the profile of the inventory's group of the clique"
)


def refusals(
    cluster: Cluster,
    nodes: Mapping[str, ClusterNode],
    leases: Mapping[str, Lease],
    survey: Survey,
    budget: Budget,
) -> dict[str, str]:
    """Return why hosts cannot be changed, by host; `nodes` and their `leases` are the cluster's, by name.

    A host's own refusal precedes, nearest to the cause; then whether it is its Node; then that Node's state.
    """
    joined = [needs for needs in survey.needs if needs.joined]
    unreadable = {needs.host: needs.unreadable for needs in survey.needs if needs.unreadable}
    return {
        **_of_no_pool(cluster, nodes, leases, survey, budget),
        **{host: unreadable_refusal(why) for host, why in not_readable(cluster, unreadable).items()},
        **{needs.host: why for needs in survey.needs if (why := _refusal_of(needs, nodes))},
        **claimed_twice({needs.host: needs.node for needs in joined}),
        **survey.refused,
    }


def _of_no_pool(
    cluster: Cluster,
    nodes: Mapping[str, ClusterNode],
    leases: Mapping[str, Lease],
    survey: Survey,
    budget: Budget,
) -> dict[str, str]:
    """Return hosts that no budget covers or the control plane needs, but those in a roll-out already."""
    begun = [needs for needs in _to_begin(survey, nodes, leases) if needs.joined and needs.node in nodes]
    changing = {needs.host: nodes[needs.node] for needs in begun}
    if not changing:
        return {}
    pool = {node.name for node in cluster.nodes(budget.pool)}
    of_control_plane = {host: node for host, node in changing.items() if is_control_plane(node)}
    reasons = {
        host: outside_the_pool(budget)
        for host, node in changing.items()
        if node.name not in pool and host not in of_control_plane
    }
    if of_control_plane and not budget.control_plane_outage:
        control_plane = ControlPlane.look(cluster)
        for host, node in of_control_plane.items():
            if outage := refused_outage(control_plane, node.name):
                reasons[host] = outage
    return reasons


def _to_begin(
    survey: Survey, nodes: Mapping[str, ClusterNode], leases: Mapping[str, Lease]
) -> list[HostNeeds]:
    """Return the hosts that change; a node that is already in a roll-out is finished in any case."""
    begun = unfinished(leases.values())
    return [
        needs
        for needs in survey.needs
        if not (needs.joined and needs.node in begun)
        if needs.changes
        or (needs.joined and needs.node in nodes and needs.drains(nodes[needs.node], leases.get(needs.node)))
    ]


def unknown_node(needs: HostNeeds, nodes: Mapping[str, ClusterNode]) -> str:
    return (
        f"the cluster knows no node {needs.node}; it has {len(nodes)} others: check kubeconfig and context; "
        "the node has the host's name, or what the kubelet's --hostname-override says"
    )


def _refusal_of(needs: HostNeeds, nodes: Mapping[str, ClusterNode]) -> str | None:
    if needs.joined and needs.node not in nodes:
        return unknown_node(needs, nodes)
    if needs.joined:
        return other_address(nodes[needs.node], needs.access, nodes.values) if needs.access else None
    if needs.reboots and "max_unavailable" not in needs.said:
        return UNPROTECTED
    return None


def disagreeing(survey: Survey, refused: Collection[str] = ()) -> tuple[Disagreement, ...]:
    """Return what the trays of one rack would disagree in; `refused` hosts stay as they are."""
    trays = {
        needs.host: needs.tray if needs.host in refused else needs.tray_planned for needs in survey.needs
    }
    return disagreements({host: tray for host, tray in trays.items() if tray is not None})


def held_back(
    found: Iterable[Disagreement],
    survey: Survey,
    nodes: Mapping[str, ClusterNode],
    leases: Mapping[str, Lease],
) -> dict[str, Disagreement]:
    """Return changing hosts of cliques whose lists of IMEX nodes differ, but those in a roll-out already."""
    changing = {needs.host for needs in _to_begin(survey, nodes, leases)}
    return {
        host: disagreement
        for disagreement in found
        if disagreement.what == NODE_LISTS
        for host in disagreement.hosts
        if host in changing
    }
