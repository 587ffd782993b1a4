"""Carry a transaction to its end, over a connection or on the node itself."""

import time
from collections.abc import Callable
from functools import partial

from numaforge.change.look import Ask
from numaforge.change.transaction import (
    IncompleteStatusError,
    Result,
    Status,
    Transaction,
    confirm_script,
    parked_error,
    read_status,
    read_waiting,
    settle_script,
    start_script,
    status_script,
)
from numaforge.lib.errors import ExitCode, HostError
from numaforge.lib.framing import Answer
from numaforge.lib.unfinished import Unfinished

_UNCLEAR_ANSWERS = 30
_POLL_SECONDS = 1.0  # from one question to the next at least, where the node does not wait for news itself
_EXIT_CODES = {"rolled-back": ExitCode.ROLLED_BACK, "failed": ExitCode.HELD}


def settle(ask: Ask, ask_anew: Ask) -> None:
    """End an abandoned transaction: confirm one that waits, by a connection made now; undo a broken one."""
    for transaction in read_waiting(ask(settle_script())):
        status = clear_status(partial(ask, status_script(transaction)))
        ask_anew(confirm_script(transaction, status.token))
        ask(settle_script())


def carry_out(
    transaction: Transaction,
    ask: Ask,
    ask_anew: Ask,
    report: Callable[[str], object],
    watch: Callable[[Unfinished | None], object] = lambda _change: None,
) -> Result:
    """Hand a transaction to the node, confirm it, and return how it was applied.

    `watch` is given what is known of it, None once it has ended. Raises HostError, with its exit code, for
    any other end.
    """
    watch(Unfinished(transaction.id, "works", "is handed to the host"))
    ask(start_script(transaction))
    status: Status | None = None
    while True:
        asked_at = time.monotonic()
        status = clear_status(partial(ask, status_script(transaction.id, status)))
        if (result := status.result) is not None:
            watch(None)
            break
        watch(unfinished(transaction, status))
        if status.waits:
            try:  # without a new connection the node rolls back
                ask_anew(confirm_script(transaction.id, status.token))
            except HostError as error:
                report(f"the change could not be confirmed yet: {error.message}")
        elif status.parked:
            raise parked_error(transaction.id, status.parked)
        elif status.broken_off and status.phase != "reboot":
            raise HostError(
                f"the transaction {transaction.id} was broken off", remedy="run again, which ends it first"
            )
        time.sleep(max(0.0, _POLL_SECONDS - (time.monotonic() - asked_at)))
    if result.outcome == "void":
        raise HostError(result.reason, remedy="run again")
    if result.outcome != "applied":
        failed = HostError(result.message)
        failed.exit_code = _EXIT_CODES.get(result.outcome, failed.exit_code)
        raise failed
    return result


def unfinished(transaction: Transaction, status: Status) -> Unfinished:
    """Return a transaction in progress in the form in which all commands name it."""
    how = "unconfirmed" if status.waits else "left" if status.broken_off else "works"
    seconds = transaction.confirm_seconds if status.waits else None
    return Unfinished(transaction.id, how, status.phase or "", seconds)


def clear_status(how_far: Callable[[], Answer]) -> Status:
    """Return a transaction's status; an incomplete answer is asked for again; raises HostUnreachableError."""
    for _ in range(_UNCLEAR_ANSWERS):
        try:
            return read_status(how_far())
        except IncompleteStatusError:
            time.sleep(1)
    return read_status(how_far())
