"""What stays in a cluster when a node is uninstalled: named, with the commands that delete it."""

from numaforge.kubelet_minors.flags import flag_value
from numaforge.lib.reasons import Notice
from numaforge.machine.topology.model import NodeTopology
from numaforge.rollout.kubectl import COMPONENT, MANAGED_BY


def left_in_cluster(machine: NodeTopology) -> tuple[Notice, ...]:
    """Return what a removal leaves in the cluster of a planned node: Leases of its roll-out and budget."""
    if machine.kubelet is None or flag_value(machine.kubelet.flags, "kubeconfig") is None:
        return ()
    if machine.previous_plan is None:
        return ()
    return (
        Notice(
            "left-in-cluster",
            "the result of the roll-out and what nodes share stay in the cluster (docs/uninstall.md). After "
            "the last node: `kubectl delete leases,configmaps,daemonsets --all-namespaces "
            f"-l {MANAGED_BY}={COMPONENT}`",
        ),
    )
