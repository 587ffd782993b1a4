"""Parse the Kubernetes API's JSON objects into what a roll-out reads of them."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import wraps
from typing import Any, TypeVar

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.quantity import parse_quantity
from numaforge.rollout.cluster import (
    ClusterError,
    ClusterNode,
    ClusterPod,
    DisruptionBudget,
    LabelWrite,
    Lease,
    Owner,
    Taint,
    Toleration,
)

_MIRROR = "kubernetes.io/config.mirror"
_ETCD_VOTER = "EtcdIsVoter"  # a condition that k3s and RKE2 write on the nodes with a member of their etcd
_DEFAULT_GRACE_SECONDS = 30
_NVIDIA = "nvidia.com/"

Document = Mapping[str, Any]
Held = TypeVar("Held")


def _reads(kind: str) -> Callable[[Callable[[Document], Held]], Callable[[Document], Held]]:
    """Make a reader refuse an answer that is no such object, as from a proxy or a broken webhook."""

    def decorate(read: Callable[[Document], Held]) -> Callable[[Document], Held]:
        @wraps(read)
        def reading(document: Document) -> Held:
            try:
                return read(document)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise ClusterError(
                    f"the API server's answer holds something else than a {kind}: {error!r}",
                    remedy="see what `kubectl get --raw` answers; something between may have changed it",
                ) from error

        return reading

    return decorate


@_reads("Node")
def node(document: Document) -> ClusterNode:
    """Return a Node; one that has never reported a Ready condition is not ready."""
    metadata, spec, status = _parts(document)
    ready: Document = next(
        (condition for condition in status.get("conditions") or () if condition["type"] == "Ready"), {}
    )
    machine: Document = status.get("nodeInfo") or {}
    return ClusterNode(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        unschedulable=spec.get("unschedulable", False),
        taints=tuple(
            Taint(taint["key"], taint.get("value", ""), taint["effect"]) for taint in spec.get("taints") or ()
        ),
        ready=ready.get("status") == "True",
        ready_message=ready.get("message", "" if ready else "the kubelet has not reported yet"),
        allocatable=status.get("allocatable") or {},
        capacity=status.get("capacity") or {},
        label_writes=_label_writes(metadata),
        deleting="deletionTimestamp" in metadata,
        machine_id=machine.get("machineID", ""),
        boot_id=machine.get("bootID", ""),
        system_uuid=machine.get("systemUUID", ""),
        addresses=tuple(entry["address"] for entry in status.get("addresses") or ()),
        provider_id=spec.get("providerID", ""),
        etcd_voter=_condition(status, _ETCD_VOTER),
    )


@_reads("Pod")
def pod(document: Document) -> ClusterPod:
    metadata, spec, status = _parts(document)
    annotations = metadata.get("annotations") or {}
    controllers = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    owners = [Owner(owner["kind"], owner["name"], owner["uid"]) for owner in controllers[:1]]
    return ClusterPod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node=spec.get("nodeName", ""),
        phase=status.get("phase", "Pending"),
        labels=metadata.get("labels") or {},
        annotations=annotations,
        owner=owners[0] if owners else None,
        mirror=_MIRROR in annotations,
        deleting="deletionTimestamp" in metadata,
        finalizers=tuple(metadata.get("finalizers") or ()),
        grace_seconds=spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS),
        priority=spec.get("priority", 0),
        empty_dirs=tuple(volume["name"] for volume in spec.get("volumes") or () if "emptyDir" in volume),
        tolerations=tuple(
            Toleration(of.get("key"), of.get("operator", "Equal"), of.get("value"), of.get("effect"))
            for of in spec.get("tolerations") or ()
        ),
        ready=_condition(status, "Ready") is True,
        arguments=_arguments(spec) if _MIRROR in annotations else (),
        whole_cpus=_whole_cpus(spec) if status.get("qosClass") == "Guaranteed" else 0,
    )


@_reads("EndpointSlice")
def endpoints(document: Document) -> list[tuple[str, int]]:
    """Return the addresses of an EndpointSlice, each with the port of HTTPS."""
    [port] = [port["port"] for port in document.get("ports") or () if port.get("name") in ("https", "", None)]
    return [
        (address, port) for endpoint in document.get("endpoints") or () for address in endpoint["addresses"]
    ]


@_reads("PodDisruptionBudget")
def disruption_budget(document: Document) -> DisruptionBudget:
    """Return a PodDisruptionBudget; before its controller has processed it, it allows no disruption."""
    metadata, spec, status = _parts(document)
    return DisruptionBudget(
        namespace=metadata["namespace"],
        name=metadata["name"],
        selector=spec.get("selector"),
        disruptions_allowed=status.get("disruptionsAllowed", 0),
        current_healthy=status.get("currentHealthy", 0),
        desired_healthy=status.get("desiredHealthy", 0),
    )


@_reads("Lease")
def lease(document: Document) -> Lease:
    metadata, spec, _ = _parts(document)
    return Lease(
        name=metadata["name"],
        resource_version=metadata["resourceVersion"],
        holder=spec.get("holderIdentity") or "",
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        document=document,
    )


def _parts(document: Document) -> tuple[Document, Document, Document]:
    return document["metadata"], document.get("spec") or {}, document.get("status") or {}


def _condition(status: Document, kind: str) -> bool | None:
    """Return whether a condition's status is True, None where there is no such condition."""
    conditions = (condition for condition in status.get("conditions") or () if condition["type"] == kind)
    return next((condition.get("status") == "True" for condition in conditions), None)


def _arguments(spec: Document) -> tuple[str, ...]:
    containers = spec.get("containers") or ()
    return tuple(
        word for container in containers for key in ("command", "args") for word in container.get(key) or ()
    )


def _whole_cpus(spec: Document) -> int:
    """Return the CPUs of containers that request whole CPUs, including restartable init containers."""
    lasting = [
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    requests = (
        _cpus((container.get("resources") or {}).get("requests") or {})
        for container in (*(spec.get("containers") or ()), *lasting)
    )
    return sum(int(cpus) for cpus in requests if cpus == int(cpus))


def _cpus(requests: Document) -> Fraction:
    try:
        return parse_quantity(str(requests.get("cpu", 0)))
    except NumaforgeError:
        return Fraction(0)  # a quantity of a newer API: unknown, so not counted


def _label_writes(metadata: Document) -> dict[str, LabelWrite]:
    """Return the last writers of NVIDIA's labels by name, from the managedFields of server-side apply."""
    return {
        name: LabelWrite(entry.get("manager", ""), entry.get("time", ""))
        for entry in metadata.get("managedFields") or ()
        for key in entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", ())
        if (name := key.removeprefix("f:")).startswith(_NVIDIA)
    }


@_reads("ResourceSlice")
def partitioned_node(document: Document) -> str | None:
    """Return the node of a ResourceSlice whose driver partitions devices on claim (KEP-4815), else None."""
    spec = document["spec"]
    name: str = spec.get("nodeName") or spec["pool"]["name"]
    return name if spec.get("sharedCounters") else None
