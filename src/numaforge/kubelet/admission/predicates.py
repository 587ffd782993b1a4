"""The kubelet's own resource predicates, after the managers have admitted: OutOfcpu, OutOfmemory, ...

pkg/kubelet/lifecycle/predicate.go and pkg/scheduler/framework/plugins/noderesources/fit.go of kubelet 1.36.
Not covered: ephemeral storage, and the other predicates (node affinity, ports, taints).
"""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import NamedTuple

from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.pod import CPU, MEMORY, Pod, is_extended, pod_requests
from numaforge.kubelet.admission.refusal import PodRejectedError
from numaforge.kubelet.admission.settings import Settings
from numaforge.kubelet_minors.values.pages import in_pages

PODS = "pods"


class NodeAllocatable(NamedTuple):
    """What the node offers: thousandths of a CPU, bytes of memory, pods, hugepages and devices by name."""

    cpu_milli: int
    memory_bytes: int
    pods: int
    scalars: Mapping[str, int]

    @classmethod
    def of(cls, machine: MachineInfo, settings: Settings, devices: Mapping[str, int]) -> "NodeAllocatable":
        """Return the node's NodeAllocatable (pkg/kubelet/nodestatus/setters.go, MachineInfo).

        All hugepages are subtracted from the memory left after the reservations.
        """
        hugepages: dict[str, int] = {}
        for node in machine.nodes:
            for resource, size in node.hugepages.items():
                hugepages[resource] = hugepages.get(resource, 0) + size
        memory = max(0, machine.memory_bytes - settings.reserved_bytes)
        for size in hugepages.values():
            memory = max(0, memory - size)
        return cls(
            cpu_milli=max(0, 1000 * machine.cpus.num_cpus - settings.reserved_cpu_milli),
            memory_bytes=memory,
            pods=settings.max_pods,
            scalars={**hugepages, **devices},
        )

    def amount(self, resource: str) -> int:
        """Return the amount of one resource, 0 for one that the node does not have."""
        if resource == CPU:
            return self.cpu_milli
        return self.memory_bytes if resource == MEMORY else self.scalars.get(resource, 0)


def request_of(pod: Pod, *, pod_level: bool) -> dict[str, int]:
    """Return a pod's request on its node: thousandths of a CPU, other resources in whole units."""
    return {
        resource: ceil(quantity * 1000) if resource == CPU else ceil(quantity)
        for resource, quantity in pod_requests(pod, pod_level=pod_level).items()
    }


def check_sidecars(pod: Pod) -> None:
    """Raise PodRejectedError for a sidecar where the feature gate SidecarContainers is off."""
    for container in pod.init_containers:
        if container.restartable:
            raise PodRejectedError(
                "InitContainerRestartPolicyForbidden",
                f'Init container "{container.name}" may not have a non-default restartPolicy',
            )


def check_fit(
    request: Mapping[str, int], requests: Iterable[Mapping[str, int]], allocatable: NodeAllocatable
) -> None:
    """Raise PodRejectedError for the first resource, in the kubelet's order, that does not suffice."""
    running = list(requests)
    if len(running) + 1 > allocatable.pods:
        raise _out_of(PODS, 1, len(running), allocatable.pods)
    first = [resource for resource in (CPU, MEMORY) if resource in request]
    for resource in [*first, *sorted(request.keys() - {CPU, MEMORY})]:
        if request[resource] == 0 or not counts(resource, allocatable):
            continue
        used = sum(request_of.get(resource, 0) for request_of in running)
        capacity = allocatable.amount(resource)
        if request[resource] > capacity - used:
            raise _out_of(resource, request[resource], used, capacity)


def counts(resource: str, allocatable: NodeAllocatable) -> bool:
    """Whether a resource counts; extended resources unknown to the node do not.

    In the kubelet this is removeMissingExtendedResources.
    """
    if is_extended(resource):
        return resource in allocatable.scalars
    return resource in (CPU, MEMORY) or in_pages(resource)


def _out_of(resource: str, requested: int, used: int, capacity: int) -> PodRejectedError:
    return PodRejectedError(
        f"OutOf{resource}",
        f"Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: "
        f"{capacity}",
        resource,
    )
