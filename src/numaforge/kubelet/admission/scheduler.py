"""What the scheduler refuses before a kubelet is asked: GPUs, or slices of them, that a node has not.

The kubelet itself passes over extended resources that it does not know (pkg/kubelet/lifecycle/predicate.go,
removeMissingExtendedResources), because the scheduler has counted them.
"""

from __future__ import annotations

from numaforge.kubelet.admission.demand import qos_class
from numaforge.kubelet.admission.gpu_resources import GPU_RESOURCE
from numaforge.kubelet.admission.node import UNSCHEDULABLE, Admission, Node
from numaforge.kubelet.admission.pod import Pod, pod_limits


def unschedulable(node: Node, pod: Pod) -> Admission | None:
    """Return the scheduler's refusal of a pod that asks for what the node does not offer, or None.

    All GPUs and slices that a node has are known here. Other resources may come from plugins that are not.
    """
    missing = tuple(
        resource
        for resource, quantity in pod_limits(pod).items()
        if quantity and GPU_RESOURCE.fullmatch(resource) and resource not in node.device_manager.plugins
    )
    if not missing:
        return None
    reasons = ", ".join(f"1 Insufficient {resource}" for resource in missing)
    return Admission(
        pod.name,
        False,
        qos_class(pod, node.settings.gates),
        UNSCHEDULABLE,
        f"0/1 nodes are available: {reasons}.",
        missing,
    )
