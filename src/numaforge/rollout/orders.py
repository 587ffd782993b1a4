"""An admin's requests beside a roll-out: the status of nodes, the release of a lock."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from numaforge.lib.errors import NumaforgeError
from numaforge.rollout.cluster import Cluster, ClusterNode, Lease
from numaforge.rollout.lead import ROLLOUT, STATE, STOP, read_state
from numaforge.rollout.names import NODE
from numaforge.rollout.record import (
    Phase,
    Record,
    lease_name,
    node_leases,
    read_ended,
    read_unfinished,
    unfinished,
    unreadable,
)
from numaforge.rollout.runner import is_gone, owner_of
from numaforge.rollout.self_planned import ANNOTATION, SelfPlanned, is_tainted, self_planned
from numaforge.rollout.slots import SILENT_SECONDS, SLOT, LeaseWatch, Slot, held_slots, release
from numaforge.rollout.steps import Clock, Steps

_ASK_AGAIN_SECONDS = 2.0
_RENEWAL_SEEN_SECONDS = 15.0  # a live runner renews every 10 s


@dataclass(frozen=True)
class NodeStatus:
    """A node as the cluster has it: its roll-out in progress, the result of the last one, or its `trouble`.

    `own` is the report of a node that plans itself; `tainted`: it does not accept pods yet. `silent_seconds`
    without a renewal of its slot are by this machine's clock; None where it is not overdue.
    """

    node: str
    record: Record | None
    ending: str
    reason: str
    unschedulable: bool
    ready: bool
    trouble: str = ""
    own: SelfPlanned | None = None
    tainted: bool = False
    silent_seconds: int | None = None

    @property
    def runner_gone(self) -> bool:
        """Whether the process that worked on it is certainly dead."""
        return self.record is not None and is_gone(self.record.runner)

    @property
    def left(self) -> str:
        """Return what becomes of a node whose runner is dead or silent; "" for all others."""
        if self.record is None or self.record.phase is Phase.HELD:
            return ""
        if not self.runner_gone and self.silent_seconds is None:
            return ""
        change = self.record.transaction if self.record.phase is Phase.APPLYING else None
        undoes = f"change {change} undoes itself on the node unless it is confirmed; " if change else ""
        return f"{undoes}`numaforge rollout resume` goes on with it"


@dataclass(frozen=True)
class NamedRollout:
    """A roll-out by its name; `leader` is "" when it has ended."""

    name: str
    leader: str
    state: dict[str, Any]
    stop: str


@dataclass(frozen=True)
class RolloutStatus:
    """The roll-outs, slots and nodes of a cluster; `troubles` are Leases that cannot be read."""

    rollouts: tuple[NamedRollout, ...]
    slots: tuple[Slot, ...]
    nodes: tuple[NodeStatus, ...]
    troubles: tuple[str, ...] = ()


def situation(cluster: Cluster, now: datetime | None = None) -> RolloutStatus:
    """Return the status of roll-outs, read only from the cluster; `now` is by this machine's clock."""
    leases = cluster.leases(ended=True)
    slots = tuple(held_slots(leases))
    records = node_leases(leases)
    nodes = [_standing(node, records.pop(node.name, None)) for node in cluster.nodes()]
    nodes = [
        status
        for status in nodes
        if status.record or status.ending or status.trouble or status.own or status.tainted
    ]
    nodes += [_gone(name, lease) for name, lease in unfinished(records.values()).items()]
    silent = _silent(slots, now or datetime.now(UTC))
    nodes = [replace(status, silent_seconds=silent.get(status.node)) for status in nodes]
    rollouts = [
        NamedRollout(
            lease.name.removeprefix(ROLLOUT), lease.holder, read_state(lease), lease.annotations.get(STOP, "")
        )
        for lease in leases
        if lease.name.startswith(ROLLOUT)
    ]
    return RolloutStatus(tuple(rollouts), slots, tuple(nodes), tuple(_troubles(leases)))


def _silent(slots: Iterable[Slot], now: datetime) -> dict[str, int]:
    """Return the seconds since overdue slots were renewed, by node; for people: LeaseWatch decides."""
    overdue = {}
    for slot in slots:
        try:
            renewed = datetime.fromisoformat(str(slot.lease.document["spec"]["renewTime"]))
            seconds = int((now - renewed).total_seconds())
        except (KeyError, TypeError, ValueError):
            continue
        if seconds > SILENT_SECONDS:
            overdue[slot.node] = seconds
    return overdue


def unlock(cluster: Cluster, node: str, *, force: bool, clock: Clock) -> Steps[Slot]:
    """Release a node's slot; raises NumaforgeError without one, at work, or unfinished without `force`."""
    slot = next((slot for slot in held_slots(cluster.leases()) if slot.node == node), None)
    if slot is None:
        raise NumaforgeError("holds no slot", where=node, remedy="`numaforge rollout status` lists them")
    yield from _require_watch(cluster, slot, clock)
    if unfinished([cluster.lease(lease_name(node))]) and not force:
        raise NumaforgeError(
            "is in the middle of a roll-out",
            where=node,
            remedy="go on with it (rollout resume), undo it (rollout abort), or give it up as it is: --force",
        )
    release(cluster, slot)
    return slot


def _require_watch(cluster: Cluster, slot: Slot, clock: Clock) -> Steps[None]:
    watch = LeaseWatch(clock)
    begun = clock()
    lease = slot.lease
    while not watch.tells_dead(lease) and clock() - begun < _RENEWAL_SEEN_SECONDS:
        yield _ASK_AGAIN_SECONDS
        current = cluster.lease(lease.name)
        if current.resource_version != slot.lease.resource_version:
            raise NumaforgeError(
                f"{slot.runner} is at work on it",
                where=slot.node,
                remedy=f"stop that process first; it counts as dead after {SILENT_SECONDS:.0f} s of silence",
            )


def _troubles(leases: Iterable[Lease]) -> Iterator[str]:
    for lease in leases:
        if (
            lease.name.startswith(ROLLOUT)
            and lease.annotations.get(STATE, "{}") != "{}"
            and not read_state(lease)
        ):
            yield f"the Lease {lease.name} cannot be read: its annotation {STATE} is not one of ours"
        if lease.name.startswith(SLOT) and lease.holder and not lease.annotations.get(NODE):
            yield f"the Lease {lease.name} is held by {lease.holder} for no node: it counts as free"


def _standing(node: ClusterNode, lease: Lease | None) -> NodeStatus:
    report = self_planned(node)
    trouble = (unreadable(lease) if lease is not None else None) or ""
    record = None if trouble else read_unfinished(lease)
    last = None if trouble else record or read_ended(lease, node)
    if report is None and ANNOTATION in node.annotations and not trouble:
        trouble = f"the annotation {ANNOTATION} cannot be read"
    return NodeStatus(
        node=node.name,
        record=record,
        ending=str(last.ending) if last is not None and record is None else "",
        reason=last.reason if last is not None else "",
        unschedulable=node.unschedulable,
        ready=node.ready,
        trouble=trouble,
        own=report,
        tainted=is_tainted(node),
    )


def _gone(name: str, lease: Lease) -> NodeStatus:
    trouble = unreadable(lease) or ""
    return NodeStatus(
        name,
        record=None if trouble else read_unfinished(lease),
        ending="",
        reason=f"the node has left the cluster: resume once it is back, or delete the Lease {lease.name}",
        unschedulable=False,
        ready=False,
        trouble=trouble,
    )


def working(standing: NodeStatus) -> str:
    """Return who works on a node, as text for people."""
    return owner_of(standing.record.runner) if standing.record else ""
