"""The reserved CPUs, as the node's watch reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.metric import Family, Stated

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def families(plan: NodePlan) -> tuple[Family, ...]:
    """Return the reserved CPUs, each with its NUMA node; "" where the kernel shows none."""
    numa = {cpu: str(node.id) for node in plan.memory.numa_nodes for cpu in node.cpus}
    samples = tuple(
        Stated({"cpu": str(cpu), "numa": numa.get(cpu, "")}) for cpu in sorted(plan.cpus.reserved)
    )
    return (
        Family(
            "numaforge_plan_reserved_cpu",
            "gauge",
            "A CPU that pods with CPUs of their own never get.",
            samples,
        ),
    )
