"""What stays in a cluster when a node is uninstalled: named, with the commands that delete it."""

from __future__ import annotations

from numaforge.kubelet.config.flags import flag_value
from numaforge.reasons import Notice
from numaforge.rollout.kubectl import COMPONENT, MANAGED_BY
from numaforge.rollout.record import RESULT
from numaforge.topology.model import NodeTopology


def left_in_cluster(machine: NodeTopology) -> tuple[Notice, ...]:
    """Return what a removal leaves in the cluster; nothing where a node is in no cluster, or has no plan.

    From the annotation, other runs learn that the roll-out has ended. The objects are shared by nodes.
    """
    if machine.kubelet is None or flag_value(machine.kubelet.flags, "kubeconfig") is None:
        return ()
    if machine.previous_plan is None:
        return ()
    return (
        Notice(
            "left-in-cluster",
            "the result of the roll-out and what nodes share stay in the cluster (docs/uninstall.md). After "
            f"the last node: kubectl annotate nodes --all {RESULT}-; "
            f"kubectl delete leases,configmaps,daemonsets --all-namespaces -l {MANAGED_BY}={COMPONENT}",
        ),
    )
