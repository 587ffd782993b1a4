"""Which other tool sets a node's devices, by the evidence of its cluster."""

from collections.abc import Callable, Collection, Sequence

from numaforge.lib.kubernetes_objects import ENDED_PHASES
from numaforge.roles.device_owners import OWNERS, DeviceOwner
from numaforge.rollout.cluster import ClusterNode, ClusterPod
from numaforge.rollout.labels import Labels


def device_owner(
    node: ClusterNode,
    devices: Collection[str],
    changes: Labels,
    *,
    pods: Callable[[], Sequence[ClusterPod]],
    cut_by_driver: Callable[[], Collection[str]],
) -> str | None:
    """Return which other tool sets some of the plan's `devices`, in words; None where there is none.

    `changes` are those of the node's labels: one of ours that goes with it is no other tool's. `pods` and
    `cut_by_driver` (nodes that NVIDIA's DRA driver partitions) are called only where they matter.
    """
    labels = {**node.labels, **changes}

    def owns(owner: DeviceOwner) -> bool:
        if owner.by_driver:
            return node.name in cut_by_driver()
        if not labels.get(owner.label):
            return False
        return not owner.pod or any(is_there(owner, pod) for pod in pods())

    return next((owner.message for owner in OWNERS if owner.devices in devices and owns(owner)), None)


def is_there(owner: DeviceOwner, pod: ClusterPod) -> bool:
    """Whether this is the tool's pod, and has not ended."""
    return owner.pod.items() <= pod.labels.items() and pod.phase not in ENDED_PHASES
