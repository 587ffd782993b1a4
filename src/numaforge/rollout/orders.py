"""What an admin asks beside a roll-out: where nodes stand, who is silent, that a lock be broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numaforge.errors import NumaforgeError
from numaforge.rollout.cluster import Cluster, ClusterNode, Lease, find_lease
from numaforge.rollout.lead import ROLLOUT, STOP, read_state
from numaforge.rollout.record import RESULT, Record, read_record, read_result
from numaforge.rollout.runner import owner_of
from numaforge.rollout.slots import SILENT_SECONDS, Silence, Slot, held_slots, release
from numaforge.rollout.steps import Clock, Steps

_ASK_AGAIN_SECONDS = 2.0
_RENEWAL_SEEN_SECONDS = 15.0  # a live runner renews every 10 s


@dataclass(frozen=True)
class Standing:
    """A node as the cluster has it: its roll-out under way, or how the last one ended."""

    node: str
    record: Record | None
    ending: str
    reason: str
    unschedulable: bool
    ready: bool


@dataclass(frozen=True)
class Led:
    """A roll-out by its name; `leader` is "" when it has ended."""

    name: str
    leader: str
    state: dict[str, Any]
    stop: str


@dataclass(frozen=True)
class Situation:
    """Everything that the cluster says of roll-outs."""

    rollouts: tuple[Led, ...]
    slots: tuple[Slot, ...]
    nodes: tuple[Standing, ...]


def situation(cluster: Cluster) -> Situation:
    """Read it, from nothing but the cluster."""
    leases = cluster.leases()
    nodes = [
        _standing(node)
        for node in cluster.nodes()
        if read_record(node) is not None or RESULT in node.annotations
    ]
    rollouts = [_led(lease) for lease in leases if lease.name.startswith(ROLLOUT)]
    return Situation(tuple(rollouts), tuple(held_slots(leases)), tuple(nodes))


def unlock(cluster: Cluster, node: str, *, force: bool, clock: Clock) -> Steps[Slot]:
    """Take a node's slot away from it, and return what it was.

    Raises NumaforgeError where the node holds none, where somebody is at work on it, and, without `force`,
    where its roll-out is unfinished.
    """
    slot = next((slot for slot in held_slots(cluster.leases()) if slot.node == node), None)
    if slot is None:
        raise NumaforgeError("holds no slot", where=node, remedy="numaforge rollout status lists them")
    yield from _require_silence(cluster, slot, clock)
    found = next((each for each in cluster.nodes() if each.name == node), None)
    if found is not None and read_record(found) is not None and not force:
        raise NumaforgeError(
            "is in the middle of a roll-out",
            where=node,
            remedy="go on with it (rollout resume), undo it (rollout abort), or give it up as it is: --force",
        )
    release(cluster, slot)
    return slot


def silent(cluster: Cluster, slots: Sequence[Slot], clock: Clock) -> Steps[list[Slot]]:
    """Return those slots behind which nobody lives any more; waits until that is certain of each."""
    silence = Silence(clock)
    first = {slot.lease.name: slot.lease.resource_version for slot in slots}
    waiting = {slot.lease.name: slot for slot in slots}
    dead: list[Slot] = []
    while waiting:
        for lease in cluster.leases():
            slot = waiting.get(lease.name)
            if slot is None:
                continue
            if lease.holder != slot.runner or lease.resource_version != first[lease.name]:
                del waiting[lease.name]
            elif silence.tells_dead(lease):
                dead.append(waiting.pop(lease.name))
        if waiting:
            yield _ASK_AGAIN_SECONDS
    return dead


def _require_silence(cluster: Cluster, slot: Slot, clock: Clock) -> Steps[None]:
    silence = Silence(clock)
    begun = clock()
    lease = slot.lease
    while not silence.tells_dead(lease) and clock() - begun < _RENEWAL_SEEN_SECONDS:
        yield _ASK_AGAIN_SECONDS
        found = find_lease(cluster, lease.name)
        if found.resource_version != slot.lease.resource_version:
            raise NumaforgeError(
                f"{slot.runner} is at work on it",
                where=slot.node,
                remedy=f"stop that process first; it counts as dead after {SILENT_SECONDS:.0f} s of silence",
            )


def _led(lease: Lease) -> Led:
    stop = lease.annotations.get(STOP, "")
    return Led(lease.name.removeprefix(ROLLOUT), lease.holder, read_state(lease), stop)


def _standing(node: ClusterNode) -> Standing:
    record, result = read_record(node), read_result(node)
    return Standing(
        node=node.name,
        record=record,
        ending="" if record else str(result.get("ending", "")),
        reason=record.reason if record else str(result.get("reason", "")),
        unschedulable=node.unschedulable,
        ready=node.ready,
    )


def working(standing: Standing) -> str:
    """Return who works on a node, for people."""
    return owner_of(standing.record.runner) if standing.record else ""
