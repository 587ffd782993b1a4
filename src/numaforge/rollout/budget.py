"""How many nodes may be out of service together, and why a node has to wait."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.kubernetes_objects import CLIQUE
from numaforge.lib.ordering import first_of
from numaforge.rollout.cluster import Cluster, ClusterNode
from numaforge.rollout.control_plane import beside, control_plane_nodes, is_control_plane
from numaforge.rollout.names import DEFAULT_POOL
from numaforge.rollout.other_tools import foreign
from numaforge.rollout.steps import Clock

_SHOWN = 5
FRESH_SECONDS = 10.0

COMPUTE_DOMAIN = "resource.nvidia.com/computeDomain"
"""The label that NVIDIA's DRA driver sets while a Node is in a ComputeDomain; its value is that one's UID."""


@dataclass(frozen=True)
class Share:
    """A number of nodes, or a percentage of the pool, rounded down and at least one."""

    count: int | None = None
    percent: int | None = None

    @classmethod
    def parse(cls, text: str | int, where: str = "max_unavailable") -> Share:
        """Read "3" or "10%"; raises NumaforgeError for anything else, and for zero."""
        match = re.fullmatch(r"(\d+)(%?)", str(text).strip())
        if not match or int(match[1]) == 0 or (match[2] and int(match[1]) > 100):
            raise NumaforgeError(
                f"{str(text)!r} is not a budget",
                where=where,
                remedy="give a number of nodes from 1, or a percentage from 1% to 100%",
            )
        return cls(percent=int(match[1])) if match[2] else cls(count=int(match[1]))

    def of(self, nodes: int) -> int:
        if self.count is not None:
            return self.count
        return max(1, nodes * (self.percent or 0) // 100)

    def __str__(self) -> str:
        return str(self.count) if self.count is not None else f"{self.percent}%"


@dataclass(frozen=True)
class Budget:
    """What may be out of service at a time.

    `max_unavailable` counts every node of the pool (a label selector) that is out of service, for any reason.
    With `domain`, a label such as topology.kubernetes.io/zone, at most `domains_at_once` of its values are in
    progress together, and at most `max_unavailable_per_domain` nodes of each; without it, racks are the
    domains, and a node outside any rack waits for no domain. Nodes of a ComputeDomain wait until it has
    ended, unless `ends_compute_domains`. Control-plane nodes are taken one at a time, in the pool or not;
    `control_plane_outage` permits taking a node without which the API is unavailable.
    """

    max_unavailable: Share = Share(count=1)
    pool: str = DEFAULT_POOL
    domain: str | None = None
    domains_at_once: int = 1
    max_unavailable_per_domain: Share | None = None
    control_plane_outage: bool = False
    ends_compute_domains: bool = False

    def domain_of(self, node: ClusterNode) -> str:
        """Return the node's failure domain, "" where there is none."""
        if self.domain:
            return node.labels.get(self.domain, "")
        return node.labels.get(CLIQUE, "").rpartition(".")[0]

    def called(self, domains: Iterable[str]) -> str:
        """Return failure domains as messages name them: LABEL=VALUES, or rack=VALUES."""
        return f"{self.domain or 'rack'}={', '.join(sorted(domains))}"


def out_of_service(node: ClusterNode) -> bool:
    """Whether a node is unavailable to pods now."""
    return node.unschedulable or not node.ready or node.deleting or foreign(node) is not None


@dataclass(frozen=True)
class Pool:
    """The nodes that share a budget; `out` are out of service, `control_plane` only where requested."""

    budget: Budget
    nodes: Mapping[str, ClusterNode]
    out: frozenset[str]
    control_plane: Mapping[str, ClusterNode] = field(default_factory=dict)

    @classmethod
    def of(cls, budget: Budget, nodes: Iterable[ClusterNode], earlier: Pool | None = None) -> Pool:
        """Return the pool of these nodes; a node unchanged since `earlier` keeps its state from there."""
        by_name = {node.name: node for node in nodes}
        old, old_out = (earlier.nodes, earlier.out) if earlier else ({}, frozenset())
        out = frozenset(
            name
            for name, node in by_name.items()
            if (
                name in old_out
                if (was := old.get(name)) is not None and was.resource_version == node.resource_version
                else out_of_service(node)
            )
        )
        return cls(budget, by_name, out)

    def outside(self, node: ClusterNode) -> str | None:
        """Return why no budget covers a node, which therefore must not be begun; None where one does."""
        if node.name in self.nodes or is_control_plane(node):
            return None
        return outside_the_pool(self.budget)

    def domain_of(self, name: str) -> str:
        """Return a node's failure domain, "" for a node outside the pool."""
        node = self.nodes.get(name)
        return self.budget.domain_of(node) if node else ""

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The number of nodes by failure domain."""
        return Counter(self.budget.domain_of(node) for node in self.nodes.values())

    def usage(self, in_work: Iterable[str]) -> Usage:
        """Return what is out of service, given the nodes in progress."""
        return Usage(self, frozenset(in_work))


@dataclass(frozen=True)
class Usage:
    """The nodes of a pool that are out of service: those in progress, and those out for other reasons."""

    pool: Pool
    in_work: frozenset[str]

    def taking(self, node: ClusterNode) -> Usage:
        """Return the usage with one more node in progress."""
        return Usage(self.pool, self.in_work | {node.name})

    def refusal(self, node: ClusterNode) -> str | None:
        """Return why a node may not be taken out of service now, None where it may."""
        if outside := self.pool.outside(node):
            return outside
        if is_control_plane(node) and (reason := beside(node, self.pool.control_plane, self.in_work)):
            return reason
        if node.name not in self.pool.nodes:
            return None
        return self._over_budget(node) or self.ended_with(node)

    def _over_budget(self, node: ClusterNode) -> str | None:
        budget = self.pool.budget
        out = (self.in_work | self.pool.out) - {node.name}  # a node that is out already costs nothing
        limit = budget.max_unavailable.of(len(self.pool.nodes))
        if len(out) >= limit:
            return f"{len(out)} of at most {limit} nodes are out of service: {first_of(sorted(out), _SHOWN)}"
        domain = budget.domain_of(node)
        if not domain and not budget.domain:
            return None
        if budget.max_unavailable_per_domain is not None:
            limit = budget.max_unavailable_per_domain.of(self.pool.sizes.get(domain, 0))
            nearby = [name for name in out if self.pool.domain_of(name) == domain]
            if len(nearby) >= limit:
                return (
                    f"{len(nearby)} of at most {limit} nodes of {budget.called([domain])} are out of "
                    f"service: {first_of(sorted(nearby), _SHOWN)}"
                )
        working = (self.in_work - {node.name}) & self.pool.nodes.keys()
        begun = {self.pool.domain_of(name) for name in working} - {domain}
        if not budget.domain:
            begun.discard("")  # no rack
        return f"{budget.called(begun)} comes first" if len(begun) >= budget.domains_at_once else None

    def ended_with(self, node: ClusterNode) -> str | None:
        """Return which ComputeDomain would end with this node; None where none would, or where permitted."""
        running = node.labels.get(COMPUTE_DOMAIN)
        if running is None or self.pool.budget.ends_compute_domains:
            return None
        peers = sum(node.labels.get(COMPUTE_DOMAIN) == running for node in self.pool.nodes.values()) - 1
        return (
            f"it is in ComputeDomain {running} with {peers} more of the pool, whose work would end with it: "
            "that is waited for (ends_compute_domains)"
        )


class CachedPool:
    """The pool as last seen: other changes than slots may be seen a few seconds late, until one is taken."""

    def __init__(self, cluster: Cluster, budget: Budget, clock: Clock) -> None:
        self._cluster = cluster
        self._budget = budget
        self._clock = clock
        self._seen = float("-inf")
        self._pool = Pool.of(budget, ())

    def pool(self, *, now: bool = False, control_plane: bool = False) -> Pool:
        """Return the pool; `now` lists it again; the few nodes of the `control_plane` are read every time."""
        if now or self._clock() - self._seen >= FRESH_SECONDS:
            self._pool = Pool.of(self._budget, self._cluster.nodes(self._budget.pool), self._pool)
            self._seen = self._clock()
        if not control_plane:
            return self._pool
        return replace(self._pool, control_plane=control_plane_nodes(self._cluster))


def outside_the_pool(budget: Budget) -> str:
    """Return the message that a node is in no pool, and what would be accepted."""
    return (
        f"its node is outside the pool {budget.pool!r} and not of the control plane: give a pool (a label "
        "selector) that selects it, or label the node so that it is selected"
    )
