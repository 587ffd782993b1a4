"""Confirm what a node has applied for as long as it is not confirmed."""

from __future__ import annotations

from numaforge.errors import HostError, HostUnreachableError
from numaforge.rollout.machine import Machine


def confirm_waiting(machine: Machine, transaction: str) -> str:
    """Confirm a transaction over a new connection, while its node still waits for it.

    Returns what the node complains of, "" for nothing: without a confirmation it goes back by itself. Raises
    HostUnreachableError where there is no answer.
    """
    if not machine.status(transaction).waits:
        return ""
    try:
        machine.confirm(transaction)
    except HostUnreachableError:
        raise
    except HostError as error:
        return error.message
    return ""
