"""Another tool's maintenance of a node, detected by the marks that the tool leaves."""

from collections.abc import Callable, Collection, Iterator, Mapping

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


# k8s-operator-libs, pkg/upgrade/consts.go; `upgrade-required` only waits: nothing is done to the node.
_UPGRADED = ("", "upgrade-done", "upgrade-required")


def _unless(calm: Collection[str], doing: str) -> Callable[[str], str | None]:
    """Return what a state means: `doing`, unless it is one of the `calm` ones."""
    return lambda state: None if state in calm else f"{doing} ({state})"


def _machine_config_drain(annotations: Mapping[str, str]) -> str | None:
    """Return which drain or uncordon the machine config operator has yet to carry out."""
    desired, applied = annotations.get(f"{_MCO}/desiredDrain"), annotations.get(f"{_MCO}/lastAppliedDrain")
    if not desired or desired == applied:
        return None
    return f"the machine config operator is about to {desired.partition('-')[0]} it"


_MCO = "machineconfiguration.openshift.io"
_LABELS: dict[str, Callable[[str], str | None]] = {
    "nvidia.com/gpu-driver-upgrade-state": _unless(_UPGRADED, "the GPU operator upgrades its driver"),
    "nvidia.com/ofed-driver-upgrade-state": _unless(_UPGRADED, "the network operator upgrades its driver"),
    "nvidia.com/mig.config.state": lambda state: (
        f"its MIG geometry is being changed ({state})" if state in ("pending", "rebooting") else None
    ),
}
_ANNOTATIONS: dict[str, Callable[[str], str | None]] = {
    "weave.works/kured-reboot-in-progress": lambda _: "kured is rebooting it",
    f"{_MCO}/state": _unless(("Done",), "the machine config operator works on it"),
    # pkg/consts/constants.go of the SR-IOV network operator
    "sriovnetwork.openshift.io/state": _unless(("", "Idle"), "the SR-IOV network operator works on it"),
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
