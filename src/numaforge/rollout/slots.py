"""Slots: Leases in the cluster, so that everybody who rolls out there shares one budget.

A slot belongs to a node from before its cordon until after its uncordon, whoever works on it. A process
that dies leaves the slot with the node: nobody else gets it, and who goes on with the node takes it over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from numaforge.errors import NumaforgeError
from numaforge.rollout.budget import Budget, Usage, refusal
from numaforge.rollout.cluster import ApiAwayError, Cluster, ClusterNode, ConflictError, Lease
from numaforge.rollout.runner import is_gone
from numaforge.rollout.steps import Clock, Steps

SLOT = "numaforge-slot-"
NODE = "numaforge.io/node"
NODE_UID = "numaforge.io/node-uid"
RENEW_SECONDS = 10.0
SILENT_SECONDS = 60.0
"""A runner that has not renewed its slot for so long, watched by one clock, is taken for dead."""
_ASK_AGAIN_SECONDS = 5.0


class NoSlotError(NumaforgeError):
    """No slot came free in time, or the node is in somebody else's hands."""


@dataclass(frozen=True)
class Slot:
    """A slot that a node holds; `runner` works on the node, or did when it was last heard of."""

    lease: Lease

    @property
    def node(self) -> str:
        """The node that holds it."""
        return self.lease.annotations[NODE]

    @property
    def runner(self) -> str:
        """The process that works on the node."""
        return self.lease.holder


def held_slots(leases: Iterable[Lease]) -> list[Slot]:
    """Return the slots that a node holds."""
    return [Slot(lease) for lease in leases if lease.name.startswith(SLOT) and lease.annotations.get(NODE)]


class Silence:
    """Who has not renewed a Lease for how long, as one process sees it by its own clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, tuple[str, float]] = {}

    def of(self, lease: Lease) -> float:
        """Return for how many seconds this Lease has been seen unchanged."""
        version, since = self._since.get(lease.name, ("", 0.0))
        if version != lease.resource_version:
            since = self._clock()
            self._since[lease.name] = (lease.resource_version, since)
        return self._clock() - since

    def tells_dead(self, lease: Lease) -> bool:
        """Say whether the holder of a Lease is dead, or has been silent for too long to be alive."""
        silent = self.of(lease) >= SILENT_SECONDS
        return silent or is_gone(lease.holder)


def take_slot(
    cluster: Cluster,
    node: ClusterNode,
    runner: str,
    budget: Budget,
    *,
    clock: Clock,
    tell: Callable[[str], object],
    veto: Callable[[], str | None] = lambda: None,
    patience_seconds: float,
) -> Steps[Slot]:
    """Wait until the node may be taken out of service, and return its slot.

    `veto` is asked on every attempt and may say why this node is not to be begun any more. Raises
    NoSlotError then, and when it takes too long.
    """
    deadline = clock() + patience_seconds
    silence = Silence(clock)
    while True:
        if reason := veto():
            raise NoSlotError(reason, where=node.name)
        try:
            taken = _try(cluster, node, runner, budget, silence)
        except ApiAwayError as away:
            taken = away.message
        except ConflictError:
            taken = "somebody takes slots at this moment"
        if isinstance(taken, Slot):
            return taken
        if clock() >= deadline:
            raise NoSlotError(f"no slot after {patience_seconds:.0f} s: {taken}", where=node.name)
        tell(taken)
        yield _ASK_AGAIN_SECONDS


def renew(cluster: Cluster, slot: Slot) -> Slot:
    """Show that the runner lives.

    Raises ConflictError where somebody has taken the slot over.
    """
    try:
        return Slot(cluster.put_lease(slot.lease))
    except ConflictError:
        now = _unless_taken(cluster, slot)  # the answer to an earlier renewal may have been lost
        if now is None:
            raise
        return Slot(cluster.put_lease(now))


def release(cluster: Cluster, slot: Slot) -> None:
    """Give the slot back; one that is not this runner's any more is left alone."""
    lease = slot.lease
    for _ in range(20):
        try:
            cluster.put_lease(replace(lease, holder="", annotations=_without_node(lease.annotations)))
        except ConflictError:
            now = _unless_taken(cluster, slot)
            if now is None:
                return
            lease = now
        else:
            return
    raise ConflictError("the Lease keeps changing", where=lease.name)


def _try(cluster: Cluster, node: ClusterNode, runner: str, budget: Budget, silence: Silence) -> Slot | str:
    """Return the slot, or why there is none now."""
    leases = cluster.leases()
    held = held_slots(leases)
    own = next((slot for slot in held if _is_of(slot, node)), None)
    if own is not None:
        if own.runner != runner and not silence.tells_dead(own.lease):
            return f"{own.runner} is at work on it"
        return _put(cluster, own.lease, node, runner)
    if reason := _why_not(cluster, budget, held, node):
        return reason
    slot = _put(cluster, _free(leases), node, runner)
    if reason := _why_not(cluster, budget, held_slots(cluster.leases()), node):
        release(cluster, slot)  # somebody has taken another one at the same moment
        return reason
    return slot


def _unless_taken(cluster: Cluster, slot: Slot) -> Lease | None:
    """Return the slot's Lease as it is now, while it is still this runner's for this node."""
    now = next((lease for lease in cluster.leases() if lease.name == slot.lease.name), None)
    if now is None or now.holder != slot.runner or now.annotations.get(NODE) != slot.node:
        return None
    return now


def _is_of(slot: Slot, node: ClusterNode) -> bool:
    return slot.node == node.name and slot.lease.annotations.get(NODE_UID) == node.uid


def _why_not(cluster: Cluster, budget: Budget, held: Iterable[Slot], node: ClusterNode) -> str | None:
    others = [slot.node for slot in held if not _is_of(slot, node)]
    return refusal(budget, Usage.of(budget, cluster.nodes(budget.pool), others), node)


def _free(leases: Iterable[Lease]) -> Lease:
    """Return the first slot that no node holds; it may not exist yet."""
    known = {lease.name: lease for lease in leases}
    number = 0
    while (lease := known.get(f"{SLOT}{number}")) and lease.annotations.get(NODE):
        number += 1
    return lease or Lease(f"{SLOT}{number}")


def _put(cluster: Cluster, lease: Lease, node: ClusterNode, runner: str) -> Slot:
    annotations = {**lease.annotations, NODE: node.name, NODE_UID: node.uid}
    return Slot(cluster.put_lease(replace(lease, holder=runner, annotations=annotations)))


def _without_node(annotations: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in annotations.items() if name not in (NODE, NODE_UID)}
