"""What a host is to be, as the cluster sees it."""

from __future__ import annotations

from dataclasses import dataclass

from numaforge.kubelet.config.flags import flag_value
from numaforge.node.look import Question, question
from numaforge.node.part import Goal
from numaforge.rollout.configz import KubeletDoor, kubelet_door
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
        plan = self.goal.plan
        if plan.kubelet is None or "kubelet" not in self.goal.roles:
            return Expected()
        return Expected(plan.kubelet.settings, plan.allocatable.quantities if plan.allocatable else {})

    @property
    def door(self) -> KubeletDoor:
        """Where the kubelet tells its own node what it runs with, which no plan changes."""
        return kubelet_door(self.goal.machine.kubelet)

    @property
    def question(self) -> Question:
        """What a change of the host is decided on."""
        return question(self.goal)

    @property
    def _flags(self) -> tuple[str, ...]:
        return self.goal.machine.kubelet.flags if self.goal.machine.kubelet else ()
