"""The GPUs that the node has to have, as it tells of them by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.watched import Family, Stated

if TYPE_CHECKING:
    from numaforge.roles.node import NodePlan


def families(plan: NodePlan) -> tuple[Family, ...]:
    """Return the GPUs; UUID and numa are "" where they are not known."""
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
