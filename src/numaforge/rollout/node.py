"""Change one node of a cluster: slot, cordon, drain, transaction, proof, uncordon, slot given back.

Each phase stands in the node's record before the next begins, and each begins by looking at what is there.
So whoever goes on after a runner that died does what is left to do, and nothing twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from numaforge.errors import NumaforgeError
from numaforge.rollout.budget import Budget
from numaforge.rollout.cluster import (
    ApiAwayError,
    Cluster,
    ClusterError,
    ClusterNode,
    ConflictError,
    NotFoundError,
)
from numaforge.rollout.drain import Blocker, DrainSettings, drain, sort_pods
from numaforge.rollout.gate import Expected, GateSettings, Mismatch, extended_resources, prove
from numaforge.rollout.machine import Machine
from numaforge.rollout.maintenance import foreign
from numaforge.rollout.patience import HostAwayError, patiently
from numaforge.rollout.record import (
    ABORT,
    Ending,
    Phase,
    Record,
    TakenError,
    advance,
    claim,
    hand_back,
    read_record,
    require_ours,
    take_over,
)
from numaforge.rollout.slots import RENEW_SECONDS, NoSlotError, Slot, release, renew, take_slot
from numaforge.rollout.steps import Clock, Steps
from numaforge.rollout.transaction import Result, Status

T = TypeVar("T")

_POLL_SECONDS = 2.0
_ABORTED = "somebody has asked for it to be undone"


@dataclass(frozen=True)
class NodeSettings:
    """How one node is changed.

    `include_cordoned` also takes nodes that somebody else has cordoned, and leaves them so. The others say
    for how many seconds to wait: for a slot, for somebody else's maintenance to end, and for an API server or
    a host that is away.
    """

    budget: Budget = field(default_factory=Budget)
    drain: DrainSettings = field(default_factory=DrainSettings)
    gate: GateSettings = field(default_factory=GateSettings)
    include_cordoned: bool = False
    slot_seconds: float = 3600.0
    maintenance_seconds: float = 0.0
    away_seconds: float = 900.0


@dataclass(frozen=True)
class Outcome:
    """How a node's roll-out ended, and why; `details` are lines such as blockers or mismatches."""

    ending: Ending
    reason: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Progress:
    """Where a node is, for people and programs: its phase, and what it waits for."""

    node: str
    phase: str
    waits_for: tuple[str, ...] = ()


class _AbortedError(Exception):
    """Somebody has asked for the roll-out of this node to be undone."""


class _RefusedError(Exception):
    """The node cannot be taken, or has to be handed back; nothing was changed on it."""

    def __init__(self, reason: str, details: Sequence[str] = ()) -> None:
        super().__init__(reason)
        self.reason = reason
        self.details = tuple(details)


@dataclass
class NodeRollout:
    """The roll-out of one node by one runner (a name that no other process has)."""

    cluster: Cluster
    machine: Machine
    name: str
    runner: str
    settings: NodeSettings
    clock: Clock
    tell: Callable[[Progress], object]
    veto: Callable[[], str | None] = lambda: None
    dice: random.Random = field(default_factory=random.Random)
    _last_told: Progress | None = None

    def run(self) -> Steps[Outcome]:
        """Change the node, or go on with a change that was left.

        Raises NumaforgeError for what is wrong before anything was touched.
        """
        node = yield from self._ask(lambda: self.cluster.node(self.name))
        if read_record(node) is None:
            change = yield from self._ask(self.machine.change)
            if change is None:
                return Outcome(Ending.UNCHANGED, "it is as planned")
        try:
            node = yield from self._admissible(node)
            slot = yield from take_slot(
                self.cluster,
                node,
                self.runner,
                self.settings.budget,
                clock=self.clock,
                tell=lambda reason: self._say("waits for a slot", (reason,)),
                veto=self.veto,
                patience_seconds=self.settings.slot_seconds,
            )
        except _RefusedError as refused:
            return Outcome(Ending.BLOCKED, refused.reason, refused.details)
        except NoSlotError as late:
            return Outcome(Ending.BLOCKED, late.message)
        return (yield from self._with_slot(slot))

    def _admissible(self, node: ClusterNode) -> Steps[ClusterNode]:
        """Return the node once nobody else works on it; refuse one that is not to be taken."""
        deadline = self.clock() + self.settings.maintenance_seconds
        while True:
            if read_record(node) is not None:
                return node  # ours, or another runner's, which its slot tells apart
            other = foreign(node)
            if other is None:
                break
            if self.clock() >= deadline:
                raise _RefusedError(f"somebody else is at work on the node: {other}")
            self._say("waits for maintenance", (other,))
            yield _POLL_SECONDS * 5
            node = yield from self._ask(lambda: self.cluster.node(self.name))
        if not node.ready:
            raise _RefusedError(f"the node is not Ready: {node.ready_message or 'no reason given'}")
        if node.unschedulable and not self.settings.include_cordoned:
            raise _RefusedError("somebody else has cordoned the node (permit: include_cordoned)")
        pods = yield from self._ask(lambda: self.cluster.pods(self.name))
        if forbidden := sort_pods(pods, self.settings.drain).forbidden:
            raise _RefusedError("the node cannot be drained", [str(blocker) for blocker in forbidden])
        return node

    def _with_slot(self, slot: Slot) -> Steps[Outcome]:
        """Work on the node while its slot is held, and give the slot back when the node is free again."""
        holding = _Holding(self.cluster, slot, self.clock, lambda why: self._say("renews its slot", (why,)))
        try:
            outcome = yield from holding.during(self._work())
        except TakenError as taken:
            outcome = Outcome(Ending.BLOCKED, taken.message)
        except NotFoundError:
            outcome = Outcome(Ending.BLOCKED, "the node has left the cluster")
        if outcome.ending is not Ending.HELD:
            yield from self._ask(lambda: release(self.cluster, holding.slot))
        self._say(outcome.ending, (outcome.reason,) if outcome.reason else ())
        return outcome

    def _work(self) -> Steps[Outcome]:
        node = yield from self._ask(lambda: self.cluster.node(self.name))
        if read_record(node) is None:
            try:
                record = yield from self._cordon()
            except _RefusedError as refused:
                return Outcome(Ending.BLOCKED, refused.reason, refused.details)
        else:
            node, record = yield from self._ask(lambda: take_over(self.cluster, self.name, self.runner))
            if not node.unschedulable:
                return (yield from self._interfered(record))
            record = yield from self._as_it_is_now(record)
        while True:
            self._say(record.phase)
            try:
                step = yield from self._next(record)
            except TakenError:
                node = yield from self._ask(lambda: self.cluster.node(self.name))
                if (found := read_record(node)) is None or found.runner != self.runner:
                    raise
                return (yield from self._interfered(found))
            except (ApiAwayError, HostAwayError) as away:
                reason = f"{away.where or self.name}: {away.message}"
                return Outcome(
                    Ending.HELD, f"{reason}; what was begun on the node ends by itself: resume later"
                )
            except NotFoundError:
                raise
            except NumaforgeError as error:
                step = yield from self._fail(record, error)
            if isinstance(step, Outcome):
                return step
            record = step

    def _as_it_is_now(self, record: Record) -> Steps[Record]:
        """Go back where time has passed over what the record says: pods may have come, the plan changed."""
        if record.phase is Phase.DRAINED:
            return (yield from self._advance(record, Phase.CORDONED))
        if record.phase is Phase.APPLIED and (yield from self._ask(self.machine.change)) is not None:
            return (yield from self._advance(record, Phase.CORDONED))
        return record

    def _fail(self, record: Record, error: NumaforgeError) -> Steps[Outcome]:
        """End where something is refused that neither waiting nor asking again would change."""
        if record.phase in (Phase.CORDONED, Phase.DRAINED):
            return (yield from self._finish(record, Ending.BLOCKED, str(error)))
        return (yield from self._hold(record, str(error)))

    def _next(self, record: Record) -> Steps[Record | Outcome]:
        """Do what follows from a record's phase; return the record of the next, or how it ended."""
        match record.phase:
            case Phase.CORDONED:
                return (yield from self._drain(record))
            case Phase.DRAINED:
                return (yield from self._apply(record))
            case Phase.APPLYING:
                return (yield from self._await_transaction(record))
            case Phase.APPLIED:
                return (yield from self._prove(record))
            case Phase.UNDOING:
                return (yield from self._undo(record))
            case Phase.VERIFIED:
                return (yield from self._finish(record, Ending.DONE, "the node is as planned"))
            case Phase.HELD:
                return (yield from self._reconsider(record))

    def _cordon(self) -> Steps[Record]:
        while True:
            node = yield from self._ask(lambda: self.cluster.node(self.name))
            node = yield from self._admissible(node)
            record = Record(
                runner=self.runner,
                phase=Phase.CORDONED,
                was_unschedulable=node.unschedulable,
                offered=extended_resources(node),
            )
            if read_record(node) is not None:  # an answer was lost, and the cordon is ours already
                return (yield from self._ask(lambda: take_over(self.cluster, self.name, self.runner)))[1]
            try:
                claim(self.cluster, node, record)
            except (ConflictError, ApiAwayError):
                yield 0.2
                continue
            self._event("Cordoned", "cordoned for a change of the kubelet's configuration")
            return record

    def _drain(self, record: Record) -> Steps[Record | Outcome]:
        def told(blockers: Sequence[Blocker]) -> None:
            self._say("drains", [str(blocker) for blocker in blockers])

        try:
            blockers = yield from drain(
                self.cluster,
                self.name,
                self.settings.drain,
                clock=self.clock,
                check=lambda: self._check(record),
                tell=told,
                dice=self.dice,
            )
        except _AbortedError:
            return (yield from self._finish(record, Ending.ABORTED, "aborted before anything was changed"))
        if not blockers:
            return (yield from self._advance(record, Phase.DRAINED))
        lines = [str(blocker) for blocker in blockers]
        self._event("DrainBlocked", "; ".join(lines), warning=True)
        return (yield from self._finish(record, Ending.BLOCKED, "the node could not be drained", lines))

    def _apply(self, record: Record) -> Steps[Record | Outcome]:
        try:
            self._check(record)
        except _AbortedError:
            return (yield from self._finish(record, Ending.ABORTED, "aborted before anything was changed"))
        change = yield from self._ask(self.machine.change)
        if change is None:
            return (yield from self._advance(record, Phase.APPLIED, transaction=None))
        record = yield from self._advance(record, Phase.APPLYING, transaction=change.transaction.id)
        try:
            self.machine.begin(change.transaction)
        except HostAwayError as away:  # whether it has begun is what its status says
            self._say(record.phase, (away.message,))
        return record

    def _await_transaction(self, record: Record) -> Steps[Record | Outcome]:
        result = yield from self._result(record, "changes the kubelet")
        if result is None:
            return (yield from self._advance(record, Phase.DRAINED, transaction=None))
        match result.outcome:
            case "applied":
                self._event("KubeletRestarted", "the kubelet is healthy with the new configuration")
                return (yield from self._advance(record, Phase.APPLIED))
            case "refused":
                return (yield from self._finish(record, Ending.BLOCKED, result.reason))
            case "rolled-back":
                return (yield from self._prove_old(record, result.reason, result.journal))
            case _:
                return (yield from self._hold(record, result.reason, result.journal))

    def _result(self, record: Record, what: str, undone: bool = False) -> Steps[Result | None]:
        """Wait until the record's transaction has ended; None where it has never begun.

        With `undone`, one that is applied has not ended yet: it is being reverted.
        """
        while True:
            status: Status = yield from self._ask(lambda: self.machine.status(record.transaction))
            if status.result is not None and not (undone and status.result.outcome == "applied"):
                return status.result
            if status.result is None and status.phase is None:
                return None
            self._say(record.phase, (f"{what}: {status.phase}",))
            yield _POLL_SECONDS

    def _prove(self, record: Record) -> Steps[Record | Outcome]:
        expected = yield from self._ask(self.machine.expected)
        allocatable = {**record.offered, **expected.allocatable}
        try:
            wrong = yield from self._proof(record, Expected(expected.settings, allocatable))
            lines = [str(mismatch) for mismatch in wrong]
            if not lines:
                self._say("verifies")
                lines = list((yield from self.machine.verify()))
        except _AbortedError:
            return (yield from self._advance(record, Phase.UNDOING, reason=_ABORTED))
        if not lines:
            return (yield from self._advance(record, Phase.VERIFIED))
        reason = f"the changed node was not as planned: {'; '.join(lines)}"
        if record.transaction is None:
            return (yield from self._hold(record, reason))
        return (yield from self._advance(record, Phase.UNDOING, reason=reason))

    def _undo(self, record: Record) -> Steps[Record | Outcome]:
        transaction = record.transaction or ""
        status: Status = yield from self._ask(lambda: self.machine.status(transaction))
        if status.result is not None and status.result.outcome == "applied":
            try:
                self.machine.revert(transaction, record.reason)
            except HostAwayError as away:
                self._say(record.phase, (away.message,))
                yield _POLL_SECONDS
                return record
        result = yield from self._result(record, "puts the old configuration back", undone=True)
        if result is None or result.outcome != "rolled-back":
            reason = result.reason if result else f"the node knows nothing of {transaction}"
            return (yield from self._hold(record, reason, result.journal if result else ()))
        return (yield from self._prove_old(record, record.reason, result.journal))

    def _prove_old(self, record: Record, reason: str, journal: Sequence[str] = ()) -> Steps[Record | Outcome]:
        wrong = yield from self._proof(
            replace(record, transaction=None), Expected(allocatable=record.offered)
        )
        if wrong:
            lines = "; ".join(str(mismatch) for mismatch in wrong)
            return (yield from self._hold(record, f"{reason}; with the old configuration {lines}", journal))
        self._event("RolledBack", reason, warning=True)
        ending = Ending.ABORTED if reason == _ABORTED else Ending.ROLLED_BACK
        return (yield from self._finish(record, ending, reason, journal[-5:]))

    def _proof(self, record: Record, expected: Expected) -> Steps[tuple[Mismatch, ...]]:
        """Have the node prove itself; nobody can abort what there is no transaction left to undo of."""
        abortable = record.transaction is not None
        return (
            yield from prove(
                self.cluster,
                self.name,
                expected,
                self.settings.gate,
                process=lambda: self.machine.status(record.transaction).process,
                clock=self.clock,
                check=lambda: self._check(record, abortable=abortable),
                tell=lambda wrong: self._say("proves", [str(mismatch) for mismatch in wrong]),
            )
        )

    def _reconsider(self, record: Record) -> Steps[Record | Outcome]:
        """Look again at a node that was left to a person."""
        status: Status = yield from self._ask(lambda: self.machine.status(record.transaction))
        if status.result is not None and status.result.outcome == "applied":
            return (yield from self._advance(record, Phase.APPLIED, reason=""))
        if (yield from self._ask(self.machine.change)) is None:
            return (yield from self._advance(record, Phase.APPLIED, transaction=None, reason=""))
        return (yield from self._prove_old(record, record.reason))

    def _interfered(self, record: Record) -> Steps[Outcome]:
        """End a roll-out whose cordon somebody has taken away: nothing is cordoned again behind his back."""
        reason = "somebody has uncordoned the node in the middle of its roll-out"
        if record.phase in (Phase.CORDONED, Phase.DRAINED, Phase.VERIFIED):
            ending = Ending.DONE if record.phase is Phase.VERIFIED else Ending.BLOCKED
            return (yield from self._finish(record, ending, reason))
        self._event("RolloutHeld", reason, warning=True)
        return Outcome(Ending.HELD, f"{reason}, which was {record.phase}: resume or abort it")

    def _hold(self, record: Record, reason: str, journal: Sequence[str] = ()) -> Steps[Outcome]:
        yield from self._advance(record, Phase.HELD, reason=reason)
        self._event("RolloutHeld", reason, warning=True)
        return Outcome(Ending.HELD, reason, tuple(journal[-5:]))

    def _finish(
        self, record: Record, ending: Ending, reason: str, details: Sequence[str] = ()
    ) -> Steps[Outcome]:
        """Uncordon only what this roll-out has cordoned, and only where nobody else needs the cordon."""
        node = yield from self._ask(lambda: self.cluster.node(self.name))
        other = foreign(node)
        if other is not None:
            reason = f"{reason}; left cordoned, because somebody else is at work on the node: {other}"
        yield from self._ask(
            lambda: hand_back(self.cluster, self.name, record, ending, reason, uncordon=other is None)
        )
        if other is None and not record.was_unschedulable:
            self._event("Uncordoned", reason)
        return Outcome(ending, reason, tuple(details))

    def _advance(self, record: Record, phase: Phase, **changes: object) -> Steps[Record]:
        following = replace(record, phase=phase, **changes)  # type: ignore[arg-type]
        return (yield from self._ask(lambda: advance(self.cluster, self.name, following)))

    def _check(self, record: Record, *, abortable: bool = True) -> None:
        """Raise unless the node is still ours and nobody has asked for the roll-out to end."""
        node = self.cluster.node(self.name)
        require_ours(node, record)
        if abortable and ABORT in node.annotations:
            raise _AbortedError

    def _ask(self, call: Callable[[], T]) -> Steps[T]:
        return patiently(
            call,
            tell=lambda why: self._say(self._last_told.phase if self._last_told else "asks", (why,)),
            patience_seconds=self.settings.away_seconds,
        )

    def _event(self, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an Event; the roll-out does not depend on it."""
        try:
            self.cluster.tell(self.cluster.node(self.name), reason, message, warning=warning)
        except ClusterError as error:
            self._say("could not record an Event", (str(error),))

    def _say(self, phase: str, waits_for: Sequence[str] = ()) -> None:
        progress = Progress(self.name, str(phase), tuple(waits_for))
        if progress != self._last_told:
            self._last_told = progress
            self.tell(progress)


class _Holding:
    """A slot that is renewed while work goes on."""

    def __init__(self, cluster: Cluster, slot: Slot, clock: Clock, tell: Callable[[str], object]) -> None:
        self.slot = slot
        self._cluster = cluster
        self._clock = clock
        self._tell = tell
        self._renewed = clock()

    def during(self, work: Steps[T]) -> Steps[T]:
        """Do the work, and renew the slot whenever it waits."""
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
                self._renew()

    def _renew(self) -> None:
        if self._clock() - self._renewed < RENEW_SECONDS:
            return
        try:
            self.slot = renew(self._cluster, self.slot)
        except ApiAwayError as away:
            self._tell(away.message)
        except ConflictError as conflict:
            raise TakenError("somebody has taken the node's slot over", where=self.slot.node) from conflict
        else:
            self._renewed = self._clock()
