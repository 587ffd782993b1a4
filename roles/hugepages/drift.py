"""Whether a machine still has the planned pools of huge pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.findings.drift import DriftRule
from numaforge.findings.engine import Seen
from numaforge.findings.finding import Severity
from numaforge.roles.hugepages.plan import pools_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numaforge.planning.plan import NodePlan
    from numaforge.topology.model import HugepagePool, NodeTopology


def _pools(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
    pools: dict[int | None, Mapping[str, HugepagePool]] = {None: machine.hugepages}
    pools |= {node.id: node.hugepages for node in machine.numa_nodes}
    for place, wanted in pools_of(plan).items():
        for size, pages in sorted(wanted.items()):
            pool = pools.get(place, {}).get(size)
            there = pool.total if pool else 0
            if there != pages:
                where = size if place is None else f"{size} on NUMA node {place}"
                yield Seen(f"{there} pages, planned {pages}", where)


DRIFT = (DriftRule("NP103", Severity.ERROR, "huge pages are not as planned", _pools),)
