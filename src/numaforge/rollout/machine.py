"""What a roll-out does on the node itself, over any connection."""

from collections.abc import Mapping
from typing import Any, Protocol

from numaforge.change.identity import Identity
from numaforge.change.transaction import Process, Status, Transaction
from numaforge.rollout.gate import Expected
from numaforge.rollout.same_machine import Access
from numaforge.rollout.steps import Steps


class Machine(Protocol):
    """A node as its administrator reaches it.

    Every call may raise HostUnreachableError, whether it took effect or not. Each but `begin` is then
    retried: `confirm`, `proceed`, `revert`, `settle` and `void` are idempotent.
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
        """Return the running configuration that the kubelet reports to its own node: its /configz.

        Raises UnreadableConfigError where it refuses its node, SilentKubeletError where it does not answer.
        """

    def rehearse(self, transaction: Transaction | None = None) -> str:
        """Have the node's kubelet try the plan where that changes what it starts with.

        `transaction` is what the node needs; None where it was not looked at. Returns why the change must
        not be made, "" where it may.
        """

    def begin(self, transaction: Transaction) -> None:
        """Send a transaction to the node, which carries it out by itself.

        It ends as "void" where the node is no longer what it was planned for.
        """

    def confirm(self, transaction: str) -> None:
        """Confirm a transaction over a new connection, where its node waits for that; else do nothing."""

    def void(self, transaction: str) -> None:
        """Keep a transaction, and any earlier requested `revert` of it, from ever beginning.

        Whatever has begun is not affected.
        """

    def status(self, transaction: str | None, last_status: Status | None = None) -> Status:
        """Return the status of a transaction on the node; None stands for no transaction.

        A node that was `seen` at work may delay its answer: a few seconds, or until there is news.
        """

    def process(self) -> Process:
        """Return the kubelet's process."""

    def proceed(self, transaction: str, allowed: tuple[str, ...]) -> None:
        """Renew the lease of a transaction on its drained node: the UIDs of the pods that may be there.

        A step that is parked until other pods have left then looks again.
        """

    def revert(self, transaction: str, reason: str, *, blames_plan: bool = True) -> None:
        """Have the node undo the transaction, and with `blames_plan` not retry it by itself."""

    def settle(self) -> None:
        """End a transaction that was broken off: undo it."""

    def verify(self) -> Steps[tuple[str, ...]]:
        """Compare the node with its plan, and return what is not as planned."""

    def held(self) -> tuple[str, ...]:
        """Return why measurements on the node keep it from service; () where none does."""
