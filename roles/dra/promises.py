"""Who hands out the GPUs of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.kubelet.admission.nvidia_resources import GPU
from numaforge.lib.quantity import parse_quantity
from numaforge.roles.promise import Promise, Table, require

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.cluster import ApiServer
    from numaforge.verification.live import VerifiedNode


def by_claims_alone(plan: NodePlan) -> Table:
    """GPUs allocated by claims are not also offered by a device plugin."""
    return {GPU: 0} if plan.dra and plan.dra.gpus else {}


def _no_device_plugin(node: VerifiedNode, name: str, expected: int, cluster: ApiServer) -> None:
    quantity = cluster.resources(node.live.node_name, "allocatable").get(name, "0")
    require(
        parse_quantity(quantity) == expected,
        f"a device plugin offers {quantity}, planned {expected}: remove it, a DRA driver allocates GPUs",
    )


PROMISES = (Promise("no_device_plugin", by_claims_alone, _no_device_plugin),)
