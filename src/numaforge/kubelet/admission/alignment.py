"""Explain alignment: which devices of a pod the kubelet cannot place near the others."""

from collections.abc import Sequence

from numaforge.kubelet.admission.claims import JudgedClaims
from numaforge.kubelet.admission.device_manager import Device, Inventory
from numaforge.kubelet.admission.machine import CpuTopology
from numaforge.kubelet.admission.node import Admission
from numaforge.kubelet.admission.nvidia_resources import GPU, MIG_PREFIX, PREFIX
from numaforge.kubelet.admission.pod import Pod
from numaforge.kubelet.admission.qos import Remark, fields_of
from numaforge.lib.cpulist import format_cpulist

_OF_HAMI = tuple(f"{PREFIX}{name}" for name in ("gpumem", "gpumem-percentage", "gpucores"))


def explain_claims(answer: Admission, claims: JudgedClaims, cpus: CpuTopology) -> tuple[Remark, ...]:
    """Return a remark for each claim with devices far from all CPUs that the kubelet gives the pod.

    The topology manager has no hints for claims (kubernetes/website#56232).
    """
    pod_nodes = {cpus.places[cpu].numa_node for cpu_ids in answer.cpus.values() for cpu in cpu_ids}
    remarks = []
    for name, devices in claims.devices.items():
        far = [device for device in devices if device.numa_nodes and not device.numa_nodes & pod_nodes]
        if pod_nodes and far and not claims.unknown:
            nodes = format_cpulist({node for device in far for node in device.numa_nodes})
            listed = ", ".join(map(str, far))
            remarks.append(
                Remark(
                    f"claim {name}",
                    f"{listed} on NUMA node {nodes}, and the pod's CPUs on {format_cpulist(pod_nodes)}: the "
                    "kubelet does not align claims",
                    "ask for the CPUs, too  (kubelet.resource_engine: dra)",
                )
            )
    return tuple(remarks)


def explain_gpus(pod: Pod, *inventories: Inventory | None) -> tuple[Remark, ...]:
    """Return remarks on requests for shares of GPUs: HAMi's, and several MIG devices in one container.

    `inventories` are those of the nodes that may take the pod.
    """
    of_hami = (
        Remark(
            f"{field}.resources.limits.{name}",
            "no device plugin advertises it: HAMi's webhook and scheduler read it, and are not judged",
            "MIG devices or replicas, without HAMi",
        )
        for field, container in fields_of(pod)
        for name in container.limits
        if name in _OF_HAMI
    )
    return (*of_hami, *_explain_mig(pod, inventories))


def _explain_mig(pod: Pod, inventories: Sequence[Inventory | None]) -> tuple[Remark, ...]:
    """Return a remark for each container that requests several MIG devices, or one beside whole GPUs.

    CUDA enumerates one MIG device in a process, and none beside a GPU (NVIDIA's MIG guide;
    k8s-device-plugin#446). With the strategy `single` of a node in `inventories` they are nvidia.com/gpu.
    """
    single = any(_is_mig(device) for one in inventories if one for device in one.get(GPU, ()))
    remarks = []
    for field, container in fields_of(pod):
        slices = {
            name: amount
            for name, amount in container.limits.items()
            if amount and (name.startswith(MIG_PREFIX) or (single and name == GPU))
        }
        whole = container.limits.get(GPU, 0) if slices and GPU not in slices else 0
        if whole or sum(slices.values()) > 1:
            remarks.append(
                Remark(
                    f"{field}.resources.limits.{next(iter(slices))}",
                    f"a CUDA process uses one MIG device: one in the container {container.name} sees 1 of "
                    f"{sum(slices.values())}{', or the whole GPU beside them' if whole else ''}",
                    "1  (in more pods, or one larger MIG device)",
                )
            )
    return tuple(remarks)


def _is_mig(device: Device) -> bool:
    """Whether a device of NVIDIA's is a MIG device, or a replica of one: by its UUID, else its position."""
    return device.part_of is not None and (device.id.startswith("MIG-") or "/" in device.id)


def explain_alignment(pod: Pod, inventory: Inventory) -> tuple[Remark, ...]:
    """Return a remark for each resource without NUMA nodes that a container requests beside aligned ones.

    Their plugin gives no hints (k8s-rdma-shared-dev-plugin#117), so the topology manager ignores them.
    """
    hinted = {name for name, devices in inventory.items() if any(device.numa_nodes for device in devices)}
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
