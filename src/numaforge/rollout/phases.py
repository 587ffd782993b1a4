"""What follows from each phase of a node's record, from the cordon to the uncordon."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from numaforge.change.transaction import Status, Transaction
from numaforge.lib.errors import HostUnreachableError, NumaforgeError
from numaforge.lib.quantity import parse_quantity
from numaforge.rollout.cluster import ApiUnreachableError, Cluster, ClusterError, ClusterNode, NotFoundError
from numaforge.rollout.continuity import Continuity, Mismatch
from numaforge.rollout.drain import DRAIN_SECONDS, Blocker, drain, stays
from numaforge.rollout.gate import NOTHING_SEEN, Expected, Proof, follow, prove, stale_resources
from numaforge.rollout.labels import Labels, follows, kept, returned, to_put_back, to_set
from numaforge.rollout.machine import Machine
from numaforge.rollout.other_tools import foreign
from numaforge.rollout.outcome import NodeSettings, Outcome
from numaforge.rollout.owners import device_owner
from numaforge.rollout.patience import Patience
from numaforge.rollout.record import (
    ABORT,
    Ending,
    Phase,
    Record,
    TakenError,
    UncordonedError,
    advance,
    change_labels,
    cordon_again,
    left_cordoned,
    look,
    new_mark,
    require_cordoned,
    uncordon,
    write,
)
from numaforge.rollout.steps import Clock, Steps
from numaforge.rollout.transacting import BOOT_SECONDS, MOST_VOID, Transacting

_ABORTED = "an abort was requested"
_SLOW = "the node is as planned, and is not put into service by what was measured on it"
_CORDON_AGAIN = "resume or abort, which first cordons and drains it again"
_DRAIN_THERE = "have its pods end, or permit their eviction, and resume or abort, which drains it again"
_LOOK_THERE = "put it right by hand and resume, or abort, which gives it back once it is proved as it was"


class Say(Protocol):
    """Tell people and programs where the node is, and what it waits for."""

    def __call__(self, phase: str, waits_for: Sequence[str] = ...) -> None: ...


class _AbortedError(Exception):
    """An abort of this node's roll-out was requested."""


class _NotUndoneError(Exception):
    """The control plane is not healthy without this node, which an undo would take away from it."""


class _NotDrainedError(Exception):
    """Pods stay on a node whose change has begun; `blockers` has a line for each."""

    def __init__(self, blockers: Sequence[str]) -> None:
        super().__init__(", ".join(blockers))
        self.blockers = tuple(blockers)


class _ForeignError(Exception):
    """Another maintenance of this node has begun."""


@dataclass
class Phases(Transacting):
    """The roll-out of a cordoned node; each phase returns its outcome, None where another follows."""

    cluster: Cluster
    machine: Machine
    name: str
    settings: NodeSettings
    clock: Clock
    say: Say
    dice: random.Random
    record: Record
    _void: int = field(default=0, init=False)
    _planned: Transaction | None = field(default=None, init=False)
    _parked: tuple[str | None, float] = field(default=(None, 0.0), init=False)
    """The step at which the transaction was parked last, and since when."""
    # A node without a network after its reboot is not confirmed, and rolls back with a second reboot.
    away_seconds = 2 * BOOT_SECONDS + 1800.0

    def run(self, resumed: ClusterNode | None) -> Steps[Outcome]:
        """Go through the phases; `resumed` is the node where an earlier runner has left it.

        Raises TakenError where the node is no longer ours, NotFoundError where it is gone,
        ApiUnreachableError or HostUnreachableError where there is no answer and the node cannot be released.
        """
        try:
            if resumed is None:
                self._event("Cordoned", "cordoned for a change of the kubelet's configuration")
            else:
                yield from self._as_it_is_now(resumed)
            while True:
                self.say(self.record.phase)
                try:
                    outcome = yield from self._next()
                except (ApiUnreachableError, TakenError, UncordonedError, NotFoundError):
                    raise
                except NumaforgeError as error:
                    outcome = yield from self._fail(error)
                if outcome is not None:
                    return outcome
        except _NotDrainedError as stay:
            return self._not_drained(stay.blockers)
        except UncordonedError as uncordoned:
            return (yield from self._interfered(uncordoned.message))

    def _as_it_is_now(self, node: ClusterNode) -> Steps[None]:
        """Cordon and drain again a node that may have been in service; back to the cordon if outdated."""
        phase = self.record.phase
        if self.record.is_decided:
            return
        if not (yield from self._has_begun()):
            require_cordoned(node, self.record)
            if phase is Phase.DRAINED:
                yield from self._advance(Phase.CORDONED)
            return
        yield from self._drain_again(node)
        if phase is Phase.APPLIED and (yield from self._ask(self.machine.change)) is not None:
            yield from self._advance(Phase.CORDONED)

    def _drain_again(self, node: ClusterNode) -> Steps[None]:
        """Drain a node whose change has begun, and renew its lease; raises _NotDrainedError if pods stay."""
        if not node.unschedulable:
            marked = replace(self.record, mark=new_mark())
            self.record = yield from self._ask(lambda: cordon_again(self.cluster, marked))
        if blockers := (yield from self._drained(abortable=False)):
            raise _NotDrainedError(blockers)
        if (transaction := self.record.transaction) is not None:
            allowed = yield from self._ask(self._allowed)
            yield from self._ask(lambda: self.machine.proceed(transaction, allowed))

    def _make_way(self, status: Status) -> Steps[None]:
        """Drain again for a parked transaction; raises _NotDrainedError, also if only the node sees pods."""
        self._waits(status.parked)
        if status.phase != self._parked[0]:
            self._parked = status.phase, self.clock()
        yield from self._drain_again((yield from self._ask(lambda: self.cluster.node(self.name))))
        if self.clock() - self._parked[1] >= (self.settings.drain.timeout_seconds or DRAIN_SECONDS):
            raise _NotDrainedError([status.parked])

    def _allowed(self) -> tuple[str, ...]:
        """Return the UIDs of the pods that a drain leaves on the node."""
        return tuple(pod.uid_on_node for pod in self.cluster.pods(self.name) if stays(pod))

    def _next(self) -> Steps[Outcome | None]:
        if self.record.ending is not None:
            return (yield from self._finish(self.record.ending, self.record.reason))
        match self.record.phase:
            case Phase.CLAIMED:
                return (yield from self._advance(Phase.CORDONED))
            case Phase.CORDONED:
                return (yield from self._drain())
            case Phase.DRAINED:
                return (yield from self._apply())
            case Phase.APPLYING:
                return (yield from self._await_transaction())
            case Phase.APPLIED:
                return (yield from self._prove())
            case Phase.UNDOING:
                return (yield from self._undo())
            case Phase.VERIFIED:
                return (yield from self._finish(Ending.DONE, "the node is as planned"))
            case Phase.HELD:
                return (yield from self._reconsider())

    def _drain(self) -> Steps[Outcome | None]:
        try:
            blockers = yield from self._drained(abortable=True)
        except _AbortedError:
            return (yield from self._finish(Ending.ABORTED, "aborted before anything was changed"))
        except _ForeignError:
            return (yield from self._finish(Ending.BLOCKED, "ended before anything was changed"))
        if blockers:
            self._event("DrainBlocked", "; ".join(blockers), warning=True)
            return (yield from self._finish(Ending.BLOCKED, "the node could not be drained", blockers))
        return (yield from self._advance(Phase.DRAINED))

    def _drained(self, *, abortable: bool) -> Steps[tuple[str, ...]]:
        """Drain; return the pods left when time is up; `abortable`: an abort or a maintenance ends it."""

        def told(blockers: Sequence[Blocker]) -> None:
            self.say("drains", [str(blocker) for blocker in blockers])

        def check() -> None:
            if foreign(self._check(abortable=abortable)) is not None and abortable:
                raise _ForeignError

        blockers = yield from drain(
            self.cluster,
            self.name,
            self.settings.drain,
            clock=self.clock,
            check=check,
            tell=told,
            dice=self.dice,
            patience=Patience(self.settings.unreachable_timeout),
        )
        return tuple(str(blocker) for blocker in blockers)

    def _not_drained(self, blockers: Sequence[str]) -> Outcome:
        """Hold a node whose change has begun, and whose pods stay: nothing goes on under them."""
        reason = f"the node, which is {self.record.phase}, could not be drained again: {_DRAIN_THERE}"
        self._event("DrainBlocked", f"{reason}: {'; '.join(blockers)}", warning=True)
        return Outcome(Ending.HELD, reason, tuple(blockers))

    def _apply(self) -> Steps[Outcome | None]:
        if trouble := (yield from self._control_plane_trouble(self.cluster)):
            return (yield from self._finish(Ending.BLOCKED, trouble))
        transaction = yield from self._ask(self.machine.change)
        if transaction is None:
            return (yield from self._set_labels(transaction=None))
        if reason := transaction.failed_before or transaction.ended_work:
            return (yield from self._finish(Ending.BLOCKED, reason))
        expected = yield from self._ask(self.machine.expected)
        if owner := (yield from self._ask(lambda: self._device_owner(expected))):
            return (yield from self._finish(Ending.BLOCKED, owner))
        self._planned = transaction
        yield from self._advance(Phase.APPLYING, transaction=transaction.id)
        if trouble := (yield from self._control_plane_trouble(self.cluster, seconds=0.0)):
            self._waits(trouble)
            return None  # not begun: it becomes void, and is planned again once all is healthy
        allowed = yield from self._ask(self._allowed)
        refused = yield from self._begin(replace(transaction, allowed=allowed))
        return (yield from self._finish(Ending.BLOCKED, refused)) if refused else None

    def _device_owner(self, expected: Expected) -> str | None:
        """Return which other tool sets devices that the plan sets by now; None where there is none."""
        if not expected.devices:
            return None
        node = self._check(abortable=False)
        return device_owner(
            node,
            expected.devices,
            to_set(node, expected.labels, self.record.set_labels),
            pods=lambda: self.cluster.pods(self.name),
            cut_by_driver=lambda: self.cluster.dynamic_mig(self.name),
        )

    def _await_transaction(self) -> Steps[Outcome | None]:
        result = yield from self._result(self.record.transaction, "changes the node")
        match result.outcome:
            case "void":
                return (yield from self._plan_anew(result.reason))
            case "applied":
                self._event("NodeChanged", result.reason or "the change is applied")
                return (yield from self._set_labels())
            case "unknown":
                return (yield from self._find_out(result.reason))
            case "refused":
                return (yield from self._finish(Ending.BLOCKED, result.reason))
            case "rolled-back":
                return (yield from self._prove_old(result.reason, result.journal))
            case _:
                return (yield from self._hold(result.reason, result.journal))

    def _find_out(self, reason: str) -> Steps[Outcome | None]:
        """Inspect the node itself, whose records do not show the transaction's outcome."""
        change = yield from self._ask(self.machine.change)
        if change is None:
            return (yield from self._set_labels(transaction=None))
        if self._planned is not None and change.begins_like(self._planned):
            return (yield from self._plan_anew(f"nothing was changed: {reason}"))
        return (yield from self._hold(f"{reason}, and the node is not as planned: {_LOOK_THERE}"))

    def _plan_anew(self, reason: str) -> Steps[Outcome | None]:
        """Drain and plan the node again: its transaction is void, and nothing was changed."""
        self._void += 1
        if self._void == MOST_VOID:
            return (yield from self._finish(Ending.BLOCKED, f"{MOST_VOID} times in a row {reason}"))
        self._waits(reason)
        return (yield from self._advance(Phase.CORDONED, transaction=None))

    def _ask_to_undo(self) -> Steps[None]:
        """Request the undo of the transaction from the node, which stops its kubelet."""
        if trouble := (yield from self._control_plane_trouble(self.cluster, but=self.name)):
            raise _NotUndoneError(trouble)
        yield from self._ask(self._revert)

    def _revert(self) -> None:
        self._check(abortable=False)  # on every attempt, the node must still be ours
        reason = self.record.reason
        self.machine.revert(self.record.transaction or "", reason, blames_plan=reason != _ABORTED)

    def _prove(self) -> Steps[Outcome | None]:
        expected = yield from self._ask(self.machine.expected)
        allocatable = {**self._offered_of_others(expected), **expected.allocatable}
        planned = expected.labels or {}  # others of ours get their previous values again
        labels = {**returned(self.record.set_labels, self.record.labels, planned), **planned}
        can_be_undone = self.record.transaction is not None or bool(self.record.labels)
        try:
            lines = yield from self._as_planned(
                replace(expected, allocatable=allocatable, labels=labels), abortable=can_be_undone
            )
        except _AbortedError:
            return (yield from self._advance(Phase.UNDOING, reason=_ABORTED))
        if not lines:
            node = yield from self._ask(lambda: self.cluster.node(self.name))
            if stale := stale_resources(node, expected):
                self._event("StaleResources", f"of an earlier geometry, with 0 devices: {', '.join(stale)}")
            if slow := (yield from self._ask(self.machine.held)):
                return (yield from self._hold(f"{_SLOW}: {'; '.join(slow)}"))
            return (yield from self._advance(Phase.VERIFIED))
        reason = f"the changed node was not as planned: {'; '.join(lines)}"
        if not can_be_undone:
            return (yield from self._hold(reason))
        return (yield from self._advance(Phase.UNDOING, reason=reason))

    def _as_planned(self, expected: Expected, *, abortable: bool) -> Steps[tuple[str, ...]]:
        """Return what is not as planned, in the cluster, then by the suite; a reboot starts it again."""
        proof = yield from self._proof(expected, abortable=abortable)
        patience = self._host_patience()
        while not proof.wrong:
            lines = yield from self._verification(patience)
            since = yield from follow(
                self.machine.process,
                proof.continuity,
                clock=self.clock,
                tell=lambda wrong: self._tell("verifies", wrong),
                patience=self._host_patience(),
            )
            if since.booted:
                proof = yield from self._proof(expected, abortable=abortable, continuity=since.after)
            elif since.wrong:
                return (str(since.wrong),)
            elif lines is not None:
                return lines
        return tuple(str(mismatch) for mismatch in proof.wrong)

    def _set_labels(self, **changes: str | None) -> Steps[Outcome | None]:
        """Set the node's labels once it is as planned, and keep their previous values in the record."""
        expected = yield from self._ask(self.machine.expected)
        node = yield from self._ask(lambda: self.cluster.node(self.name))
        set_labels = self.record.set_labels
        if changed := to_set(node, expected.labels, set_labels):
            self.record = replace(self.record, labels={**kept(node, changed), **self.record.labels})
            yield from self._change_labels(lambda now: to_set(now, expected.labels, set_labels))
        return (yield from self._advance(Phase.APPLIED, **changes))

    def _change_labels(self, changes: Callable[[ClusterNode], Labels]) -> Steps[None]:
        self.record = yield from self._ask(lambda: change_labels(self.cluster, self.record, changes))

    def _offered_of_others(self, expected: Expected) -> dict[str, str]:
        """Return the extended resources offered before that neither the plan nor retired labels decide."""
        retired = self.record.labels.keys() - (expected.labels or {}).keys()
        return {
            name: quantity
            for name, quantity in self.record.offered.items()
            if "/" in name and not expected.decides(name) and not follows(name, retired)
        }

    def _verification(self, patience: Patience) -> Steps[tuple[str, ...] | None]:
        """Return the failures of the suite; None where there was no answer."""
        self.say("verifies")
        try:
            return (yield from self.machine.verify())
        except (ApiUnreachableError, HostUnreachableError) as unreachable:
            seconds = patience.wait(unreachable)
            self.say("verifies", (unreachable.message,))
        yield seconds
        return None

    def _undo(self) -> Steps[Outcome | None]:
        reason = self.record.reason
        if self.record.transaction is None:  # only labels were changed
            return (yield from self._prove_old(reason))
        try:
            result = yield from self._result(
                self.record.transaction, "puts the old configuration back", undo=self._ask_to_undo
            )
        except _NotUndoneError as not_undone:
            return (yield from self._hold(f"{reason}; not undone while {not_undone}"))
        if result.outcome == "void":
            return (yield from self._hold(f"{reason}; the node knows nothing of {self.record.transaction}"))
        if result.outcome != "rolled-back":
            return (yield from self._hold(result.reason, result.journal))
        return (yield from self._prove_old(reason))

    def _prove_old(self, reason: str, journal: Sequence[str] = ()) -> Steps[Outcome | None]:
        previous = self.record.labels
        if previous:
            yield from self._change_labels(lambda now: to_put_back(now, previous))
        expected = yield from self._ask(self.machine.expected)
        old = Expected(
            allocatable=self.record.offered,
            memory_bytes=int(parse_quantity(self.record.memory)) if self.record.memory else None,
            all_gpus=expected.all_gpus,
            prefixes=expected.prefixes,
            labels={name: value for name, value in previous.items() if value is not None},
        )
        proof = yield from self._proof(old, abortable=False)
        if proof.wrong:
            lines = "; ".join(str(mismatch) for mismatch in proof.wrong)
            return (yield from self._hold(f"{reason}; with the old configuration {lines}", journal))
        self._event("RolledBack", reason, warning=True)
        ending = Ending.ABORTED if reason == _ABORTED else Ending.ROLLED_BACK
        return (yield from self._finish(ending, reason, journal[-5:]))

    def _proof(
        self, expected: Expected, *, abortable: bool, continuity: Continuity = NOTHING_SEEN
    ) -> Steps[Proof]:
        """Prove the node, and a control plane that it belongs to; `abortable`: it can still be undone."""
        proof = yield from prove(
            self.cluster,
            self.name,
            expected,
            self.settings.gate,
            process=self.machine.process,
            own_config=self.machine.running_config,
            clock=self.clock,
            check=lambda: self._check(abortable=abortable),
            tell=lambda wrong: self._tell("proves", wrong),
            patience=Patience(self.settings.unreachable_timeout),
            host_patience=self._host_patience(),
            continuity=continuity,
        )
        if proof.wrong or not (trouble := (yield from self._control_plane_trouble(self.cluster))):
            return proof
        return replace(proof, wrong=(Mismatch("the control plane", "healthy", trouble),))

    def _host_patience(self) -> Patience:
        """Return how long to wait for a host that may be rebooting: a power cut announces nothing."""
        return Patience(max(self.settings.unreachable_timeout, BOOT_SECONDS))

    def _tell(self, phase: str, wrong: Sequence[Mismatch]) -> None:
        self.say(phase, [str(mismatch) for mismatch in wrong])

    def _reconsider(self) -> Steps[Outcome | None]:
        status = yield from self._status(self.record.transaction)
        if status.result is None and status.phase is not None:
            return (yield from self._advance(Phase.APPLYING))
        outcome = status.result.outcome if status.result is not None else ""
        if outcome == "applied":  # a request to undo it may still arrive
            yield from self._ask(lambda: self.machine.void(self.record.transaction or ""))
            return (yield from self._set_labels(reason=""))
        if (yield from self._ask(self.machine.change)) is None:
            return (yield from self._set_labels(transaction=None, reason=""))
        if outcome == "unknown" and not (yield from self._ask(self._is_aborted)):
            return (yield from self._hold(self.record.reason))
        return (yield from self._prove_old(self.record.reason))

    def _interfered(self, reason: str) -> Steps[Outcome]:
        """End a roll-out whose node was uncordoned from outside; do not cordon it again unasked."""
        if self.record.phase is Phase.VERIFIED:
            return (yield from self._finish(Ending.DONE, reason))
        if not (yield from self._has_begun()):
            return (yield from self._finish(Ending.BLOCKED, reason))
        self._event("RolloutHeld", reason, warning=True)
        return Outcome(Ending.HELD, f"{reason}, which was {self.record.phase}: {_CORDON_AGAIN}")

    def _has_begun(self) -> Steps[bool]:
        if self.record.phase is not Phase.APPLYING:
            return self.record.touched
        status = yield from self._status(self.record.transaction)
        return status.result is None or status.result.outcome not in ("void", "refused")

    def _fail(self, error: NumaforgeError) -> Steps[Outcome | None]:
        """End after an error that neither waiting nor a retry would resolve."""
        if not self.record.touched:
            return (yield from self._finish(Ending.BLOCKED, str(error)))
        if isinstance(error, HostUnreachableError):
            raise error
        return (yield from self._hold(str(error)))

    def _hold(self, reason: str, journal: Sequence[str] = ()) -> Steps[Outcome]:
        yield from self._advance(Phase.HELD, reason=reason)
        self._event("RolloutHeld", reason, warning=True)
        return Outcome(Ending.HELD, reason, tuple(journal[-5:]))

    def _finish(self, ending: Ending, reason: str, details: Sequence[str] = ()) -> Steps[Outcome]:
        """Release the node; uncordon it only where this roll-out cordoned it and no other needs that."""
        if self.record.touched and not self.record.is_decided:
            decided = replace(self.record, ending=ending, reason=reason)
            self.record = yield from self._ask(lambda: write(self.cluster, decided))
        node, ended = yield from self._ask(lambda: uncordon(self.cluster, self.record, ending, reason))
        if cordoned := left_cordoned(ended, node):
            reason = f"{reason}; {cordoned}"
        if not self.record.was_unschedulable:
            self._event("LeftCordoned" if cordoned else "Uncordoned", reason)
        return Outcome(ending, reason, tuple(details))

    def _advance(self, phase: Phase, **changes: str | None) -> Steps[Outcome | None]:
        following = replace(self.record, phase=phase, **changes)  # type: ignore[arg-type]
        self.record = yield from self._ask(lambda: advance(self.cluster, following))
        return None

    def _is_aborted(self) -> bool:
        self._check(abortable=False)
        return ABORT in self.record.lease.annotations

    def _check(self, *, abortable: bool = True) -> ClusterNode:
        """Return the node; raise unless it is still ours and no abort was requested."""
        node, self.record = look(self.cluster, self.record)
        if abortable and ABORT in self.record.lease.annotations:
            raise _AbortedError
        return node

    def _waits(self, *reasons: str, phase: str | None = None) -> None:
        self.say(phase or self.record.phase, reasons)

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an Event; a failure does not affect the roll-out."""
        try:
            self.cluster.tell(self.cluster.node(self.name), reason, message, warning=warning)
        except ClusterError as error:
            self.say("could not record an Event", (str(error),))
