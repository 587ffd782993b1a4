"""Another tool's maintenance of a node, detected by the marks that the tool leaves."""

from collections.abc import Callable, Iterator, Mapping

from numaforge.rollout.cluster import ClusterNode

_TAINTS = {
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler is about to delete it",
    "karpenter.sh/disrupted": "Karpenter is about to replace it",
    "karpenter.sh/disruption": "Karpenter is about to replace it",
    "node.kubernetes.io/out-of-service": "it is marked as out of service",
    "node.cloudprovider.kubernetes.io/shutdown": "the cloud provider is shutting it down",
    "medik8s.io/drain": "the node maintenance operator has drained it",
    "medik8s.io/remediation": "self node remediation reboots it",
    "medik8s.io/fence-agents-remediation": "fence agents remediation reboots it",
    "remediation.medik8s.io/fence-agents-remediation": "fence agents remediation reboots it",
}


def _upgrade_by(operator: str) -> Callable[[str], str | None]:
    """Return what a state of NVIDIA's upgrade library means (k8s-operator-libs, pkg/upgrade/consts.go).

    `upgrade-required` only waits: nothing is done to the node in that state.
    """

    def upgrade(state: str) -> str | None:
        busy = state not in ("", "upgrade-done", "upgrade-required")
        return f"the {operator} operator upgrades its driver ({state})" if busy else None

    return upgrade


def _mig_change(state: str) -> str | None:
    return f"its MIG geometry is being changed ({state})" if state in ("pending", "rebooting") else None


def _machine_config(state: str) -> str | None:
    return None if state == "Done" else f"the machine config operator works on it ({state})"


def _sriov(state: str) -> str | None:
    """Return what a state of the SR-IOV network operator means (pkg/consts/constants.go)."""
    return None if state in ("", "Idle") else f"the SR-IOV network operator works on it ({state})"


def _machine_config_drain(annotations: Mapping[str, str]) -> str | None:
    """Return which drain or uncordon the machine config operator has yet to carry out."""
    desired, applied = annotations.get(f"{_MCO}/desiredDrain"), annotations.get(f"{_MCO}/lastAppliedDrain")
    if not desired or desired == applied:
        return None
    return f"the machine config operator is about to {desired.partition('-')[0]} it"


_MCO = "machineconfiguration.openshift.io"
_LABELS: dict[str, Callable[[str], str | None]] = {
    "nvidia.com/gpu-driver-upgrade-state": _upgrade_by("GPU"),
    "nvidia.com/ofed-driver-upgrade-state": _upgrade_by("network"),
    "nvidia.com/mig.config.state": _mig_change,
}
_ANNOTATIONS: dict[str, Callable[[str], str | None]] = {
    "weave.works/kured-reboot-in-progress": lambda _: "kured is rebooting it",
    f"{_MCO}/state": _machine_config,
    "sriovnetwork.openshift.io/state": _sriov,
    "nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load": lambda _: "a GPU driver waits to be loaded",
    "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load": lambda _: "a NIC driver waits to be loaded",
    "cluster.x-k8s.io/delete-machine": lambda _: "Cluster API is about to delete its machine",
}
_OPERANDS = "nvidia.com/gpu.deploy."
_SKYHOOK = "skyhook.nvidia.com/cordon_"


def foreign(node: ClusterNode) -> str | None:
    """Return which other tool maintains a node, in words; None where there is none."""
    return next(filter(None, _maintenances(node)), None)


def _maintenances(node: ClusterNode) -> Iterator[str | None]:
    if node.deleting:
        yield "its Node object is being deleted"
    for name, value in node.labels.items():
        if name in _LABELS:
            yield _LABELS[name](value)
        if name.startswith(_OPERANDS) and "paused-for-" in value:
            yield f"the GPU operator has paused its operands ({name})"
    for name, value in node.annotations.items():
        if name in _ANNOTATIONS:
            yield _ANNOTATIONS[name](value)
        if name.startswith(_SKYHOOK):
            yield f"NVIDIA Skyhook has cordoned it ({name})"
    yield _machine_config_drain(node.annotations)
    yield from (_TAINTS.get(taint.key) for taint in node.taints)
