"""The topology manager: asks every manager for hints, merges them, and has the managers allocate.

pkg/kubelet/cm/topologymanager/scope*.go of kubelet 1.36.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Protocol

from numaforge.kubelet.admission.demand import Demand
from numaforge.kubelet.admission.hints import Hint, HintsByResource, Opinion
from numaforge.kubelet.admission.machine import MachineInfo
from numaforge.kubelet.admission.merge import MergePolicy
from numaforge.kubelet.admission.pod import Container
from numaforge.kubelet.admission.refusal import TOPOLOGY_AFFINITY, PodRejectedError
from numaforge.kubelet.admission.settings import NONE, Settings

Opinions = dict[str, tuple[Opinion, ...]]
"""The managers' opinions, by container."""

# The hint of a container without one: any NUMA node, not preferred.
_UNSET = Hint(None, False)


class HintProvider(Protocol):
    """A manager as the topology manager sees it."""

    def container_hints(self, demand: Demand, container: Container) -> HintsByResource:
        """Return the hints for one container."""

    def pod_hints(self, demand: Demand) -> HintsByResource:
        """Return the hints for a pod as a whole."""

    def allocate(self, demand: Demand, container: Container, hint: Hint) -> None:
        """Allocate for one container, or raise PodRejectedError."""

    def allocate_pod(self, demand: Demand, hint: Hint) -> None:
        """Allocate for a pod that is managed as one unit, or raise PodRejectedError."""


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
        if self.policy is None:
            for container in demand.pod.containers:
                self._allocate(demand, container, _UNSET)
        elif self.scope == "pod":
            self._admit_pod(self.policy, demand, hints, opinions)
        else:
            self._admit_containers(self.policy, demand, hints, opinions)

    def _admit_containers(
        self, policy: MergePolicy, demand: Demand, hints: dict[str, Hint], opinions: Opinions | None
    ) -> None:
        for container in demand.pod.containers:
            answers = [provider.container_hints(demand, container) for provider in self.providers]
            if opinions is not None:
                opinions[container.name] = _opinions(answers)
            hint, admitted = policy.merge(answers)
            hints[container.name] = hint
            if not admitted:
                cause = _refused_resources(policy, answers)
                raise _affinity_refusal(demand, "with a container-level topology manager", cause)
            self._allocate(demand, container, hint)

    def _admit_pod(
        self, policy: MergePolicy, demand: Demand, hints: dict[str, Hint], opinions: Opinions | None
    ) -> None:
        answers = [provider.pod_hints(demand) for provider in self.providers]
        if opinions is not None:
            opinions.update(dict.fromkeys((one.name for one in demand.pod.containers), _opinions(answers)))
        hint, admitted = policy.merge(answers)
        for container in demand.pod.containers:
            hints[container.name] = hint
        if not admitted:
            raise _affinity_refusal(
                demand, "under pod-scope topology manager", _refused_resources(policy, answers)
            )
        if demand.by_pod:
            for provider in self.providers:
                provider.allocate_pod(demand, hint)
            return
        for container in demand.pod.containers:
            self._allocate(demand, container, hint)

    def _allocate(self, demand: Demand, container: Container, hint: Hint) -> None:
        for provider in self.providers:
            provider.allocate(demand, container, hint)


def _opinions(answers: Sequence[HintsByResource]) -> tuple[Opinion, ...]:
    return tuple(Opinion.of(resource, hints) for answer in answers for resource, hints in answer.items())


def _affinity_refusal(demand: Demand, circumstance: str, cause: list[str]) -> PodRejectedError:
    if demand.by_pod:
        message = f"Pod Scope pod with pod-level resources failed admission {circumstance}"
        return PodRejectedError(TOPOLOGY_AFFINITY, message, *cause)
    return PodRejectedError(TOPOLOGY_AFFINITY, "Resources cannot be allocated with Topology locality", *cause)


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
