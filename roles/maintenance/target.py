"""What a host is to be, as the cluster sees it."""

from __future__ import annotations

from dataclasses import dataclass

from numaforge.kubelet.admission.gpu_resources import GPU_RESOURCE
from numaforge.kubelet.config.flags import flag_value
from numaforge.node.look import NodeQuery, question
from numaforge.node.part import Goal
from numaforge.rollout.configz import KubeletEndpoint, kubelet_endpoint
from numaforge.rollout.gate import Expected


@dataclass(frozen=True)
class Target:
    """A goal, and how its host appears in a cluster."""

    goal: Goal

    @property
    def node(self) -> str:
        """The name under which the kubelet registers."""
        return (flag_value(self._flags, "hostname-override") or self.goal.plan.hostname).lower()

    @property
    def joined(self) -> bool:
        """Whether the kubelet has a login to a cluster, so that pods may run on the host."""
        return flag_value(self._flags, "kubeconfig") is not None

    @property
    def kubelet_unit(self) -> str:
        """The unit of the kubelet whose process has to stay the same while the node is proved."""
        kubelet = self.goal.plan.kubelet
        return kubelet.unit if kubelet else "kubelet.service"

    @property
    def expected(self) -> Expected:
        """What the cluster is to say of the node afterwards: what the roles that were called are to bring."""
        plan, roles = self.goal.plan, self.goal.roles
        if plan.kubelet is None or not roles & {"kubelet", "mig"}:
            return Expected()
        quantities = plan.allocatable.quantities if plan.allocatable else {}
        gpus = any(GPU_RESOURCE.fullmatch(name) for name in quantities)
        if "kubelet" not in roles:
            quantities = {name: value for name, value in quantities.items() if "/" in name}
        return Expected(
            settings=plan.kubelet.settings if "kubelet" in roles else {},
            allocatable=quantities,
            all_gpus=gpus or (plan.device_plugin is not None and bool(quantities)),
            labels=plan.labels,
        )

    @property
    def endpoint(self) -> KubeletEndpoint:
        """Where the kubelet tells its own node what it runs with, which no plan changes."""
        return kubelet_endpoint(self.goal.machine.kubelet)

    @property
    def question(self) -> NodeQuery:
        """What a change of the host is decided on."""
        return question(self.goal)

    @property
    def _flags(self) -> tuple[str, ...]:
        return self.goal.machine.kubelet.flags if self.goal.machine.kubelet else ()
