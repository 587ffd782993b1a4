"""The topology manager: asks every manager for hints, merges them, and has the managers allocate.

pkg/kubelet/cm/topologymanager/scope*.go of kubelet 1.36.
"""

from collections.abc import Sequence
from itertools import combinations

from numaforge.kubelet.admission.cpu_manager import CpuManager
from numaforge.kubelet.admission.demand import Demand
from numaforge.kubelet.admission.device_manager import DeviceManager
from numaforge.kubelet.admission.hints import Hint, HintsByResource, Opinion
from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.memory_manager import MemoryManager
from numaforge.kubelet.admission.merge import MergePolicy
from numaforge.kubelet.admission.pod import Container
from numaforge.kubelet.admission.refusal import TOPOLOGY_AFFINITY, PodRejectedError
from numaforge.kubelet.admission.settings import NONE, Settings

Opinions = dict[str, tuple[Opinion, ...]]
"""The managers' opinions, by container."""

HintProvider = DeviceManager | CpuManager | MemoryManager

# The hint of a container without one: any NUMA node, not preferred.
_UNSET = Hint(None, False)


class TopologyManager:
    """One policy in one scope over the providers, asked in their order: devices, CPUs, memory."""

    def __init__(self, machine: MachineInfo, settings: Settings, providers: Sequence[HintProvider]) -> None:
        self.providers = tuple(providers)
        self.scope = settings.topology_scope
        self.policy: MergePolicy | None = None
        if settings.topology_policy != NONE:
            self.policy = MergePolicy(
                name=settings.topology_policy,
                nodes=machine.node_mask,
                prefer_closest=settings.prefer_closest_numa,
                distances={node.id: node.distances for node in machine.nodes},
            )

    def admit(self, demand: Demand, hints: dict[str, Hint], opinions: Opinions | None = None) -> None:
        """Allocate what a pod needs and note each container's hint in `hints`, or raise PodRejectedError.

        Where `opinions` is given, the managers' opinions are recorded in it.
        """
        containers = demand.pod.containers
        if self.policy is None:
            self._allocate(demand, containers, _UNSET)
            return
        by_pod = self.scope == "pod"
        for unit in [containers] if by_pod else [(container,) for container in containers]:
            answers = [
                provider.pod_hints(demand) if by_pod else provider.container_hints(demand, unit[0])
                for provider in self.providers
            ]
            names = [container.name for container in unit]
            if opinions is not None:
                opinions.update(dict.fromkeys(names, _opinions(answers)))
            hint, admitted = self.policy.merge(answers)
            hints.update(dict.fromkeys(names, hint))
            if not admitted:
                raise _affinity_refusal(demand, self.scope, _refused_resources(self.policy, answers))
            if by_pod and demand.by_pod:
                for provider in self.providers:
                    provider.allocate_pod(demand, hint)
            else:
                self._allocate(demand, unit, hint)

    def _allocate(self, demand: Demand, containers: Sequence[Container], hint: Hint) -> None:
        for container in containers:
            for provider in self.providers:
                provider.allocate(demand, container, hint)


def _opinions(answers: Sequence[HintsByResource]) -> tuple[Opinion, ...]:
    return tuple(Opinion.of(resource, hints) for answer in answers for resource, hints in answer.items())


def _affinity_refusal(demand: Demand, scope: str, cause: list[str]) -> PodRejectedError:
    message = "Resources cannot be allocated with Topology locality"
    if demand.by_pod:
        manager = "under pod-scope" if scope == "pod" else "with a container-level"
        message = f"Pod Scope pod with pod-level resources failed admission {manager} topology manager"
    return PodRejectedError(TOPOLOGY_AFFINITY, message, *cause)


def _refused_resources(policy: MergePolicy, answers: Sequence[HintsByResource]) -> list[str]:
    """Return the resources that the policy refuses alone, else a pair that it refuses, else all."""
    opinions = {
        resource: hints for answer in answers for resource, hints in answer.items() if hints is not None
    }
    refused = [resource for resource, hints in opinions.items() if not policy.admits([{resource: hints}])]
    if refused:
        return refused
    for pair in combinations(opinions, 2):
        if not policy.admits([{resource: opinions[resource] for resource in pair}]):
            return list(pair)
    return list(opinions)
