"""A preview of a roll-out: each host's turn, the pods that would go, and what is in the way."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from numaforge.roles.device_owners import DRA_DRIVER
from numaforge.rollout.cluster import Cluster, ClusterNode, ClusterPod, DisruptionBudget, Lease
from numaforge.rollout.control_plane import is_control_plane
from numaforge.rollout.drain import budgets_of, sort_pods
from numaforge.rollout.fleet import Member, in_order
from numaforge.rollout.labels import retired, to_set
from numaforge.rollout.launch import HostNeeds, Survey
from numaforge.rollout.node import obstacles
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.owners import device_owner
from numaforge.rollout.record import labels_set, read_ended, read_unfinished, unreadable
from numaforge.rollout.shards import Stage


@dataclass(frozen=True)
class NodeOutlook:
    """One node that would be taken out of service, or is in a roll-out already; what is `in_the_way` now.

    `evicted` counts the pods that would go, `waits_for` names what a drain would wait for. `unpinned` has the
    number of exclusive CPUs by pod, for pods that would share CPUs when they come back.
    """

    needs: HostNeeds
    domain: str
    evicted: int
    waits_for: tuple[str, ...]
    in_the_way: tuple[str, ...]
    allocatable: dict[str, tuple[str, str]]  # changes: the present quantity, and the predicted one
    labels: dict[str, tuple[str | None, str | None]] = field(default_factory=dict)  # the same of labels
    unpinned: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class UndrainedOutlook:
    """One host that would be changed without a drain; `in_the_way` names what would block it now."""

    needs: HostNeeds
    stage: Stage
    in_the_way: tuple[str, ...] = ()


def look_ahead(
    cluster: Cluster,
    nodes: Mapping[str, ClusterNode],
    leases: Mapping[str, Lease],
    survey: Survey,
    options: RolloutOptions,
    refused: Collection[str] = (),
) -> list[NodeOutlook]:
    """Return the nodes that would be drained, in order; `nodes` and `leases` are the cluster's, by name."""
    budgets = cluster.disruption_budgets()
    cut_by_driver = (
        cluster.dynamic_mig() if any(DRA_DRIVER.devices in needs.devices for needs in survey.needs) else []
    )
    drained = [needs for needs in survey.needs if needs.host not in refused and _drains(needs, nodes, leases)]
    return [
        _outlook_of(
            needs, nodes[needs.node], leases.get(needs.node), cluster, budgets, options, cut_by_driver
        )
        for needs, _ in _in_turn(drained, nodes, options, drains=True)
    ]


def look_further(
    nodes: Mapping[str, ClusterNode],
    leases: Mapping[str, Lease],
    survey: Survey,
    options: RolloutOptions,
    refused: Collection[str] = (),
) -> list[UndrainedOutlook]:
    """Return the hosts that would be changed without a drain, in order."""
    undrained = [
        needs
        for needs in survey.needs
        if needs.host not in refused and needs.changes and not _drains(needs, nodes, leases)
    ]
    outlooks = []
    for needs, stage in _in_turn(undrained, nodes, options, drains=False):
        troubles: list[str] = []
        if needs.joined:
            node = nodes[needs.node]
            troubles = obstacles(node, read_ended(leases.get(node.name), node), include_cordoned=True)
        outlooks.append(UndrainedOutlook(needs, stage, tuple(troubles)))
    return outlooks


def _drains(needs: HostNeeds, nodes: Mapping[str, ClusterNode], leases: Mapping[str, Lease]) -> bool:
    return needs.joined and needs.drains(nodes[needs.node], leases.get(needs.node))


def _in_turn(
    hosts: Iterable[HostNeeds], nodes: Mapping[str, ClusterNode], options: RolloutOptions, *, drains: bool
) -> list[tuple[HostNeeds, Stage]]:
    """Return hosts in the order of a roll-out, each with its stage."""
    by_host = {needs.host: needs for needs in hosts}
    members = [
        Member(
            needs.host,
            needs.node if needs.joined else None,
            drains,
            control_plane=needs.joined and is_control_plane(nodes[needs.node]),
        )
        for needs in by_host.values()
    ]
    ordered = in_order(members)
    ordered.sort(key=lambda member: (member.stage.turn, member.host not in options.canary_hosts))
    return [(by_host[member.host], member.stage) for member in ordered]


def _outlook_of(
    needs: HostNeeds,
    node: ClusterNode,
    lease: Lease | None,
    cluster: Cluster,
    budgets: Sequence[DisruptionBudget],
    options: RolloutOptions,
    cut_by_driver: Collection[str],
) -> NodeOutlook:
    running = cluster.pods(node.name)
    pods = sort_pods(running, options.for_node().drain)
    set_labels = labels_set(lease, node)
    changes = to_set(node, needs.labels, set_labels)
    owner = device_owner(
        node, needs.devices, changes, pods=lambda: running, cut_by_driver=lambda: cut_by_driver
    )
    in_the_way = [
        *_own_troubles(node, lease, options),
        *(str(blocker) for blocker in pods.forbidden),
        *filter(None, [owner, needs.ended_work]),
    ]
    return NodeOutlook(
        needs=needs,
        domain=options.budget().domain_of(node),
        evicted=len(pods.evict),
        waits_for=tuple(line for pod in pods.evict for line in _budget_troubles(pod, budgets)),
        in_the_way=tuple(in_the_way),
        allocatable={
            name: (node.allocatable.get(name, "0"), quantity) for name, quantity in needs.allocatable.items()
        },
        labels={
            name: (node.labels.get(name), value)
            for name, value in {**retired(node, needs.labels, set_labels), **(needs.labels or {})}.items()
            if node.labels.get(name) != value
        },
        unpinned={str(pod): pod.whole_cpus for pod in running if pod.whole_cpus} if needs.unpins else {},
    )


def _own_troubles(node: ClusterNode, lease: Lease | None, options: RolloutOptions) -> list[str]:
    if lease is not None and (trouble := unreadable(lease)):
        return [trouble]
    if (record := read_unfinished(lease)) is not None:
        return [f"in the middle of a roll-out ({record.phase}): resume or abort it"]
    return obstacles(node, read_ended(lease, node), include_cordoned=options.include_cordoned)


def _budget_troubles(pod: ClusterPod, budgets: Sequence[DisruptionBudget]) -> list[str]:
    selecting = budgets_of(pod, budgets)
    if len(selecting) > 1:
        return [f"{pod}: more than one PodDisruptionBudget selects it: {', '.join(map(str, selecting))}"]
    return [
        f"{pod}: PodDisruptionBudget {budget} allows no disruption now"
        for budget in selecting
        if budget.disruptions_allowed < 1
    ]
