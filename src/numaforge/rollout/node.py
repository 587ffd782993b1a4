"""Change one node of a cluster: take a slot, cordon, drain, transaction, proof, uncordon, release the slot.

Each phase is in the node's record before the next begins, and each begins by reading the present state. So a
runner that resumes after another has died does what is left to do, and nothing twice.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from numaforge.lib.errors import HostUnreachableError, NumaforgeError
from numaforge.rollout.budget import CachedPool
from numaforge.rollout.cluster import (
    ApiUnreachableError,
    Cluster,
    ClusterNode,
    ConflictError,
    Lease,
    NotFoundError,
)
from numaforge.rollout.configz import refuse_unreadable, why_unreadable
from numaforge.rollout.control_plane import (
    ControlPlane,
    is_control_plane,
    not_healthy,
    refused_outage,
    unlabelled,
)
from numaforge.rollout.drain import sort_pods
from numaforge.rollout.gate import offered_resources
from numaforge.rollout.labels import to_set
from numaforge.rollout.machine import Machine
from numaforge.rollout.names import DEFAULT_NAME
from numaforge.rollout.options import START_KUBELET
from numaforge.rollout.other_tools import foreign
from numaforge.rollout.outcome import NodeSettings, Outcome, Progress
from numaforge.rollout.owners import device_owner
from numaforge.rollout.phases import Phases
from numaforge.rollout.record import (
    Ending,
    OvertakenError,
    Phase,
    Record,
    TakenError,
    claim,
    cordon,
    labels_set,
    lease_name,
    left_cordoned,
    read_ended,
    read_unfinished,
    take_over,
    withdraw,
)
from numaforge.rollout.slots import (
    NoSlotError,
    NotTakenAgainError,
    RenewedSlot,
    Slot,
    holds_slot,
    release,
    take_slot,
)
from numaforge.rollout.steps import Beside, Clock, Steps
from numaforge.rollout.transacting import HostChange, RefusedError

_CONFLICT_SECONDS = 0.2
_LATE_SECONDS = 30.0


class _LateError(Exception):
    """The slot went stale: the budget was checked too long ago, or the control plane is not healthy."""


@dataclass
class NodeRollout(HostChange):
    """The roll-out of one node by one runner (a name that no other process has).

    `veto` may return why no further node may begin. Concurrent roll-outs of one process share a
    `cached_pool`. `rollout` is the name of the fleet's roll-out, for the record. Where the node
    was just examined, `unreadable` is why it may not read its kubelet's configuration, "" where it may.
    `beside` renews the slot while a call blocks; without it, the slot is renewed between the steps.
    """

    cluster: Cluster
    machine: Machine
    name: str
    runner: str
    settings: NodeSettings
    clock: Clock
    tell: Callable[[Progress], object]
    veto: Callable[[], str | None] = lambda: None
    dice: random.Random = field(default_factory=random.Random)
    cached_pool: CachedPool | None = None
    rollout: str = DEFAULT_NAME
    unreadable: str | None = None
    beside: Beside | None = None
    _claimed: Record | None = field(default=None, init=False)
    _phases: Phases | None = field(default=None, init=False)

    def run(self) -> Steps[Outcome]:
        """Change the node, or resume a change; raises NumaforgeError before anything was changed."""
        outcome = yield from self._run()
        self._say(outcome.ending, (outcome.reason,) if outcome.reason else ())
        return outcome

    def _run(self) -> Steps[Outcome]:
        node = yield from self._ask(lambda: self.cluster.node(self.name))
        lease = yield from self._ask(self._lease)
        try:
            if (record := read_unfinished(lease)) or (
                yield from self._ask(lambda: holds_slot(self.cluster.leases(), node))
            ):
                yield from self._require_same_machine(node, record)
            elif self.unreadable is None and not (yield from self._needs_change(node, lease)):
                return _unchanged(node, lease)
            else:
                yield from self._admissible(node, lease)
                yield from self._ask(self._require_proof)
                yield from self._rehearse()
            return (yield from self._take_slot_and_work())
        except RefusedError as refused:
            return refused.outcome
        except NotTakenAgainError as late:
            return Outcome(Ending.HELD, f"it was uncordoned, and is not taken again: {late.message}")
        except NoSlotError as late:
            return Outcome(Ending.BLOCKED, late.message)
        except NotFoundError:
            return self._left_the_cluster()

    def _require_proof(self) -> None:
        reason = self.unreadable
        if reason is None:
            reason = why_unreadable(self.machine.running_config)
        if reason:
            refuse_unreadable(self.cluster, {self.name: reason})

    def _rehearse(self) -> Steps[None]:
        """Refuse a plan that the node's kubelet refuses, before anything is taken out of service."""
        self._say("rehearses")
        if reason := (yield from self._ask(self.machine.rehearse)):
            raise RefusedError(reason, ending=Ending.REFUSED_BY_KUBELET)

    def _lease(self) -> Lease:
        return self.cluster.lease(lease_name(self.name))

    def _needs_change(self, node: ClusterNode, lease: Lease) -> Steps[bool]:
        """Whether the machine is not as planned, or its node's labels are not."""
        change = yield from self._ask(self.machine.change)
        if change is not None:
            if reason := change.failed_before or change.ended_work:
                raise RefusedError(reason)
            if change.undrainable:
                raise RefusedError(f"{change.undrainable}: {START_KUBELET}")
            return True
        planned_labels = (yield from self._ask(self.machine.expected)).labels
        return bool(to_set(node, planned_labels, labels_set(lease, node)))

    def _take_slot_and_work(self) -> Steps[Outcome]:
        while True:
            try:
                slot, node = yield from take_slot(
                    self.cluster,
                    self.name,
                    self.runner,
                    self.cached_pool or CachedPool(self.cluster, self.settings.budget, self.clock),
                    clock=self.clock,
                    tell=lambda reason: self._say("waits for a slot", (reason,)),
                    veto=self.veto,
                    patience_seconds=self.settings.slot_timeout,
                    unreachable_timeout=self.settings.unreachable_timeout,
                )
            except ApiUnreachableError as unreachable:
                return Outcome(Ending.HELD, f"{unreachable.message}; it may hold a slot by now: resume later")
            outcome = yield from self._with_slot(slot, node)
            if outcome is not None:
                return outcome

    def _require_same_machine(self, node: ClusterNode, record: Record | None = None) -> Steps[None]:
        """Refuse a node that is not this host; with a record of an unfinished roll-out it is held."""
        rebooted = record is not None and record.touched
        try:
            reason = yield from self._other_machine(self.cluster, node, rebooted=rebooted)
        except HostUnreachableError as unreachable:
            if record is None:
                raise
            raise RefusedError(f"{unreachable.message}: resume later", ending=Ending.HELD) from unreachable
        if reason:
            raise RefusedError(reason, ending=Ending.HELD if record else Ending.BLOCKED)

    def _admissible(self, node: ClusterNode, lease: Lease) -> Steps[ClusterNode]:
        """Return the node once no other tool maintains it; refuse a node that must not be taken."""
        yield from self._require_same_machine(node)
        node = yield from self._unmaintained(self.cluster, node)
        ended = read_ended(lease, node)
        if reasons := obstacles(node, ended, include_cordoned=self.settings.include_cordoned):
            raise RefusedError(reasons[0])
        expected = yield from self._ask(self.machine.expected)
        pods = yield from self._ask(lambda: self.cluster.pods(self.name))
        owner = yield from self._ask(
            lambda: device_owner(
                node,
                expected.devices,
                to_set(node, expected.labels, labels_set(lease, node)),
                pods=lambda: pods,
                cut_by_driver=lambda: self.cluster.dynamic_mig(self.name),
            )
        )
        if owner:
            raise RefusedError(owner)
        if reason := unlabelled(node, pods) or (yield from self._outage(node)):
            raise RefusedError(reason)
        if forbidden := sort_pods(pods, self.settings.drain).forbidden:
            raise RefusedError("the node cannot be drained", [str(blocker) for blocker in forbidden])
        return node

    def _outage(self, node: ClusterNode) -> Steps[str | None]:
        """Return why the control plane needs this node, None where it does not or that is permitted."""
        if self.settings.budget.control_plane_outage or not is_control_plane(node):
            return None
        control_plane = yield from self._ask(lambda: ControlPlane.look(self.cluster))
        return refused_outage(control_plane, node.name)

    def _with_slot(self, slot: Slot, node: ClusterNode) -> Steps[Outcome | None]:
        """Work on the node within its slot, which a held node keeps; None: the slot went stale."""
        renewed = RenewedSlot(
            self.cluster, slot, self.clock, lambda why: self._say("renews its slot", (why,))
        )
        kept_slot = False
        outcome: Outcome | None
        try:
            outcome = yield from renewed.during(self._work(node, renewed), self.beside)
            kept_slot = outcome.ending is Ending.HELD
        except RefusedError as refused:
            outcome = refused.outcome
        except _LateError:
            outcome = None
        except OvertakenError as overtaken:
            outcome = Outcome(Ending.BLOCKED, overtaken.message)
        except TakenError as taken:
            outcome = Outcome(self._ending_without_node(), taken.message)
            yield from self._end_untouched(taken.message)
        except NotFoundError:
            outcome = self._left_the_cluster()
            yield from self._end_untouched(outcome.reason)
        except NumaforgeError as error:
            if self._phases is None and not isinstance(error, (ApiUnreachableError, ConflictError)):
                yield from self._ask(lambda: release(self.cluster, renewed.slot))
                raise
            kept_slot = True
            outcome = Outcome(Ending.HELD, f"{error}; what the node has begun ends by itself: resume later")
        if not kept_slot:
            try:
                yield from self._ask(lambda: release(self.cluster, renewed.slot))
            except NumaforgeError as error:
                ending, reason = (outcome.ending, outcome.reason) if outcome else (Ending.BLOCKED, "no slot")
                return Outcome(ending, f"{reason}; its slot could not be given back", (str(error),))
        return outcome

    def _work(self, node: ClusterNode, renewed: RenewedSlot) -> Steps[Outcome]:
        lease = yield from self._ask(self._lease)
        record = read_unfinished(lease)
        if record is not None:
            record = yield from self._ask(lambda: take_over(self.cluster, node, self.runner))
        if record is not None and (record.phase is not Phase.CLAIMED or record.has_marked(node)):
            return (yield from self._go_through(record, resumed=node))
        self._claimed = record
        try:
            if not (yield from self._needs_change(node, lease)):
                yield from self._withdraw(Ending.UNCHANGED, "it is as planned")
                return _unchanged(node, lease)
            record = yield from self._cordon(node, lease, renewed)
        except (ApiUnreachableError, ConflictError, TakenError):
            raise  # it may be cordoned, or another's
        except (RefusedError, _LateError, NumaforgeError) as error:
            yield from self._withdraw(Ending.BLOCKED, str(error))
            raise
        return (yield from self._go_through(record))

    def _withdraw(self, ending: Ending, reason: str) -> Steps[None]:
        """End the record of a node that was not cordoned for it."""
        claimed, self._claimed = self._claimed, None
        if claimed is not None:
            yield from self._ask(lambda: withdraw(self.cluster, claimed, ending, reason))

    def _end_untouched(self, reason: str) -> Steps[None]:
        """End the record of a node that has gone before anything was changed on it."""
        if self._phases is not None and not self._phases.record.touched:
            with suppress(TakenError):
                record = self._phases.record
                yield from self._ask(lambda: withdraw(self.cluster, record, Ending.BLOCKED, reason))

    def _go_through(self, record: Record, resumed: ClusterNode | None = None) -> Steps[Outcome]:
        self._phases = Phases(
            self.cluster, self.machine, self.name, self.settings, self.clock, self._say, self.dice, record
        )
        return (yield from self._phases.run(resumed))

    def _cordon(self, node: ClusterNode, lease: Lease, renewed: RenewedSlot) -> Steps[Record]:
        while True:
            node = yield from self._admissible(node, lease)
            if renewed.lost:
                raise RefusedError("another process has released the node's slot")
            if node.uid != renewed.slot.node_uid:
                raise NotFoundError("another node has the name now", where=self.name)
            if self.clock() - renewed.since > _LATE_SECONDS:
                raise _LateError
            if is_control_plane(node) and (yield from self._ask(lambda: not_healthy(self.cluster))):
                raise _LateError
            record = Record(
                runner=self.runner,
                phase=Phase.CLAIMED,
                was_unschedulable=node.unschedulable,
                offered=offered_resources(node),
                memory=node.capacity.get("memory", ""),
                rollout=self.rollout,
            )
            try:
                self._claimed = claimed = claim(self.cluster, node, record)
                cordon(self.cluster, node, claimed)
                return claimed
            except (ConflictError, ApiUnreachableError):
                yield _CONFLICT_SECONDS
            node = yield from self._ask(lambda: self.cluster.node(self.name))
            lease = yield from self._ask(self._lease)
            written = read_unfinished(lease)
            if written is not None and written.runner == self.runner:
                self._claimed = claimed = written
                if claimed.has_marked(node):  # only the answer was lost
                    return claimed

    def _left_the_cluster(self) -> Outcome:
        return Outcome(self._ending_without_node(), "the node has left the cluster")

    def _ending_without_node(self) -> Ending:
        return Ending.HELD if self._phases is not None and self._phases.record.touched else Ending.BLOCKED


def obstacles(node: ClusterNode, ended: Record | None, *, include_cordoned: bool) -> list[str]:
    """Return why a node must not be taken, the gravest first; `ended` is its last roll-out's record."""
    reasons = []
    cordoned = left_cordoned(ended, node)
    if tool := foreign(node):
        reasons.append(cordoned or f"another maintenance of the node is in progress: {tool}")
    if not node.ready:
        reasons.append(f"the node is not Ready: {node.ready_message or 'no reason given'}")
    if node.unschedulable and not include_cordoned:
        reasons.append(cordoned or "the node was cordoned before (permit: include_cordoned)")
    return list(dict.fromkeys(reasons))


def _unchanged(node: ClusterNode, lease: Lease) -> Outcome:
    cordoned = left_cordoned(read_ended(lease, node), node)
    return Outcome(Ending.UNCHANGED, f"it is as planned; {cordoned}" if cordoned else "it is as planned")
