"""A node over its pyinfra connection, as a roll-out sees it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from typing import Any

from pyinfra.api import Host

from numaforge.errors import HostUnreachableError
from numaforge.hosts import access_to, hang_up, reached
from numaforge.node.identity import Identity, identity_script, read_identity
from numaforge.node.look import look
from numaforge.node.need import need
from numaforge.node.transaction import (
    TRANSACTIONS,
    Status,
    Transaction,
    read_status,
    revert_script,
    settle_script,
    start_script,
    status_script,
    void_script,
)
from numaforge.rollout.configz import read_answer
from numaforge.rollout.gate import Expected
from numaforge.rollout.patience import RETRY_SECONDS
from numaforge.rollout.same_machine import Access
from numaforge.rollout.steps import Steps

from .target import Target
from .verification import Verification

_NO_TRANSACTION = "none"


class PyinfraMachine:
    """A host whose kubelet is to be as a target says; implements numaforge.rollout.machine.Machine."""

    def __init__(self, host: Host, target: Target, verification: Verification | None) -> None:
        self._host = host
        self._target = target
        self._verification = verification
        self._ask = partial(reached, host)
        self._host = host

    def identity(self) -> Identity:
        """Return which host it is, by its own word."""
        return read_identity(self._ask(identity_script()))

    def access(self) -> Access:
        """Return how it is reached, which is not its own word."""
        return access_to(self._host)

    def change(self) -> Transaction | None:
        """Look at the host anew, and return what it needs; None where it is as planned."""
        found = look(self._ask, self._target.question)
        if found.unfinished:
            self.settle()
            found = look(self._ask, self._target.question)
        return need(self._target.goal, found)

    def expected(self) -> Expected:
        """Return what the cluster is to say of the node afterwards."""
        return self._target.expected

    def running_config(self) -> Mapping[str, Any]:
        """Return what the kubelet tells its own node that it runs with."""
        return read_answer(self._ask(self._target.endpoint.script))

    def begin(self, transaction: Transaction) -> None:
        """Hand a transaction to the host, marked as one whose node is still to be proved."""
        mark = f"{transaction.folder}/unproved"
        self._ask(f"umask 077; mkdir -p {transaction.folder} && : > {mark}\n{start_script(transaction)}")

    def void(self, transaction: str) -> None:
        """See to it that a transaction never begins on the host."""
        self._ask(void_script(transaction))

    def status(self, transaction: str | None) -> Status:
        """Return how far a transaction is, and the kubelet's process."""
        script = status_script(transaction or _NO_TRANSACTION, self._target.kubelet_unit)
        return read_status("\n".join(self._ask(script)))

    def reconnect(self) -> None:
        """Have the host answer over a new connection."""
        hang_up(self._host)
        self._ask(":")

    def revert(self, transaction: str, reason: str) -> None:
        """Have the host undo a transaction that was applied."""
        self._ask(revert_script(transaction, reason))

    def settle(self) -> None:
        """End a transaction that was broken off: undo it."""
        self._ask(settle_script())

    def verify(self) -> Steps[tuple[str, ...]]:
        """Run the verification suite against the host; without one nothing is amiss.

        A host that was unreachable for a moment is asked again.
        """
        if self._verification is None:
            return ()
        try:
            return (yield from self._verification.run())
        except HostUnreachableError:
            self._ask(":")
            yield RETRY_SECONDS
        try:
            return (yield from self._verification.run())
        except HostUnreachableError as error:
            self._ask(":")  # it answers us: to wait longer would not help the suite
            return (str(error),)

    def proved(self) -> None:
        """Remove the marks: nothing is left to be verified."""
        self._ask(f"rm -f {shlex.quote(TRANSACTIONS)}/*/unproved")
