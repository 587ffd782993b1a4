"""Whether a machine still has the planned pools of huge pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.findings.drift import DriftRule
from numaforge.findings.engine import Seen
from numaforge.findings.finding import Severity
from numaforge.roles.hugepages.plan import pools_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numaforge.machine.topology.model import HugepagePool, NodeTopology
    from numaforge.planning.plan import NodePlan


def _pools(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
    pools: dict[int | None, Mapping[str, HugepagePool]] = {None: machine.hugepages}
    pools |= {node.id: node.hugepages for node in machine.numa_nodes}
    for node_id, planned in pools_of(plan).items():
        for size, pages in sorted(planned.items()):
            pool = pools.get(node_id, {}).get(size)
            actual = pool.total if pool else 0
            if actual != pages:
                where = size if node_id is None else f"{size} on NUMA node {node_id}"
                yield Seen(f"{actual} pages, planned {pages}", where)


DRIFT = (DriftRule("NP103", Severity.ERROR, "huge pages are not as planned", _pools),)
