"""The kubelet's configuration: checked before anything is touched, then changed as one transaction."""

from __future__ import annotations

from pyinfra import host

from numaforge.errors import HostError
from numaforge.hosts import planned, role, seen, will_read
from numaforge.planning.model import NodePlan
from numaforge.render import kubelet_files
from numaforge.rollout import events
from numaforge.rollout.options import PLACE, read_options
from numaforge.topology.model import NodeTopology

from .change import check, outlook
from .operations import kubelet_configuration
from .target import Target

__all__ = ["kubelet"]


@role("Kubelet")
def kubelet() -> None:
    """Bring the kubelet to the plan, and restart it only when that changes what it runs with.

    The hugepage pools are part of that while the kubelet runs, and the role `hugepages`' otherwise.

    Host data: `kubelet_start_seconds` (120) and `kubelet_stable_seconds` (10), how long the kubelet may take
    to become healthy, and how long it has to stay so; `numaforge_rollout`, how a node of a cluster is taken
    out of service for a restart (numaforge.rollout.options). `numaforge rollout` adds what was said on its
    command line as `numaforge_rollout_options`, and as `numaforge_rollout_run` what this run is to it.
    """
    plan = planned(host)
    if plan.kubelet is None:
        events.record("without-kubelet", host.name)
        host.log("no kubelet on this host and none in the profile: nothing to configure")
        return
    options = read_options(host.data.get(PLACE), host.data.get(f"{PLACE}_options"))
    _refuse_what_would_not_start(plan, seen(host))
    target = Target(
        plan,
        plan.kubelet,
        seen(host),
        start_seconds=int(host.data.get("kubelet_start_seconds", 120)),
        stable_seconds=int(host.data.get("kubelet_stable_seconds", 10)),
    )
    if target.joined and options.without_drain is not None and events.heard():
        raise HostError(
            f"the node {target.node} is joined, and a roll-out restarts no kubelet that it has not drained",
            where=f"{PLACE}.without_drain",
            remedy="take without_drain away, or run plain pyinfra, which obeys it",
        )
    will_read(host, target.question.script)
    kubelet_configuration(
        name="Configure the kubelet",
        target=target,
        options=options,
        ask_cluster=host.data.get(f"{PLACE}_options") is not None,
    )


def _refuse_what_would_not_start(plan: NodePlan, machine: NodeTopology) -> None:
    """Judge the new configuration on what was detected, before any role has touched the host."""
    install = machine.kubelet
    config_text = install.config_text if install else None
    drop_ins = install.drop_ins if install else {}
    wanted = kubelet_files(plan, config_text)
    check(outlook(plan, machine, wanted, config_text, drop_ins, {}))
