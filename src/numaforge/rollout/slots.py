"""Slots: Leases in the cluster, so that all roll-outs there share one budget.

A slot belongs to a node from before its cordon until after its uncordon, whichever process works on it. When
that process dies, the node keeps its slot: no other node gets it, and the runner that resumes takes it over.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

from numaforge.lib.errors import NumaforgeError
from numaforge.rollout.budget import CachedPool, Pool
from numaforge.rollout.cluster import (
    ApiUnreachableError,
    Cluster,
    ClusterNode,
    ConflictError,
    Lease,
    NotFoundError,
)
from numaforge.rollout.control_plane import is_control_plane, not_healthy
from numaforge.rollout.names import NODE, NODE_UID
from numaforge.rollout.patience import Patience, retried
from numaforge.rollout.record import read_unfinished, unfinished
from numaforge.rollout.runner import is_gone
from numaforge.rollout.steps import Beside, Clock, Steps

T = TypeVar("T")

SLOT = "numaforge-slot-"
RENEW_SECONDS = 10.0
SILENT_SECONDS = 60.0
"""A runner that has not renewed its slot for this long, by the watcher's own clock, counts as dead."""
_ASK_AGAIN_SECONDS = 10.0
_LOOK_SECONDS = 2 * _ASK_AGAIN_SECONDS  # the most silence that one look at a Lease adds


class NoSlotError(NumaforgeError):
    """No slot came free in time, or another runner holds the node."""


class NotTakenAgainError(NoSlotError):
    """The budget has no room for a node that was uncordoned in the middle of its roll-out."""


@dataclass(frozen=True)
class _Wait:
    """Why there is no slot now; `again`: for a node that was uncordoned in the middle of its roll-out."""

    reason: str
    again: bool = False


@dataclass(frozen=True)
class Slot:
    """A slot that a node holds; `runner` works on the node, or did at its last renewal."""

    lease: Lease

    @property
    def node(self) -> str:
        return self.lease.annotations[NODE]

    @property
    def node_uid(self) -> str:
        """The UID of that node, which tells it from a later node of the same name."""
        return self.lease.annotations.get(NODE_UID, "")

    @property
    def runner(self) -> str:
        """The process that works on the node."""
        return self.lease.holder


def held_slots(leases: Iterable[Lease]) -> list[Slot]:
    return [Slot(lease) for lease in leases if lease.name.startswith(SLOT) and lease.annotations.get(NODE)]


def holds_slot(leases: Iterable[Lease], node: ClusterNode) -> bool:
    return any(_is_of(slot, node) for slot in held_slots(leases))


def live_slots(cluster: Cluster, pool: Pool, leases: Iterable[Lease]) -> list[Slot]:
    """Return the slots of nodes that exist: a node that has left the cluster no longer takes room."""
    return [
        slot
        for slot in held_slots(leases)
        if ((node := pool.nodes.get(slot.node)) and node.uid == slot.node_uid) or _node_exists(cluster, slot)
    ]


def in_progress(pool: Pool, slots: Iterable[Slot], leases: Iterable[Lease]) -> set[str]:
    """Return the nodes in progress: those that hold a slot, and those with a record that have lost theirs."""
    records = unfinished(leases).keys() & {*pool.nodes, *pool.control_plane}
    return records | {slot.node for slot in slots}


def _node_exists(cluster: Cluster, slot: Slot) -> bool:
    try:
        return cluster.node(slot.node).uid == slot.node_uid
    except NotFoundError:
        return False


class LeaseWatch:
    """How long each Lease has gone without a renewal, by the clock of one process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By name: the version, how long it has been unchanged, and the time of the last look.
        self._seen: dict[str, tuple[str, float, float]] = {}

    def of(self, lease: Lease) -> float:
        """Return the seconds without a renewal; gaps between looks count in part: the API may be away."""
        now = self._clock()
        version, silent, looked = self._seen.get(lease.name, ("", 0.0, now))
        silent = silent + min(now - looked, _LOOK_SECONDS) if version == lease.resource_version else 0.0
        self._seen[lease.name] = (lease.resource_version, silent, now)
        return silent

    def tells_dead(self, lease: Lease) -> bool:
        """Whether the holder of a Lease is dead, or has been silent for too long to be alive."""
        silent = self.of(lease) >= SILENT_SECONDS
        return silent or is_gone(lease.holder)


def take_slot(
    cluster: Cluster,
    name: str,
    runner: str,
    cached_pool: CachedPool,
    *,
    clock: Clock,
    tell: Callable[[str], object],
    veto: Callable[[], str | None] = lambda: None,
    patience_seconds: float,
    unreachable_timeout: float = 900.0,
) -> Steps[tuple[Slot, ClusterNode]]:
    """Wait until the node may be taken out of service; return its slot, and the node as it was then.

    A node whose roll-out is unfinished is out of service already: it gets its slot regardless of the budget,
    once its earlier runner is dead. Where it was uncordoned, it waits for room like any other. For nodes
    without a roll-out, `veto` may return why the node must not begin, on every attempt. Raises NoSlotError on
    a veto, for a node outside the pool, and after `patience_seconds`; ApiUnreachableError after
    `unreachable_timeout`, when it is unknown whether the node holds a slot.
    """
    deadline = clock() + patience_seconds
    watch = LeaseWatch(clock)
    patience = Patience(unreachable_timeout)
    while True:
        try:
            attempt = _try(cluster, cluster.node(name), runner, cached_pool, watch, veto)
        except ApiUnreachableError as unreachable:
            seconds = patience.wait(unreachable)
            tell(unreachable.message)
            yield seconds
            continue
        except ConflictError:
            attempt = _Wait("another process takes slots at this moment")
        patience.answered()
        if not isinstance(attempt, _Wait):
            return attempt
        if clock() >= deadline:
            late = NotTakenAgainError if attempt.again else NoSlotError
            raise late(f"no slot after {patience_seconds:.0f} s: {attempt.reason}", where=name)
        tell(attempt.reason)
        yield _ASK_AGAIN_SECONDS


def renew(cluster: Cluster, slot: Slot) -> Slot:
    """Renew the slot as a sign of life; raises ConflictError where another process has taken it over."""
    try:
        return Slot(cluster.put_lease(slot.lease))
    except ConflictError:
        lease = _unless_taken(cluster, slot)  # an earlier renewal may have succeeded without an answer
        if lease is None:
            raise
        return Slot(cluster.put_lease(lease))


def release(cluster: Cluster, slot: Slot) -> None:
    """Release the slot, unless it is no longer this runner's."""

    def change() -> None:
        if (lease := _unless_taken(cluster, slot)) is not None:
            others = {key: text for key, text in lease.annotations.items() if key not in (NODE, NODE_UID)}
            cluster.put_lease(replace(lease, holder="", annotations=others))

    retried(change, where=slot.lease.name)


def _try(
    cluster: Cluster,
    node: ClusterNode,
    runner: str,
    cached_pool: CachedPool,
    watch: LeaseWatch,
    veto: Callable[[], str | None],
) -> tuple[Slot, ClusterNode] | _Wait:
    """Return slot and node, or why there is no slot; a node released between two reads counts too often."""
    control_plane = is_control_plane(node)
    pool = cached_pool.pool(control_plane=control_plane)
    leases = cluster.leases()
    record = read_unfinished(unfinished(leases).get(node.name))
    resumes = record is not None
    # It was uncordoned after its change had begun and before its end was decided.
    takes_again = record and record.touched and not record.is_decided and not node.unschedulable
    if not resumes and (reason := veto()):
        raise NoSlotError(reason, where=node.name)
    slots = live_slots(cluster, pool, leases)
    own_slot = next((slot for slot in slots if _is_of(slot, node)), None)
    if own_slot is not None and own_slot.runner != runner and not watch.tells_dead(own_slot.lease):
        return _Wait(f"{own_slot.runner} is at work on it")
    if not resumes and pool.outside(node) and (outside := cached_pool.pool(now=True).outside(node)):
        if own_slot is not None:
            release(cluster, own_slot)
        raise NoSlotError(outside, where=node.name)
    takes_out = takes_again and node.name in pool.nodes if resumes else own_slot is None
    if takes_out and (reason := _why_not(pool, slots, leases, node)):
        return _Wait(reason, bool(takes_again))
    if control_plane and not resumes and (reason := not_healthy(cluster)):
        if own_slot is not None:
            release(cluster, own_slot)
        return _Wait(reason)
    slot = _put(cluster, own_slot.lease if own_slot else _free(leases, slots), node, runner)
    if resumes:
        return slot, node
    # Another process may have taken a slot at the same moment, or this one's earlier holder may be alive.
    pool = cached_pool.pool(now=True, control_plane=control_plane)
    leases = cluster.leases()
    if reason := _why_not(pool, live_slots(cluster, pool, leases), leases, node):
        release(cluster, slot)
        return _Wait(reason)
    return slot, node


def _unless_taken(cluster: Cluster, slot: Slot) -> Lease | None:
    """Return the slot's current Lease while it is still this runner's for this node, else None."""
    current = cluster.lease(slot.lease.name)
    return current if (current.holder, current.annotations.get(NODE)) == (slot.runner, slot.node) else None


def _is_of(slot: Slot, node: ClusterNode) -> bool:
    return (slot.node, slot.node_uid) == (node.name, node.uid)


def _why_not(pool: Pool, slots: Iterable[Slot], leases: Iterable[Lease], node: ClusterNode) -> str | None:
    other_slots = [slot for slot in slots if not _is_of(slot, node)]
    return pool.usage(in_progress(pool, other_slots, leases)).refusal(node)


def _free(leases: Iterable[Lease], slots: Iterable[Slot]) -> Lease:
    """Return the first free slot, which may not exist yet."""
    by_name = {lease.name: lease for lease in leases}
    used = {slot.lease.name for slot in slots}
    number = next(number for number in count() if f"{SLOT}{number}" not in used)
    return by_name.get(f"{SLOT}{number}") or Lease(f"{SLOT}{number}")


def _put(cluster: Cluster, lease: Lease, node: ClusterNode, runner: str) -> Slot:
    annotations = {**lease.annotations, NODE: node.name, NODE_UID: node.uid}
    return Slot(cluster.put_lease(replace(lease, holder=runner, annotations=annotations)))


class RenewedSlot:
    """A slot that is renewed during work; once it is `lost`, a node that is cordoned goes on without."""

    def __init__(self, cluster: Cluster, slot: Slot, clock: Clock, tell: Callable[[str], object]) -> None:
        self.slot = slot
        self.since = clock()
        self.lost = False
        self._cluster = cluster
        self._clock = clock
        self._tell = tell
        self._renewed = self.since

    def during(self, work: Steps[T], concurrently: Beside | None = None) -> Steps[T]:
        """Do the work; renew `concurrently`, as a host may block it, else only where the work waits."""
        if concurrently is None:
            return (yield from self._in_between(work))
        with concurrently(self._renewals()):
            return (yield from work)

    def _in_between(self, work: Steps[T]) -> Steps[T]:
        while True:
            try:
                seconds = next(work)
            except StopIteration as end:
                result: T = end.value
                return result
            while seconds > 0:
                part = min(seconds, RENEW_SECONDS)
                yield part
                seconds -= part
                if self._clock() - self._renewed >= RENEW_SECONDS:
                    self._renew()

    def _renewals(self) -> Steps[None]:
        while not self.lost:
            yield RENEW_SECONDS
            self._renew()

    def _renew(self) -> None:
        if self.lost:
            return
        try:
            self.slot = renew(self._cluster, self.slot)
            self._renewed = self._clock()
        except ConflictError:
            self.lost = True
            self._tell("another process has released the node's slot")
        except Exception as error:  # reported and retried: without renewals, a live runner counts as dead
            self._tell(str(error) or type(error).__name__)
