"""Hugepage pools per NUMA node: now, and at every boot before memory is fragmented."""

from __future__ import annotations

from pyinfra import host

from numaforge.hosts import planned, role, roles_of, seen, will_read
from numaforge.hugepages import differing
from numaforge.kernel_paths import hugepage_counts, hugepage_totals
from numaforge.planning.model import NodePlan
from numaforge.render import hugepage_files
from numaforge.topology.model import NodeTopology

from .facts import pools_question
from .operations import beside_kubelet, hugepage_pools, kubelet_runs

__all__ = ["hugepages"]


@role("Hugepages")
def hugepages() -> None:
    """Write the pools for the next boot, then fill them now.

    Where a kubelet of the plan runs, the pools are the role `kubelet`'s: they change while it is stopped.
    """
    plan = planned(host)
    if "kubelet" not in roles_of(host):
        _refuse_beside_kubelet(plan, seen(host))
    files, absent = hugepage_files(plan)
    pools = hugepage_counts(plan)
    will_read(host, pools_question(files, absent, pools).script)
    hugepage_pools(
        name="Write and fill the hugepage pools",
        files=files,
        absent=absent,
        pools=pools,
        kubelet=plan.kubelet,
    )


def _refuse_beside_kubelet(plan: NodePlan, machine: NodeTopology) -> None:
    """Judge by what was detected, before any role has touched the host."""
    now = hugepage_totals(machine)
    wanted = differing(hugepage_counts(plan), now)
    if wanted and plan.kubelet and kubelet_runs(host, plan.kubelet):
        raise beside_kubelet(wanted, now)
