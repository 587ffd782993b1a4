"""Explain alignment: which devices of a pod the kubelet cannot place near the others."""

from __future__ import annotations

from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet.admission.pod import Pod
from numaforge.kubelet.admission.qos import Remark, fields_of


def explain_alignment(pod: Pod, inventory: Inventory) -> tuple[Remark, ...]:
    """Return the resources of unknown NUMA node that a container has beside some that are aligned.

    Their plugin gives no hints (k8s-rdma-shared-dev-plugin#117), and the topology manager leaves them out.
    """
    hinted = {name for name, devices in inventory.items() if any(each.numa_nodes for each in devices)}
    return tuple(
        Remark(
            f"{field}.resources.limits.{name}",
            f"the kubelet does not align it with {', '.join(aligned)}: the pod has to choose the near one",
            f"{container.limits[name]}  (the plan names the GPUs of each rail)",
        )
        for field, container in fields_of(pod)
        if (aligned := sorted(hinted & container.limits.keys()))
        for name in sorted(container.limits.keys() & inventory.keys() - hinted)
    )
