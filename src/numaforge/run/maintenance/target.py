"""The wanted state of a host, as the cluster sees it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from numaforge.change.goal import Goal
from numaforge.change.look import NodeQuery, question
from numaforge.kubelet.admission.amd_resources import AMD_PREFIXES
from numaforge.kubelet.admission.nvidia_resources import GPU_RESOURCE
from numaforge.kubelet.checkpoints import CPU_STATE_FILE, policy_in
from numaforge.kubelet_minors.flags import flag_value, registered_name
from numaforge.lib.errors import PlanError
from numaforge.lib.file_content import PLAN_PATH
from numaforge.planning.document import loads
from numaforge.roles.device_owners import own_devices
from numaforge.roles.device_plugin.labels import MIG_LABEL
from numaforge.roles.rdma.manifests import POOLS_LABEL
from numaforge.rollout.names import node_name

# Only runs with a roll-out import the modules that it needs.
if TYPE_CHECKING:
    from collections.abc import Mapping

    from numaforge.machine.topology.trays import Tray
    from numaforge.planning.plan import NodePlan
    from numaforge.rollout.configz import KubeletEndpoint
    from numaforge.rollout.gate import Expected
    from numaforge.rollout.options import RolloutOptions


@dataclass(frozen=True)
class Target:
    """A goal, and how its host appears in a cluster."""

    goal: Goal

    @property
    def node(self) -> str:
        """The name under which the kubelet registers; raises NodeNameError for one that no Node has."""
        name = registered_name(self._flags, self.goal.plan.hostname)
        return node_name(name) if self.joined else name

    @property
    def joined(self) -> bool:
        """Whether the kubelet has a login to a cluster, named by its flag or found on the host."""
        install = self.goal.machine.kubelet
        return flag_value(self._flags, "kubeconfig") is not None or bool(install and install.login)

    @property
    def distribution(self) -> str | None:
        """The distribution that runs the kubelet in its own way; None where the kubelet has its own unit."""
        return self.goal.machine.kubelet.distribution if self.goal.machine.kubelet else None

    @property
    def expected(self) -> Expected:
        """What the cluster should report of the node afterwards, as far as the called roles change it."""
        from numaforge.rollout.gate import Expected

        plan, roles = self.goal.plan, self.goal.roles
        if plan.kubelet is None or not self._labels_count:
            return Expected()
        quantities = plan.allocatable.quantities if plan.allocatable else {}
        gpus = any(GPU_RESOURCE.fullmatch(name) for name in quantities)
        if "kubelet" not in roles:
            quantities = {name: value for name, value in quantities.items() if "/" in name}
        return Expected(
            settings=plan.kubelet.settings if "kubelet" in roles else {},
            allocatable=quantities,
            memory_bytes=plan.memory.capacity_bytes if "memory" in quantities else None,
            all_gpus=gpus or (plan.device_plugin is not None and bool(quantities)),
            # Our own labels in the earlier plan are removed: no earlier value exists to put back.
            labels={**dict.fromkeys({MIG_LABEL, POOLS_LABEL} & self._earlier_labels.keys()), **plan.labels},
            prefixes=_prefixes(plan, self._earlier) if quantities or not plan.rdma.pools_deployed else (),
            devices=own_devices(plan, {*roles, "amd_partitions"}),
        )

    @property
    def trays(self) -> tuple[Tray | None, Tray | None]:
        """The host as a tray of a rack, as it is and as planned; each is None where it is no tray."""
        from numaforge.machine.topology.trays import tray_of
        from numaforge.roles.imex.tray import planned_tray

        return tray_of(self.goal.machine), planned_tray(self.goal.machine, self.goal.plan)

    @property
    def unpins(self) -> bool:
        """Whether the static CPU manager policy ends: pods with exclusive CPUs share them afterwards."""
        kubelet, install = self.goal.plan.kubelet, self.goal.machine.kubelet
        if kubelet is None or install is None or "kubelet" not in self.goal.roles:
            return False
        policy = policy_in(install.state_files.get(CPU_STATE_FILE))
        return policy == "static" and kubelet.settings.get("cpuManagerPolicy") == "none"

    @property
    def saves_plan(self) -> bool:
        """Whether the plan is saved on the host, where the suite reads it; a removal's plan is not."""
        return any(file.path == PLAN_PATH for file in self.goal.plan.files)

    @property
    def relabelling(self) -> tuple[str, ...]:
        """The label changes, in words, since the plan that an earlier run left on the host."""
        if not self._labels_count:
            return ()
        planned, earlier = self.goal.plan.labels, self._earlier_labels
        changed = [name for name in sorted({*planned, *earlier}) if planned.get(name) != earlier.get(name)]
        return tuple(
            f"the Node's label {name} {f'becomes {planned[name]}' if name in planned else 'is put back'}"
            for name in changed
        )

    @property
    def endpoint(self) -> KubeletEndpoint:
        """The kubelet's endpoint for its running configuration, which no plan changes."""
        from numaforge.rollout.configz import kubelet_endpoint

        return kubelet_endpoint(self.goal.machine.kubelet)

    @property
    def question(self) -> NodeQuery:
        """What has to be read from the host to decide its change."""
        return question(self.goal)

    @cached_property
    def _earlier(self) -> NodePlan | None:
        """The plan that an earlier run left on the host; None also where it cannot be read."""
        text = self.goal.machine.previous_plan
        try:
            return loads(text) if text else None
        except PlanError:
            return None

    @property
    def _labels_count(self) -> bool:
        """Whether a role was called that affects labels."""
        return bool(self.goal.roles & {"kubelet", "mig", "amd_partitions", "rdma"})

    @property
    def _earlier_labels(self) -> Mapping[str, str]:
        return self._earlier.labels if self._earlier else {}

    @property
    def _flags(self) -> tuple[str, ...]:
        return self.goal.machine.kubelet.flags if self.goal.machine.kubelet else ()


_claims: defaultdict[str, dict[str, str]] = defaultdict(dict)
"""The node that each host claims to be, by cluster: pyinfra prepares all hosts before it changes one."""


def claims(options: RolloutOptions) -> dict[str, str]:
    """Return the claimed nodes of the joined hosts of this run, in the cluster of the options."""
    return _claims[key_of_cluster(options)]


def key_of_cluster(options: RolloutOptions) -> str:
    """Return a key that is equal for options naming the same cluster."""
    return options.model_dump_json(include={"kubeconfig", "context", "namespace", "kubectl"})


def _prefixes(*plans: NodePlan | None) -> tuple[str, ...]:
    """Return the prefixes of resources that only the plugins of planned devices advertise."""
    deployed = (plan.rdma for plan in plans if plan and plan.rdma.pools_deployed)
    prefixes = {f"{pool.resource.partition('/')[0]}/" for rdma in deployed for pool in rdma.pools}
    if any(plan and plan.amd_partitions.gpus for plan in plans):
        prefixes |= {*AMD_PREFIXES}
    return tuple(sorted(prefixes))
