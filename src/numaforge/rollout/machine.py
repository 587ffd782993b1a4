"""What a roll-out does on the node itself, over whatever connection there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numaforge.maintenance.identity import Identity
from numaforge.maintenance.transaction import Process, Status, Transaction
from numaforge.rollout.gate import Expected
from numaforge.rollout.same_machine import Access
from numaforge.rollout.steps import Steps


class Machine(Protocol):
    """A node as its administrator reaches it.

    Every call may raise HostUnreachableError, whether it took effect or not. Each but `begin` is then made
    again: `confirm`, `revert`, `settle` and `void` do nothing where it has been done.
    """

    def identity(self) -> Identity:
        """Return which host it is, by its own word."""

    def access(self) -> Access:
        """Return how it is reached, which is not its own word."""

    def change(self) -> Transaction | None:
        """Look at the node, and return what it needs to be as planned; None where it is."""

    def expected(self) -> Expected:
        """Return what the node is to be once it is as planned."""

    def running_config(self) -> Mapping[str, Any]:
        """Return what the kubelet tells its own node that it runs with: its /configz.

        Raises UnreadableConfigError where it refuses that to its node, SilentKubeletError where it is silent.
        """

    def begin(self, transaction: Transaction) -> None:
        """Hand a transaction to the node, which carries it out by itself.

        One whose node is not what it was planned on any more ends as "void".
        """

    def confirm(self, transaction: str) -> None:
        """Confirm a transaction whose node waits for that, over a new connection; others stay as they are."""

    def void(self, transaction: str) -> None:
        """See to it that a transaction never begins, nor a `revert` of it that was asked for before.

        Nothing happens to what has begun.
        """

    def status(self, transaction: str | None, seen: Status | None = None) -> Status:
        """Return how far a transaction is on the node; None: none is meant.

        A node that was `seen` at work may answer late: a few seconds, or once there is news.
        """

    def process(self) -> Process:
        """Return the kubelet's process."""

    def revert(self, transaction: str, reason: str, *, blames_plan: bool = True) -> None:
        """Have the node undo what was applied, and with `blames_plan` not try it again by itself."""

    def settle(self) -> None:
        """End a transaction that was broken off: undo it."""

    def verify(self) -> Steps[tuple[str, ...]]:
        """Hold the node to its plan, and return what is not as it says."""

    def held(self) -> tuple[str, ...]:
        """Return why what was measured on the node keeps it from service; () where nothing does."""
