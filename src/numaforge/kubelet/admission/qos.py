"""Explain QoS: why a pod is not Guaranteed, or gets no exclusive CPUs, and which line changes that."""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from numaforge.kubelet.admission.demand import GUARANTEED, Gates, qos_class
from numaforge.kubelet.admission.pod import CPU, MEMORY, Container, Pod, Quantities
from numaforge.lib.quantity import format_bytes

_RESOURCES = (CPU, MEMORY)


class Remark(NamedTuple):
    """One reason, at a field of the pod's spec (`containers[0].resources.limits.cpu`), and what to write.

    `value` is what the field should be, None where only the pod's author can know.
    """

    field: str
    reason: str
    value: str | None

    @property
    def change(self) -> str:
        return f"{self.field}: {self.value}" if self.value else f"{self.field}: <set it>"


def explain(
    pod: Pod, *, cpu_manager_is_static: bool = True, gates: Gates | None = None
) -> tuple[Remark, ...]:
    """Return what keeps a pod's containers from exclusive CPUs and pinned memory.

    pkg/apis/core/v1/helper/qos/qos.go; pkg/kubelet/cm/cpumanager/policy_static.go, guaranteedCPUs.
    """
    return tuple(_remarks(pod, gates or Gates(), cpu_manager_is_static=cpu_manager_is_static))


def _remarks(pod: Pod, gates: Gates, *, cpu_manager_is_static: bool) -> Iterator[Remark]:
    by_container = "{}  (name the resources of each container instead)"
    if qos_class(pod, gates) != GUARANTEED:
        if not pod.has_pod_level_resources:
            yield from _unequal_containers(pod)
        elif gates.pod_level_resources:
            yield from _unequal("resources", pod.requests or {}, pod.limits or {})
        else:
            reason = f"kubelet 1.{gates.minor} does not count pod-level resources while the feature gate "
            yield Remark("resources", f"{reason}PodLevelResources is off (on from 1.34 on)", by_container)
            yield from _unequal_containers(pod)
    elif not gates.pins(pod):
        reason = "pod-level resources switch CPU and memory pinning off while the feature gate "
        yield Remark("resources", f"{reason}PodLevelResourceManagers is off", by_container)
    elif cpu_manager_is_static:
        yield from _without_exclusive_cpus(pod)


def _unequal_containers(pod: Pod) -> Iterator[Remark]:
    for field, container in fields_of(pod):
        yield from _unequal(f"{field}.resources", container.requests, container.limits)


def _unequal(field: str, requests: Quantities, limits: Quantities) -> Iterator[Remark]:
    for resource in _RESOURCES:
        limit, request = limits.get(resource, Fraction(0)), requests.get(resource, Fraction(0))
        if limit == 0:
            reason = f"has no {resource} limit" + (
                "" if request == 0 else f", only a request of {_in_units(resource, request)}"
            )
            yield Remark(
                f"{field}.limits.{resource}", reason, _in_units(resource, request) if request else None
            )
        elif request != limit:
            most = _in_units(resource, limit)
            reason = f"requests {_in_units(resource, request)} {resource}, below its limit of {most}"
            yield Remark(f"{field}.requests.{resource}", reason, most)


def _without_exclusive_cpus(pod: Pod) -> Iterator[Remark]:
    for field, container in fields_of(pod):
        cpus = container.limits.get(CPU, Fraction(0))
        if container.whole_cpus == 0 and cpus > 0:
            yield Remark(
                f"{field}.resources.limits.cpu",
                f"asks for {_in_units(CPU, cpus)} CPUs: only a whole number is exclusive, so it runs on the "
                "shared pool",
                str(ceil(cpus)),
            )


def fields_of(pod: Pod) -> Iterator[tuple[str, Container]]:
    """Yield the containers of a pod, each with its field in the spec: `containers[0]`."""
    for index, container in enumerate(pod.init_containers):
        yield f"initContainers[{index}]", container
    for index, container in enumerate(pod.app_containers):
        yield f"containers[{index}]", container


def _in_units(resource: str, quantity: Fraction) -> str:
    if resource == CPU:
        return str(quantity) if quantity.denominator == 1 else f"{ceil(quantity * 1000)}m"
    return format_bytes(ceil(quantity))
