"""Which claims of pods a node's devices serve: the scheduler's part, which no kubelet checks.

A kubelet prepares the devices of claims once a pod is admitted; its managers have no hints for them
(kubernetes/website#56232). The search for devices is implemented elsewhere and passed to a node.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from numaforge.kubelet.admission.pod import Pod


@dataclass(frozen=True)
class ClaimedDevice:
    """A device that a claim has; `numa_nodes` is empty where it is near none, or where this is unknown.

    `is_local`: only one node has access to it.
    """

    driver: str
    pool: str
    name: str
    numa_nodes: frozenset[int] = frozenset()
    is_local: bool = True

    def __str__(self) -> str:
        """Return the device's name as in a claim's status, in one word."""
        return f"{self.driver}/{self.pool}/{self.name}"


@dataclass(frozen=True)
class JudgedClaims:
    """Whether devices serve what a pod claims on a node.

    `refusal` is the scheduler's message. `unknown` are the reasons why this cannot be determined; `devices`
    are then those that might serve. `served` are the extended resources that claims serve without a device
    plugin (DRAExtendedResource). `asked` are the pod's names for its claims, and these resources; `devices`
    maps each of them to its devices.
    """

    asked: tuple[str, ...] = ()
    refusal: str | None = None
    unknown: tuple[str, ...] = ()
    served: frozenset[str] = frozenset()
    devices: Mapping[str, tuple[ClaimedDevice, ...]] = field(default_factory=dict)


UNKNOWN_OFFER = "what its drivers offer is not known"
NO_CLAIMS = JudgedClaims()


class Claims(Protocol):
    """What is left for claims on a node beside its pods; immutable.

    `request` is what a pod counts for on its node, `advertised` the resources of the node's device plugins.
    """

    def judge(self, pod: Pod, request: Mapping[str, int], advertised: Collection[str]) -> JudgedClaims:
        """Return whether devices serve what a pod claims."""

    def with_pod(self, pod: Pod, request: Mapping[str, int], advertised: Collection[str]) -> "Claims":
        """Return what is left for claims with one more pod."""

    def without(self, name: str) -> "Claims":
        """Return what is left for claims without a pod."""


class NothingKnown:
    """A node whose devices for claims are unknown."""

    def judge(self, pod: Pod, request: Mapping[str, int], advertised: Collection[str]) -> JudgedClaims:  # noqa: ARG002
        """Return that the answer is unknown for a pod with claims."""
        if not pod.claims:
            return NO_CLAIMS
        return JudgedClaims(tuple(claim.name for claim in pod.claims), unknown=(UNKNOWN_OFFER,))

    def with_pod(self, pod: Pod, request: Mapping[str, int], advertised: Collection[str]) -> Claims:  # noqa: ARG002
        """Return the node unchanged."""
        return self

    def without(self, name: str) -> Claims:  # noqa: ARG002
        """Return the node unchanged."""
        return self
