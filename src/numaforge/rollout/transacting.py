"""Have a host carry a transaction out by itself: hand it over, confirm it, and wait for its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from numaforge.errors import HostError, HostUnreachableError
from numaforge.maintenance.transaction import Result, Status, Transaction
from numaforge.rollout.cluster import Cluster
from numaforge.rollout.control_plane import is_control_plane, not_healthy
from numaforge.rollout.machine import Machine
from numaforge.rollout.outcome import NodeSettings
from numaforge.rollout.patience import patiently
from numaforge.rollout.steps import Clock, Steps

T = TypeVar("T")

BOOT_SECONDS = 1800.0  # a server with terabytes of memory takes a quarter of an hour until it answers
MOST_VOID = 3  # transactions in a row
_POLL_SECONDS = 1.0  # from one question to the next at least, where the node does not wait for news itself
_LOOK_AGAIN_SECONDS = 2.0
_TRANSACTION_SECONDS = 5400.0  # the node has a result long before, unless systemd itself hangs


class Transacting(ABC):
    """The change of one host by one process.

    `away_seconds` is for how long a host that may be rebooting is waited for at least.
    """

    name: str
    machine: Machine
    settings: NodeSettings
    clock: Clock
    away_seconds: float = BOOT_SECONDS

    @abstractmethod
    def _waits(self, *reasons: str, phase: str | None = None) -> None:
        """Say what the phase, the present one unless it is named, waits for."""

    def _begin(self, transaction: Transaction) -> Steps[str | None]:
        """Hand a transaction to the host, once; return why it has not begun, None where it may have."""
        try:
            self.machine.begin(transaction)
        except HostUnreachableError as unreachable:
            # Not sent again: it may have begun, or reach the host yet. What becomes of it is asked next.
            self._waits(unreachable.message)
        except HostError as error:  # the host has tried, and failed: nothing is under way any more
            status: Status = yield from self._ask(lambda: self.machine.status(transaction.id), reboots=True)
            if status.unknown:
                return str(error)
        return None

    def _status(self, transaction: str | None, seen: Status | None = None) -> Steps[Status]:
        """Return how far a transaction is; from now on, one that the host does not know is void.

        It may still be on its way to the host, from a runner that is dead or was asleep. Nothing follows from
        its absence before it can never begin any more.
        """
        status: Status = yield from self._ask(lambda: self.machine.status(transaction, seen), reboots=True)
        if transaction is None or not status.unknown:
            return status
        yield from self._ask(lambda: self.machine.void(transaction))
        return (yield from self._ask(lambda: self.machine.status(transaction)))

    def _result(
        self, transaction: str | None, what: str = "", undo: Callable[[], Steps[None]] | None = None
    ) -> Steps[Result]:
        """Wait until a transaction has ended, and say meanwhile `what` it does.

        With `undo`, which asks for that, one that was applied has not ended until it is reverted.
        """
        deadline = self.clock() + _TRANSACTION_SECONDS
        status: Status | None = None
        while (asked := self.clock()) < deadline:
            status = yield from self._status(transaction, status)
            result = status.result
            if result is not None and not (undo and result.outcome == "applied"):
                return result
            if status.waits:
                complaint = yield from self._ask(lambda: self._confirm(transaction), reboots=True)
                if complaint:
                    self._waits(complaint)
            elif status.broken_off:
                yield from self._ask(self.machine.settle)
            elif undo and result is not None and not status.running:
                yield from undo()
            self._waits(f"{what}: {status.phase}" if what else status.phase or "")
            yield max(0.0, _POLL_SECONDS - (self.clock() - asked))
        raise HostError(
            f"the transaction {transaction} has not ended in {_TRANSACTION_SECONDS:.0f} s", where=self.name
        )

    def _confirm(self, transaction: str | None) -> str:
        """Confirm a transaction over a new connection, while its host still waits for it.

        Returns what the host complains of, "" for nothing: without a confirmation it goes back by itself.
        Raises HostUnreachableError where there is no answer.
        """
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
        """Wait until the control plane is healthy, but for one node; say what is not when time is up.

        None where the node to change is no part of it.
        """
        deadline = self.clock() + (self.settings.gate.ready_seconds if seconds is None else seconds)
        while is_control_plane((yield from self._ask(lambda: cluster.node(self.name)))):
            trouble: str | None = yield from self._ask(lambda: not_healthy(cluster, but=but))
            if trouble is None or self.clock() >= deadline:
                return trouble
            self._waits(trouble, phase="waits for the control plane")
            yield _LOOK_AGAIN_SECONDS
        return None

    def _ask(self, call: Callable[[], T], *, reboots: bool = False) -> Steps[T]:
        """Ask until there is an answer; a host that may be rebooting has more time for it."""
        seconds = self.settings.unreachable_seconds
        return patiently(
            call,
            tell=self._waits,
            patience_seconds=max(seconds, self.away_seconds) if reboots else seconds,
        )
