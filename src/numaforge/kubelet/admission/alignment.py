"""Explain alignment: which devices of a pod the kubelet cannot place near the others."""

from __future__ import annotations

from numaforge.cpulist import format_cpulist
from numaforge.kubelet.admission.claims import JudgedClaims
from numaforge.kubelet.admission.device_manager import Inventory
from numaforge.kubelet.admission.machine import CpuTopology
from numaforge.kubelet.admission.node import Admission
from numaforge.kubelet.admission.nvidia_resources import MIG_PREFIX
from numaforge.kubelet.admission.pod import Pod
from numaforge.kubelet.admission.qos import Remark, fields_of


def explain_claims(answer: Admission, claims: JudgedClaims, cpus: CpuTopology) -> tuple[Remark, ...]:
    """Return a remark for each claim with devices far from all CPUs that the kubelet gives the pod.

    The topology manager has no hints for claims (kubernetes/website#56232).
    """
    own = {cpus.places[cpu].numa_node for given in answer.cpus.values() for cpu in given}
    found = []
    for name, devices in claims.devices.items():
        far = [each for each in devices if each.numa_nodes and not each.numa_nodes & own]
        if own and far and not claims.unknown:
            nodes = format_cpulist({node for each in far for node in each.numa_nodes})
            listed = ", ".join(map(str, far))
            found.append(
                Remark(
                    f"claim {name}",
                    f"{listed} on NUMA node {nodes}, and the pod's CPUs on {format_cpulist(own)}: the "
                    "kubelet does not align claims",
                    "ask for the CPUs, too  (kubelet.resource_engine: dra)",
                )
            )
    return tuple(found)


def explain_mig(pod: Pod) -> tuple[Remark, ...]:
    """Return a remark for each container that requests several MIG devices.

    CUDA enumerates one MIG device in a process (NVIDIA's MIG guide; k8s-device-plugin#446).
    """
    return tuple(
        Remark(
            f"{field}.resources.limits.{name}",
            f"a CUDA process uses one MIG device: one in the container {container.name} sees 1 of {amount}",
            "1  (in more pods, or one larger MIG device)",
        )
        for field, container in fields_of(pod)
        for name, amount in container.limits.items()
        if name.startswith(MIG_PREFIX) and amount > 1
    )


def explain_alignment(pod: Pod, inventory: Inventory) -> tuple[Remark, ...]:
    """Return a remark for each resource without NUMA nodes that a container requests beside aligned ones.

    Their plugin gives no hints (k8s-rdma-shared-dev-plugin#117), so the topology manager ignores them.
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
