"""The GPUs that the node must have, as its watch reports them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.metric import Family, Stated

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def families(plan: NodePlan) -> tuple[Family, ...]:
    """Return the metric of the GPUs; UUID and numa are "" where unknown."""
    samples = tuple(
        Stated(
            {
                "UUID": gpu.uuid or "",
                "pci_bus_id": gpu.pci_address,
                "numa": "" if gpu.numa_node is None else str(gpu.numa_node),
            }
        )
        for gpu in (plan.watch.gpus if plan.watch else ())
    )
    return (Family("numaforge_plan_gpu", "gauge", "A GPU that the node had when it was planned.", samples),)
