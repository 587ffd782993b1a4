"""The kubelet's configuration, restarted only where that changes what it runs with."""

from __future__ import annotations

from pyinfra import host

from numaforge.hosts import planned, role, show_alone
from numaforge.roles.maintenance import take_part
from numaforge.rollout import events

__all__ = ["kubelet"]


@role("Kubelet")
def kubelet() -> None:
    """Bring the kubelet to the plan; the hugepage pools are part of that while it runs."""
    if planned(host).kubelet is None:
        events.record("without-kubelet", host.name)
        show_alone(host, "no kubelet on this host and none in the profile: nothing to configure")
    take_part()
