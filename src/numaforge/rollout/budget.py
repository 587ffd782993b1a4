"""How many nodes may be out of service together, and why one has to wait."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from numaforge.errors import NumaforgeError
from numaforge.rollout.cluster import ClusterNode
from numaforge.rollout.maintenance import foreign


@dataclass(frozen=True)
class Share:
    """A number of nodes, or a percentage of the pool, rounded down and at least one."""

    count: int | None = None
    percent: int | None = None

    @classmethod
    def parse(cls, text: str | int, where: str = "max_unavailable") -> Share:
        """Read "3" or "10%".

        Raises NumaforgeError for anything else, and for a budget of nothing.
        """
        found = re.fullmatch(r"(\d+)(%?)", str(text).strip())
        if not found or int(found[1]) == 0 or (found[2] and int(found[1]) > 100):
            raise NumaforgeError(
                f"{str(text)!r} is not a budget",
                where=where,
                remedy="give a number of nodes from 1, or a percentage from 1% to 100%",
            )
        return cls(percent=int(found[1])) if found[2] else cls(count=int(found[1]))

    def of(self, nodes: int) -> int:
        """Return how many nodes of so many this is."""
        if self.count is not None:
            return self.count
        return max(1, nodes * (self.percent or 0) // 100)

    def __str__(self) -> str:
        return str(self.count) if self.count is not None else f"{self.percent}%"


@dataclass(frozen=True)
class Budget:
    """What may be out of service at a time.

    `max_unavailable` counts every node of the pool (a label selector) that is out of service, for whatever
    reason. With `domain`, a label such as topology.kubernetes.io/zone, no more than `domains_at_once` of its
    values are worked on together, and no more than `max_unavailable_per_domain` nodes of each.
    """

    max_unavailable: Share = Share(count=1)
    pool: str = "!node-role.kubernetes.io/control-plane"
    domain: str | None = None
    domains_at_once: int = 1
    max_unavailable_per_domain: Share | None = None

    def domain_of(self, node: ClusterNode) -> str:
        """Return the node's failure domain, "" where there is none."""
        return node.labels.get(self.domain, "") if self.domain else ""


def out_of_service(node: ClusterNode) -> bool:
    """Say whether pods cannot count on a node now."""
    return node.unschedulable or not node.ready or node.deleting or foreign(node) is not None


@dataclass(frozen=True)
class Usage:
    """What of a pool is out of service: nodes by failure domain, those in a roll-out and the others."""

    size: int
    sizes: Mapping[str, int]
    elsewhere: Mapping[str, str]  # node out of service for reasons that are not ours -> its domain
    in_work: Mapping[str, str]  # node in a roll-out -> its domain

    @classmethod
    def of(cls, budget: Budget, nodes: Iterable[ClusterNode], in_work: Collection[str]) -> Usage:
        """Count a pool of which the nodes `in_work` hold a slot each."""
        size = 0
        sizes: dict[str, int] = {}
        elsewhere = {}
        working = dict.fromkeys(in_work, "")
        for node in nodes:
            size += 1
            domain = budget.domain_of(node)
            sizes[domain] = sizes.get(domain, 0) + 1
            if node.name in working:
                working[node.name] = domain
            elif out_of_service(node):
                elsewhere[node.name] = domain
        return cls(size, sizes, elsewhere, working)

    def taking(self, budget: Budget, node: ClusterNode) -> Usage:
        """Return the usage with one more node in work."""
        others = {name: domain for name, domain in self.elsewhere.items() if name != node.name}
        in_work = {**self.in_work, node.name: budget.domain_of(node)}
        return Usage(self.size, self.sizes, others, in_work)


def refusal(budget: Budget, usage: Usage, node: ClusterNode) -> str | None:
    """Say why a node may not be taken out of service now; None: it may."""
    limit = budget.max_unavailable.of(usage.size)
    out = {**usage.in_work, **usage.elsewhere}
    out.pop(node.name, None)  # one that is out of service already takes nothing more away
    if len(out) >= limit:
        return f"{len(out)} of at most {limit} nodes are out of service: {_named(out)}"
    if budget.domain is None:
        return None
    domain = budget.domain_of(node)
    if budget.max_unavailable_per_domain is not None:
        limit = budget.max_unavailable_per_domain.of(usage.sizes.get(domain, 0))
        there = [name for name, place in out.items() if place == domain]
        if len(there) >= limit:
            return (
                f"{len(there)} of at most {limit} nodes of {budget.domain}={domain} are out of service: "
                f"{_named(there)}"
            )
    begun = {*usage.in_work.values()}
    if domain not in begun and len(begun) >= budget.domains_at_once:
        return f"{budget.domain}={', '.join(sorted(begun))} comes first"
    return None


def _named(names: Iterable[str], at_most: int = 5) -> str:
    names = list(names)
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more
