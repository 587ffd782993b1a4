"""Hosts that are not changed undrained: pods are alive on them, or numaforge cannot drain them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.lib.errors import HostError
from numaforge.rollout import events
from numaforge.rollout.names import PLACE
from numaforge.rollout.options import RolloutOptions

if TYPE_CHECKING:
    from numaforge.change.transaction import Transaction

    from .target import Target

_CONFIGURED_BY = {
    "k3s": "/etc/rancher/k3s/config.yaml (kubelet-arg) and its unit",
    "RKE2": "/etc/rancher/rke2/config.yaml (kubelet-arg) and its unit",
    "MicroK8s": "/var/snap/microk8s/current/args/kubelet and `snap restart microk8s`",
}
_SETTLE = (
    "drain it and end its pods, then run again; a Node is known by its kubelet's --kubeconfig; or say in "
    f"{PLACE}.without_drain why its pods may be disturbed, which plain pyinfra obeys"
)


def refuse_undrained(target: Target, options: RolloutOptions, transaction: Transaction | None) -> None:
    """Refuse a change that disturbs pods on a host that no drain can empty.

    Raises HostError with the evidence of pods, or the distribution that runs the kubelet in its own way.
    """
    if transaction is None or not transaction.disturbs or _permitted(options):
        return
    planned = target.goal.plan.kubelet is not None
    if target.distribution is not None and not planned and (target.joined or transaction.drains):
        parts = ", ".join(part.name for part in transaction.parts if part.drains)
        raise HostError(
            f"nothing was changed, {target.distribution} runs this host's kubelet, and numaforge cannot "
            f"restart and prove it; what disturbs pods is not changed here: {parts}",
            remedy=f"set the kubelet up by {_CONFIGURED_BY[target.distribution]}; for the rest drain the "
            f"node, then say so in {PLACE}.without_drain, which plain pyinfra obeys",
        )
    if not target.joined and transaction.pods.may_run:
        raise HostError(
            "nothing was changed, pods run on a host that is not a known Node of a cluster: "
            f"{transaction.pods.evidence}",
            remedy=_SETTLE,
        )


def _permitted(options: RolloutOptions) -> bool:
    """Return whether the inventory gives a reason for no drain; a roll-out changes nothing undrained."""
    return options.without_drain is not None and not events.heard()
