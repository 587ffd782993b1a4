"""What a roll-out does on the node itself, over any connection."""

from collections.abc import Mapping
from typing import Any, Protocol

from numaforge.change.identity import Identity
from numaforge.change.transaction import Process, Status, Transaction
from numaforge.rollout.gate import Expected
from numaforge.rollout.same_machine import Access
from numaforge.rollout.steps import Steps


class Machine(Protocol):
    """A node as its administrator reaches it; every call may raise HostUnreachableError, done or not.

    Each but `begin` is then retried: `confirm`, `proceed`, `revert`, `settle` and `void` are idempotent.
    """

    def identity(self) -> Identity:
        """Return the host's identity, as reported by itself."""

    def access(self) -> Access:
        """Return how the host is reached, which it cannot choose."""

    def change(self) -> Transaction | None:
        """Return the transaction that the node needs to be as planned; None where it is."""

    def expected(self) -> Expected:
        """Return the expected state of the node once it is as planned."""

    def running_config(self) -> Mapping[str, Any]:
        """Return the kubelet's /configz; raises UnreadableConfigError, SilentKubeletError."""

    def rehearse(self, transaction: Transaction | None = None) -> str:
        """Have the kubelet try a change of its start (None: look first); return why not to make it, or ""."""

    def begin(self, transaction: Transaction) -> None:
        """Send a transaction to the node; it is "void" where the node is not what it was planned on."""

    def confirm(self, transaction: str) -> None:
        """Confirm a transaction over a new connection, where its node waits for that; else do nothing."""

    def void(self, transaction: str) -> None:
        """Keep a transaction that has not begun, and an earlier `revert` of it, from ever beginning."""

    def status(self, transaction: str | None, last_status: Status | None = None) -> Status:
        """Return a transaction's status, None for no transaction; a node at work may delay its answer."""

    def process(self) -> Process:
        """Return the kubelet's process."""

    def proceed(self, transaction: str, allowed: tuple[str, ...]) -> None:
        """Renew a lease: the UIDs of the pods that may be on the node; a parked step looks again."""

    def revert(self, transaction: str, reason: str, *, blames_plan: bool = True) -> None:
        """Have the node undo the transaction, and with `blames_plan` not retry it by itself."""

    def settle(self) -> None:
        """End a transaction that was broken off: undo it."""

    def verify(self) -> Steps[tuple[str, ...]]:
        """Compare the node with its plan, and return what is not as planned."""

    def held(self) -> tuple[str, ...]:
        """Return why measurements on the node keep it from service; () where none does."""
