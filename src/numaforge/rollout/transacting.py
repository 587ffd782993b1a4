"""Have a host carry a transaction out by itself: hand it over, confirm it, and wait for its end."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from numaforge.change.transaction import Result, Status, Transaction
from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.rollout.cluster import Cluster, ClusterNode
from numaforge.rollout.control_plane import is_control_plane, not_healthy
from numaforge.rollout.machine import Machine
from numaforge.rollout.other_tools import foreign
from numaforge.rollout.outcome import NodeSettings, Outcome, Progress
from numaforge.rollout.patience import patiently
from numaforge.rollout.record import Ending
from numaforge.rollout.same_machine import other_address, other_machine
from numaforge.rollout.steps import Clock, Steps

T = TypeVar("T")

ASKING = "asks"  # the phase in which nothing has begun
BOOT_SECONDS = 1800.0  # a server with terabytes of memory takes a quarter of an hour to boot
MOST_VOID = 3  # transactions in a row
_POLL_SECONDS = 1.0  # the least interval between polls, where the node does not wait for news itself
_LOOK_AGAIN_SECONDS = 2.0
_MAINTENANCE_SECONDS = 10.0  # from one look at another tool's maintenance to the next
_TRANSACTION_SECONDS = 5400.0  # the node has a result long before that, unless systemd itself hangs


class Transacting(ABC):
    """The change of one host by one process; `away_seconds` is the least patience with a reboot."""

    name: str
    machine: Machine
    settings: NodeSettings
    clock: Clock
    away_seconds: float = BOOT_SECONDS

    @abstractmethod
    def _waits(self, *reasons: str, phase: str | None = None) -> None:
        """Report what `phase` waits for; None is the present phase."""

    def _make_way(self, status: Status) -> Steps[None]:
        """Have the pods leave for which a transaction is parked; without a drain they leave by themselves."""
        self._waits(status.parked)
        yield from ()

    def _begin(self, transaction: Transaction) -> Steps[str | None]:
        """Send a transaction to the host, once; return why it has not begun, None where it may have."""
        try:
            self.machine.begin(transaction)
        except HostUnreachableError as unreachable:
            # Not sent again: it may have begun, or may still reach the host. Its status is read next.
            self._waits(unreachable.message)
        except HostError as error:  # the host has tried and failed: nothing is in progress
            status: Status = yield from self._ask(lambda: self.machine.status(transaction.id), reboots=True)
            if status.unknown:
                return str(error)
        return None

    def _status(self, transaction: str | None, last_status: Status | None = None) -> Steps[Status]:
        """Return a status; void a transaction that the host does not know: it may still be on its way."""
        status: Status = yield from self._ask(
            lambda: self.machine.status(transaction, last_status), reboots=True
        )
        if transaction is None or not status.unknown:
            return status
        yield from self._ask(lambda: self.machine.void(transaction))
        return (yield from self._ask(lambda: self.machine.status(transaction)))

    def _result(
        self, transaction: str | None, activity: str = "", undo: Callable[[], Steps[None]] | None = None
    ) -> Steps[Result]:
        """Wait until a transaction has ended; with `undo`, which requests that, until it is reverted."""
        deadline = self.clock() + _TRANSACTION_SECONDS
        status: Status | None = None
        while (asked_at := self.clock()) < deadline:
            status = yield from self._status(transaction, status)
            result = status.result
            if result is not None and not (undo and result.outcome == "applied"):
                return result
            if status.waits:
                complaint = yield from self._ask(lambda: self._confirm(transaction), reboots=True)
                if complaint:
                    self._waits(complaint)
            elif status.parked:
                begun = self.clock()
                yield from self._make_way(status)
                deadline += self.clock() - begun
            elif status.broken_off:
                yield from self._ask(self.machine.settle)
            elif undo and result is not None and not status.running:
                yield from undo()
            self._waits(f"{activity}: {status.phase}" if activity else status.phase or "")
            yield max(0.0, _POLL_SECONDS - (self.clock() - asked_at))
        raise HostError(
            f"the transaction {transaction} has not ended in {_TRANSACTION_SECONDS:.0f} s", where=self.name
        )

    def _confirm(self, transaction: str | None) -> str:
        """Confirm a waiting transaction over a new connection; return the host's complaint, "" for none."""
        if transaction is None or not self.machine.status(transaction).waits:
            return ""
        try:
            self.machine.confirm(transaction)
        except HostUnreachableError:
            raise
        except HostError as error:
            return error.message
        return ""

    def _control_plane_trouble(
        self, cluster: Cluster, *, but: str = "", seconds: float | None = None
    ) -> Steps[str | None]:
        """Wait for a healthy control plane, if the node is of it; return what is wrong when time is up."""
        deadline = self.clock() + (self.settings.gate.ready_timeout if seconds is None else seconds)
        while is_control_plane((yield from self._ask(lambda: cluster.node(self.name)))):
            trouble: str | None = yield from self._ask(lambda: not_healthy(cluster, but=but))
            if trouble is None or self.clock() >= deadline:
                return trouble
            self._waits(trouble, phase="waits for the control plane")
            yield _LOOK_AGAIN_SECONDS
        return None

    def _ask(self, call: Callable[[], T], *, reboots: bool = False) -> Steps[T]:
        """Retry until there is an answer; a host that may be rebooting gets more time."""
        seconds = self.settings.unreachable_timeout
        return patiently(
            call, tell=self._waits, patience_seconds=max(seconds, self.away_seconds) if reboots else seconds
        )


class RefusedError(Exception):
    """The host must not be changed, or its change has ended: as `outcome` says."""

    def __init__(self, reason: str, details: Sequence[str] = (), *, ending: Ending = Ending.BLOCKED) -> None:
        super().__init__(reason)
        self.outcome = Outcome(ending, reason, tuple(details))


class HostChange(Transacting):
    """The change of one host from its first look to its outcome; `tell` receives its progress."""

    tell: Callable[[Progress], object]
    _last_told: Progress | None = None

    def _other_machine(
        self, cluster: Cluster, node: ClusterNode, *, rebooted: bool = False
    ) -> Steps[str | None]:
        host = yield from self._ask(self.machine.identity)
        access = self.machine.access()
        return other_machine(node, host, rebooted=rebooted) or (
            yield from self._ask(lambda: other_address(node, access, cluster.nodes))
        )

    def _unmaintained(self, cluster: Cluster, node: ClusterNode) -> Steps[ClusterNode]:
        """Return the node once no other tool maintains it, or when time is up."""
        deadline = self.clock() + self.settings.maintenance_timeout
        while (tool := foreign(node)) is not None and self.clock() < deadline:
            self._say("waits for maintenance", (tool,))
            yield _MAINTENANCE_SECONDS
            node = yield from self._ask(lambda: cluster.node(self.name))
        return node

    def _waits(self, *reasons: str, phase: str | None = None) -> None:
        self._say(phase or (self._last_told.phase if self._last_told else ASKING), reasons)

    def _say(self, phase: str, waits_for: Sequence[str] = ()) -> None:
        progress = Progress(self.name, str(phase), tuple(filter(None, waits_for)))
        if progress != self._last_told:
            self._last_told = progress
            self.tell(progress)
