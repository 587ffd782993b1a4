"""Somebody else's work on a node: seen by the marks that other tools leave, and named."""

from __future__ import annotations

from collections.abc import Callable

from numaforge.rollout.cluster import ClusterNode

_TAINTS = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler is about to delete it",
    "DeletionCandidateOfClusterAutoscaler": "the cluster autoscaler considers deleting it",
    "karpenter.sh/disrupted": "Karpenter is about to replace it",
    "karpenter.sh/disruption": "Karpenter is about to replace it",
    "node.kubernetes.io/out-of-service": "it is marked as out of service",
    "node.cloudprovider.kubernetes.io/shutdown": "the cloud provider is shutting it down",
}


def _driver_upgrade(node: ClusterNode) -> str | None:
    state = node.labels.get("nvidia.com/gpu-driver-upgrade-state", "")
    busy = state not in ("", "upgrade-done", "upgrade-required")
    return f"the GPU operator upgrades its driver ({state})" if busy else None


def _mig_change(node: ClusterNode) -> str | None:
    state = node.labels.get("nvidia.com/mig.config.state", "")
    return f"its MIG geometry is being changed ({state})" if state in ("pending", "rebooting") else None


def _paused_operands(node: ClusterNode) -> str | None:
    paused = sorted(
        name
        for name, value in node.labels.items()
        if name.startswith("nvidia.com/gpu.deploy.") and "paused-for-" in value
    )
    return f"the GPU operator has paused its operands ({paused[0]})" if paused else None


def _skyhook(node: ClusterNode) -> str | None:
    owner = next((name for name in node.annotations if name.startswith("skyhook.nvidia.com/cordon_")), None)
    return f"NVIDIA Skyhook has cordoned it ({owner})" if owner else None


def _reboot(node: ClusterNode) -> str | None:
    busy = "weave.works/kured-reboot-in-progress" in node.annotations
    return "kured is rebooting it" if busy else None


def _machine_config(node: ClusterNode) -> str | None:
    state = node.annotations.get("machineconfiguration.openshift.io/state", "Done")
    return None if state == "Done" else f"the machine config operator works on it ({state})"


def _cluster_api(node: ClusterNode) -> str | None:
    if node.deleting:
        return "its Node object is being deleted"
    deleting = "cluster.x-k8s.io/delete-machine" in node.annotations
    return "Cluster API is about to delete its machine" if deleting else None


def _tainted(node: ClusterNode) -> str | None:
    return next((_TAINTS[taint.key] for taint in node.taints if taint.key in _TAINTS), None)


_SIGNS: tuple[Callable[[ClusterNode], str | None], ...] = (
    _driver_upgrade,
    _mig_change,
    _paused_operands,
    _skyhook,
    _reboot,
    _machine_config,
    _cluster_api,
    _tainted,
)


def foreign(node: ClusterNode) -> str | None:
    """Return who else is at work on a node, in words; None where nobody is."""
    if not (node.labels or node.annotations or node.taints or node.deleting):
        return None
    return next((said for sign in _SIGNS if (said := sign(node))), None)
