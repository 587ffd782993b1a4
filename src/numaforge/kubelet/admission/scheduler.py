"""What the scheduler refuses before a kubelet is asked: what a node lacks, or has run out of.

The kubelet itself ignores extended resources that it does not know (pkg/kubelet/lifecycle/predicate.go,
removeMissingExtendedResources), because the scheduler has counted them.
"""

import re
from collections.abc import Collection, Iterable
from difflib import SequenceMatcher

from numaforge.kubelet.admission.demand import qos_class
from numaforge.kubelet.admission.node import UNSCHEDULABLE, Admission, Node
from numaforge.kubelet.admission.nvidia_resources import PREFIX
from numaforge.kubelet.admission.pod import Pod, is_extended, pod_limits

_POOLS = "rdma/"
_LIKE_GPUS = re.compile(r"(nvidia(\.com)?|amd(\.com)?)/(gpu|mig|[sdtqc]px)[a-z0-9._-]*", re.IGNORECASE)
_OF_OTHER_VENDORS = re.compile(r"gpu\.intel\.com/(xe|i915)|habana\.ai/gaudi")


def unschedulable(node: Node, pod: Pod) -> Admission | None:
    """Return the scheduler's refusal of a pod that requests what the node does not offer, or None.

    All GPUs and slices of a node are known here; other resources may come from unknown plugins. Claims are
    refused where their devices are known and do not serve them.
    """
    claims = node.judged_claims(pod)
    missing = tuple(
        resource
        for resource, quantity in pod_limits(pod).items()
        if quantity
        and is_counted(resource, node.device_manager.plugins)
        and resource not in node.device_manager.plugins
        and resource not in claims.served
    )
    if not missing and claims.refusal is None:
        return None
    reasons = [f"1 Insufficient {resource}" for resource in missing]
    reasons += [f"1 {claims.refusal}"] if claims.refusal else []
    return Admission(
        pod.name,
        False,
        qos_class(pod, node.settings.gates),
        UNSCHEDULABLE,
        f"0/1 nodes are available: {', '.join(reasons)}.",
        (*missing, *claims.asked) if claims.refusal else missing,
    )


def claims_not_known(node: Node, pod: Pod) -> tuple[str, ...]:
    """Return why it is unknown whether a pod's claims can be served; empty where it is known."""
    unknown = node.judged_claims(pod).unknown
    return (f"whether its claims can be served ({'; '.join(unknown)})",) if unknown else ()


def unserved(node: Node, pod: Pod) -> Admission | None:
    """Return the refusal of one more pod of a shape whose first pod could be scheduled, or None."""
    return unschedulable(node, pod) if node.judged_claims(pod).refusal else None


def bound_claims(node: Node, pod: Pod) -> frozenset[str]:
    """Return the named claims that admitting the pod would allocate on this node, and so on no other.

    With a node-local device, a claim's nodeSelector names that node (structured, createNodeSelector).
    """
    shared = {claim.name: claim.claim for claim in pod.claims if claim.claim}
    devices = node.judged_claims(pod).devices if shared else {}
    local = (name for name in shared if any(device.is_local for device in devices.get(name, ())))
    return frozenset(claim for name in local if (claim := shared[name]))


def is_counted(resource: str, offered: Collection[str] = ()) -> bool:
    """Whether a node that does not offer a resource has none of it; `offered` are those of its plugins.

    So it is for GPUs and slices, which a machine lists completely, and what is named like them; for RDMA
    pools beside other pools; and for names below kubernetes.io, which no plugin may register
    (k8s.io/component-helpers, IsScalarResourceName).
    """
    if _LIKE_GPUS.fullmatch(resource) or _OF_OTHER_VENDORS.fullmatch(resource):
        return True
    if resource.startswith(_POOLS):
        return any(name.startswith(_POOLS) for name in offered)
    return "kubernetes.io/" in resource


def like(resource: str, offered: Iterable[str]) -> tuple[str, ...]:
    """Return the offered resources that a misspelt one may stand for: those of its domain, nearest first."""
    domain = resource.partition("/")[0]
    if "kubernetes.io" in domain:
        domain = PREFIX.rstrip("/")
    same = [name for name in offered if name.partition("/")[0] in (domain, f"{domain}.com")]
    return tuple(sorted(same, key=lambda name: -SequenceMatcher(None, resource, name).ratio()))


def not_known(node: Node, pod: Pod) -> tuple[str, ...]:
    """Return a pod's resources of unknown plugins, which the kubelet ignores, too."""
    served = node.judged_claims(pod).served
    return tuple(
        resource
        for resource, quantity in pod_limits(pod).items()
        if quantity
        and is_extended(resource)
        and not is_counted(resource, node.device_manager.plugins)
        and resource not in node.device_manager.plugins
        and resource not in served
    )
