"""Another tool's maintenance of a node, detected by the marks that the tool leaves."""

from __future__ import annotations

from collections.abc import Callable

from numaforge.rollout.cluster import ClusterNode

_TAINTS = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler is about to delete it",
    "karpenter.sh/disrupted": "Karpenter is about to replace it",
    "karpenter.sh/disruption": "Karpenter is about to replace it",
    "node.kubernetes.io/out-of-service": "it is marked as out of service",
    "node.cloudprovider.kubernetes.io/shutdown": "the cloud provider is shutting it down",
}


def _driver_upgrade(state: str) -> str | None:
    busy = state not in ("", "upgrade-done", "upgrade-required")
    return f"the GPU operator upgrades its driver ({state})" if busy else None


def _mig_change(state: str) -> str | None:
    return f"its MIG geometry is being changed ({state})" if state in ("pending", "rebooting") else None


def _machine_config(state: str) -> str | None:
    return None if state == "Done" else f"the machine config operator works on it ({state})"


_LABELS: dict[str, Callable[[str], str | None]] = {
    "nvidia.com/gpu-driver-upgrade-state": _driver_upgrade,
    "nvidia.com/mig.config.state": _mig_change,
}
_ANNOTATIONS: dict[str, Callable[[str], str | None]] = {
    "weave.works/kured-reboot-in-progress": lambda _: "kured is rebooting it",
    "machineconfiguration.openshift.io/state": _machine_config,
    "cluster.x-k8s.io/delete-machine": lambda _: "Cluster API is about to delete its machine",
}
_OPERANDS = "nvidia.com/gpu.deploy."
_SKYHOOK = "skyhook.nvidia.com/cordon_"


def foreign(node: ClusterNode) -> str | None:
    """Return which other tool maintains a node, in words; None where there is none."""
    if node.deleting:
        return "its Node object is being deleted"
    for name, value in node.labels.items():
        if name in _LABELS and (said := _LABELS[name](value)):
            return said
        if name.startswith(_OPERANDS) and "paused-for-" in value:
            return f"the GPU operator has paused its operands ({name})"
    for name, value in node.annotations.items():
        if name in _ANNOTATIONS and (said := _ANNOTATIONS[name](value)):
            return said
        if name.startswith(_SKYHOOK):
            return f"NVIDIA Skyhook has cordoned it ({name})"
    for taint in node.taints:
        if taint.key in _TAINTS:
            return _TAINTS[taint.key]
    return None
