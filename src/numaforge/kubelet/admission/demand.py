"""What a pod requests from the managers: QoS class, exclusive CPUs and pinned memory by container."""

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from numaforge.kubelet.admission.pod import CPU, MEMORY, Container, Pod, Quantities, aggregate, integer_of
from numaforge.kubelet_minors.values.pages import in_pages
from numaforge.kubelet_minors.versions import LATEST_MINOR

GUARANTEED = "Guaranteed"
BURSTABLE = "Burstable"
BEST_EFFORT = "BestEffort"
_QOS_RESOURCES = (CPU, MEMORY)


# From this minor on the managers leave a pod with resources of its own alone.
_FIRST_MINOR_OF_UNPINNED_PODS = 34
# From this minor on they do so whether or not the gate PodLevelResources is on.
_FIRST_MINOR_OF_PODS_AS_UNITS = 36


class Gates(NamedTuple):
    """The feature gates that change admission, with the defaults of the newest kubelet, and its minor."""

    pod_level_resources: bool = True
    pod_level_resource_managers: bool = False
    sidecars: bool = True
    minor: int = LATEST_MINOR

    def pins(self, pod: Pod) -> bool:
        """Whether the managers look at a pod: one with pod-level resources switches them off."""
        if not pod.has_pod_level_resources or self.minor < _FIRST_MINOR_OF_UNPINNED_PODS:
            return True
        if self.minor < _FIRST_MINOR_OF_PODS_AS_UNITS:
            return not self.pod_level_resources
        return self.pod_level_resources and self.pod_level_resource_managers


class Demand(NamedTuple):
    """A pod as the managers see it.

    `cpus` maps container -> exclusive CPUs (0: shared pool) and `memory` container -> resource -> bytes;
    `pod_cpus` and `pod_memory` are the same for the pod as a whole. None in `memory` is a quantity that the
    memory manager cannot represent. `pinned` is False where pod-level resources switch the
    managers off, `by_pod` True where the managers treat the pod as one unit.
    """

    pod: Pod
    qos: str
    pinned: bool
    by_pod: bool
    cpus: Mapping[str, int]
    pod_cpus: int
    memory: Mapping[str, Mapping[str, int] | None]
    pod_memory: Mapping[str, int] | None

    @classmethod
    def of(cls, pod: Pod, gates: Gates) -> "Demand":
        """Return what `pod` requests from the CPU manager and the memory manager."""
        qos = qos_class(pod, gates)
        by_pod = pod.has_pod_level_resources and gates.pod_level_resource_managers
        eligible = {c.name for c in pod.containers if not by_pod or _is_guaranteed(c)}
        cpus = {
            c.name: c.whole_cpus if qos == GUARANTEED and c.name in eligible else 0 for c in pod.containers
        }
        memory = {c.name: pinned_memory(c.requests) if c.name in eligible else {} for c in pod.containers}
        if by_pod:
            requests = pod.requests or {}
            pod_cpus = integer_of(requests[CPU]) if qos == GUARANTEED and CPU in requests else 0
            pod_memory = pinned_memory(requests)
            if pod_memory is not None:
                pod_memory = {resource: size for resource, size in pod_memory.items() if size > 0}
        else:
            pod_cpus = aggregate((c, {CPU: cpus[c.name]}) for c in pod.containers).get(CPU, 0)
            pod_memory = _pod_memory(pod, memory)
        return cls(
            pod=pod,
            qos=qos,
            pinned=gates.pins(pod),
            by_pod=by_pod,
            cpus=cpus,
            pod_cpus=pod_cpus,
            memory=memory,
            pod_memory=pod_memory,
        )


def qos_class(pod: Pod, gates: Gates | None = None) -> str:
    """Return Guaranteed, Burstable or BestEffort.

    pkg/apis/core/v1/helper/qos/qos.go, ComputePodQOS. Where a pod has pod-level resources, only they count.
    """
    gates = gates or Gates()
    requests: dict[str, Fraction] = {}
    limits: dict[str, Fraction] = {}
    guaranteed = True
    if gates.pod_level_resources and (pod.requests is not None or pod.limits is not None):
        requests, limits = _positive(pod.requests or {}), _positive(pod.limits or {})
        guaranteed = not limits or len(limits) == len(_QOS_RESOURCES)
        if not limits and pod.limits:
            guaranteed = False
    else:
        for container in pod.containers:
            for resource, quantity in _positive(container.requests).items():
                requests[resource] = requests.get(resource, Fraction(0)) + quantity
            own_limits = _positive(container.limits)
            for resource, quantity in own_limits.items():
                limits[resource] = limits.get(resource, Fraction(0)) + quantity
            guaranteed = guaranteed and len(own_limits) == len(_QOS_RESOURCES)
    if not requests and not limits:
        return BEST_EFFORT
    return GUARANTEED if guaranteed and requests == limits else BURSTABLE


def pinned_memory(requests: Quantities) -> dict[str, int] | None:
    """Return the requested bytes of memory and hugepages, or None where one is a fraction of a byte.

    pkg/kubelet/cm/memorymanager/policy_static.go, getContainerRequestedResources.
    """
    sizes: dict[str, int] = {}
    for resource, quantity in requests.items():
        if resource != MEMORY and not in_pages(resource):
            continue
        if quantity.denominator != 1:
            return None
        sizes[resource] = quantity.numerator
    return sizes


def _positive(quantities: Quantities) -> dict[str, Fraction]:
    return {r: quantities[r] for r in _QOS_RESOURCES if r in quantities and quantities[r] > 0}


def _is_guaranteed(container: Container) -> bool:
    """pkg/kubelet/cm/qos/helpers.go, IsContainerEquivalentQOSGuaranteed."""
    return all(
        container.requests.get(resource, 0) > 0
        and container.requests[resource] == container.limits.get(resource, 0)
        for resource in _QOS_RESOURCES
    )


def _pod_memory(pod: Pod, memory: Mapping[str, Mapping[str, int] | None]) -> dict[str, int] | None:
    """Return a pod's memory for the resources of its app containers (getPodRequestedResources)."""
    sizes = {name: share for name, share in memory.items() if share is not None}
    if len(sizes) < len(memory):
        return None
    total = aggregate((container, sizes[container.name]) for container in pod.containers)
    return {resource: total[resource] for app in pod.app_containers for resource in sizes[app.name]}


NOT_WHOLE_BYTES = "[memorymanager] failed to represent quantity as int64"


def why_pool_is_empty(
    pod: Pod, total: Mapping[str, int], shares: Mapping[str, Mapping[str, int] | None]
) -> str | None:
    """Return why a pod's `total` leaves nothing to containers without a share (validatePodScopeResources)."""
    exclusive: dict[str, int] = {}
    has_shared = False

    def used_up() -> list[str]:
        short = (resource for resource, size in total.items() if exclusive.get(resource, 0) >= size)
        return ["cpus" if resource == CPU else resource for resource in short]

    for container in pod.containers:
        sizes = shares[container.name]
        if sizes is None:
            return NOT_WHOLE_BYTES
        if container.init and not container.restartable:
            if not sizes and (short := used_up()):
                return f"pod rejected, pod has shared init containers but no {short[0]} available for them"
            continue
        has_shared = has_shared or not sizes
        for resource, size in sizes.items():
            exclusive[resource] = exclusive.get(resource, 0) + size
    if not has_shared or not (short := used_up()):
        return None
    requests, pool = ("cpu", "cpus") if short[0] == "cpus" else (short[0], "memory")
    return (
        f"pod rejected, sum of exclusive container {requests} requests equals pod budget, "
        f"leaving no {pool} for shared containers"
    )
