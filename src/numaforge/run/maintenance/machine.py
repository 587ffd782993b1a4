"""A node over its pyinfra connection, as a roll-out sees it."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

from numaforge.change.carry import settle
from numaforge.change.identity import Identity, identity_script, read_identity
from numaforge.change.look import look
from numaforge.change.need import need, new_id
from numaforge.change.transaction import (
    TRANSACTIONS,
    Process,
    Status,
    Transaction,
    confirm_script,
    proceed_script,
    process_script,
    read_process,
    read_status,
    revert_script,
    settle_script,
    start_script,
    status_script,
    void_script,
)
from numaforge.fleet.measure.asking import kept_script, read_kept
from numaforge.fleet.measure.record import MeasurementError
from numaforge.fleet.measure.siblings import why_held
from numaforge.lib.errors import HostUnreachableError
from numaforge.lib.framing import asking
from numaforge.roles.kubelet.rehearsal import is_wanted
from numaforge.rollout.configz import read_answer
from numaforge.rollout.patience import RETRY_SECONDS
from numaforge.run.hosts.connection import access_to
from numaforge.run.hosts.scripts import reached, reached_anew

from .rehearsal import rehearsed_on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinfra.api import Host

    from numaforge.rollout.gate import Expected
    from numaforge.rollout.same_machine import Access
    from numaforge.rollout.steps import Steps

    from .target import Target
    from .verification import Verification

_NO_TRANSACTION = "none"


class PyinfraMachine:
    """A host that is brought to a target; implements numaforge.rollout.machine.Machine."""

    def __init__(self, host: Host, target: Target, verification: Verification | None) -> None:
        self._host = host
        self._target = target
        self._verification = verification
        self._ask = partial(reached, host)
        self._ask_anew = partial(reached_anew, host)
        self._tokens: dict[str, str] = {}

    def identity(self) -> Identity:
        return read_identity(self._ask(identity_script()))

    def access(self) -> Access:
        return access_to(self._host)

    def change(self) -> Transaction | None:
        name = new_id()
        state = look(self._ask, self._target.question, name)
        if state.unfinished:
            settle(self._ask, self._ask_anew)
            state = look(self._ask, self._target.question, name)
        return need(self._target.goal, state, name)

    def expected(self) -> Expected:
        return self._target.expected

    def running_config(self) -> Mapping[str, Any]:
        return read_answer(self._ask(self._target.endpoint.script))

    def rehearse(self, transaction: Transaction | None = None) -> str:
        if transaction is not None and not is_wanted(self._target.goal, transaction):
            return ""
        state = look(self._ask, self._target.question)
        transaction = None if state.unfinished else need(self._target.goal, state)
        return rehearsed_on(self._host, self._target.goal, state, transaction)

    def begin(self, transaction: Transaction) -> None:
        mark = f"{transaction.folder}/unproved"  # until `proved` removes it
        noted = f"umask 077; mkdir -p {transaction.folder} && : > {mark}"
        self._ask(asking(noted) + start_script(transaction))

    def confirm(self, transaction: str) -> None:
        if transaction not in self._tokens:
            self.status(transaction)
        self._ask_anew(confirm_script(transaction, self._tokens[transaction]))

    def void(self, transaction: str) -> None:
        self._ask(void_script(transaction))

    def status(self, transaction: str | None, last_status: Status | None = None) -> Status:
        status = read_status(self._ask(status_script(transaction or _NO_TRANSACTION, last_status)))
        if transaction is not None:
            self._tokens[transaction] = status.token
        return status

    def process(self) -> Process:
        return read_process(self._ask(process_script(self._target.goal.kubelet_unit)))

    def proceed(self, transaction: str, allowed: tuple[str, ...]) -> None:
        self._ask(proceed_script(transaction, allowed))

    def revert(self, transaction: str, reason: str, *, blames_plan: bool = True) -> None:
        last_status = self.status(transaction)
        self._ask(revert_script(transaction, reason, last_status, blames_plan=blames_plan))

    def settle(self) -> None:
        self._ask(settle_script())

    def verify(self) -> Steps[tuple[str, ...]]:
        """Compare the host with its plan, twice where it was briefly unreachable; () without a suite."""
        if self._verification is None:
            return ()
        try:
            return (yield from self._verification.run())
        except HostUnreachableError:
            self._ask(asking(":"))
            yield RETRY_SECONDS
        try:
            return (yield from self._verification.run())
        except HostUnreachableError as error:
            self._ask(asking(":"))  # the host answers us, so waiting longer would not help the suite
            return (str(error),)

    def held(self) -> tuple[str, ...]:
        plan = self._target.goal.plan.measure
        if plan is None:
            return ()
        command = f"numaforge measure INVENTORY --limit {self._host.name} --kubeconfig FILE"
        try:
            record = read_kept(self._ask(kept_script()))
        except MeasurementError as error:
            return (f"{error.message}: run `{command}`",)
        return why_held(record, plan.min_share, command)

    def proved(self) -> None:
        """Remove the marks: every transaction is proved."""
        self._ask(asking(f"rm -f {shlex.quote(TRANSACTIONS)}/*/unproved"))
