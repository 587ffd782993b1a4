"""The node's Allocatable, as the cluster reports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.kubelet.config.comparison import same_memory
from numaforge.quantity import parse_quantity
from numaforge.verification.promise import Promise, Table, require

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.cluster import ApiServer
    from numaforge.verification.live import VerifiedNode


def allocatable(plan: NodePlan) -> Table:
    """Each resource of the node's Allocatable, as Kubernetes writes quantities."""
    return {} if plan.allocatable is None else dict(plan.allocatable.quantities)


def _allocatable(node: VerifiedNode, name: str, expected: str, cluster: ApiServer) -> None:
    quantities = cluster.allocatable(node.live.node_name)
    require(name in quantities, f"the node offers none, planned {expected}")
    found = quantities[name]
    if name == "memory":
        capacity, planned = cluster.capacity(node.live.node_name)[name], node.plan.memory.capacity_bytes
        require(same_memory(expected, found, planned, capacity), f"{found} of {capacity}, planned {expected}")
    else:
        require(parse_quantity(found) == parse_quantity(expected), f"{found}, planned {expected}")


PROMISES = (Promise("allocatable", allocatable, _allocatable),)
