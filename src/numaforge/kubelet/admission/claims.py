"""What a node's devices serve of pods' claims: the scheduler's part, which no kubelet looks at.

A kubelet prepares the devices of claims once a pod is admitted; its managers have no hints of them
(kubernetes/website#56232). The search for devices is not done here: a node is given what does it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from numaforge.kubelet.admission.pod import Pod


@dataclass(frozen=True)
class ClaimedDevice:
    """A device that a claim has; `numa_nodes` is empty where it is near none, or that is not known.

    `is_local` says that it is one node's alone.
    """

    driver: str
    pool: str
    name: str
    numa_nodes: frozenset[int] = frozenset()
    is_local: bool = True

    def __str__(self) -> str:
        """Return it as it is written in a claim's status, in one word."""
        return f"{self.driver}/{self.pool}/{self.name}"


@dataclass(frozen=True)
class JudgedClaims:
    """Whether devices serve what a pod claims on a node.

    `refusal` is the scheduler's. `unknown` says why it cannot be known: with it the devices are those that
    might serve. `served` are the extended resources that claims serve with no device plugin
    (DRAExtendedResource). `asked` are the pod's own names of its claims, and these resources; `devices` those
    that each of them has.
    """

    asked: tuple[str, ...] = ()
    refusal: str | None = None
    unknown: tuple[str, ...] = ()
    served: frozenset[str] = frozenset()
    devices: Mapping[str, tuple[ClaimedDevice, ...]] = field(default_factory=dict)


UNKNOWN_OFFER = "what its drivers offer is not known"
NO_CLAIMS = JudgedClaims()


class Claims(Protocol):
    """What claims find on a node beside the pods that are there. It is never changed.

    `request` is what a pod counts for on its node, `advertised` the resources of the node's device plugins.
    """

    def judge(self, pod: Pod, request: Mapping[str, int], advertised: Collection[str]) -> JudgedClaims:
        """Return whether devices serve what a pod claims."""

    def with_pod(self, pod: Pod, request: Mapping[str, int], advertised: Collection[str]) -> Claims:
        """Return what claims find once a pod is there."""

    def without(self, name: str) -> Claims:
        """Return what claims find once a pod has left."""


class NothingKnown:
    """A node of which nothing is known that claims might find."""

    def judge(self, pod: Pod, request: Mapping[str, int], advertised: Collection[str]) -> JudgedClaims:  # noqa: ARG002
        """Return for a pod with claims that nothing is known."""
        if not pod.claims:
            return NO_CLAIMS
        return JudgedClaims(tuple(each.name for each in pod.claims), unknown=(UNKNOWN_OFFER,))

    def with_pod(self, pod: Pod, request: Mapping[str, int], advertised: Collection[str]) -> Claims:  # noqa: ARG002
        """Return the same."""
        return self

    def without(self, name: str) -> Claims:  # noqa: ARG002
        """Return the same."""
        return self
