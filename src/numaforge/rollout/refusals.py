"""Which hosts a roll-out leaves as they are from the beginning, and why; the others go on."""

from __future__ import annotations

from collections.abc import Mapping

from numaforge.rollout.cluster import Cluster, ClusterNode
from numaforge.rollout.configz import not_readable, unreadable_refusal
from numaforge.rollout.in_place import UNPROTECTED
from numaforge.rollout.launch import HostNeeds, Survey


def refusals(cluster: Cluster, nodes: Mapping[str, ClusterNode], survey: Survey) -> dict[str, str]:
    """Return why hosts cannot be changed, by host; `nodes` are the cluster's, by name.

    Those of the survey come first: what a host itself refuses is nearer to its cause.
    """
    unreadable = {each.host: each.unreadable for each in survey.needs if each.unreadable}
    return {
        **{host: unreadable_refusal(why) for host, why in not_readable(cluster, unreadable).items()},
        **{each.host: why for each in survey.needs if (why := _of(each, nodes))},
        **survey.refused,
    }


def unknown_node(needs: HostNeeds, nodes: Mapping[str, ClusterNode]) -> str:
    """Return what is said of a host whose Node is not in the cluster."""
    return (
        f"the cluster knows no node {needs.node}; it has {len(nodes)} others: check kubeconfig and context; "
        "the node has the host's name, or what the kubelet's --hostname-override says"
    )


def _of(needs: HostNeeds, nodes: Mapping[str, ClusterNode]) -> str | None:
    if needs.joined:
        return None if needs.node in nodes else unknown_node(needs, nodes)
    if needs.reboots and "max_unavailable" not in needs.said:
        return UNPROTECTED
    return None
