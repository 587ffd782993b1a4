"""The kubelet's configuration: checked before anything is touched, then changed as one transaction."""

from __future__ import annotations

from pyinfra import host

from numaforge.hosts import planned, role, seen, will_read
from numaforge.planning.model import NodePlan
from numaforge.render import kubelet_files
from numaforge.topology.model import NodeTopology

from .change import check, outlook
from .operations import kubelet_configuration, question_about

__all__ = ["kubelet"]


@role("Kubelet")
def kubelet() -> None:
    """Bring the kubelet to the plan, and restart it only when that changes what it runs with.

    Host data: `kubelet_start_seconds` (120) and `kubelet_stable_seconds` (10), how long the kubelet may take
    to become healthy, and how long it has to stay so.
    """
    plan = planned(host)
    if plan.kubelet is None:
        host.log("no kubelet on this host and none in the profile: nothing to configure")
        return
    _refuse_what_would_not_start(plan, seen(host))
    will_read(host, question_about(plan, plan.kubelet, seen(host)).script)
    kubelet_configuration(
        name="Configure the kubelet",
        plan=plan,
        machine=seen(host),
        start_seconds=int(host.data.get("kubelet_start_seconds", 120)),
        stable_seconds=int(host.data.get("kubelet_stable_seconds", 10)),
    )


def _refuse_what_would_not_start(plan: NodePlan, machine: NodeTopology) -> None:
    """Judge the new configuration on what was detected, before any role has touched the host."""
    install = machine.kubelet
    config_text = install.config_text if install else None
    drop_ins = install.drop_ins if install else {}
    wanted = kubelet_files(plan, config_text)
    check(outlook(plan, machine, wanted, config_text, drop_ins, {}))
