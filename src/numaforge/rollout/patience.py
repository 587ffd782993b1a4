"""Retry while an API server or a host is unreachable, which is no reason to undo anything."""

from collections.abc import Callable
from typing import TypeVar

from numaforge.lib.errors import HostUnreachableError
from numaforge.rollout.cluster import ApiUnreachableError, ConflictError
from numaforge.rollout.steps import Steps

T = TypeVar("T")

RETRY_SECONDS = 3.0
_ATTEMPTS = 20


class Patience:
    """The retry budget in seconds; an answer resets it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waited = 0.0

    def wait(self, error: Exception, asked_seconds: float = 0.0) -> float:
        """Return the seconds to wait; those of the call count; raises `error` once the budget is spent."""
        self._waited += asked_seconds
        if self._waited >= self._seconds:
            raise error
        self._waited += RETRY_SECONDS
        return RETRY_SECONDS

    def answered(self) -> None:
        """Reset the budget."""
        self._waited = 0.0


def patiently(call: Callable[[], T], *, tell: Callable[[str], object], patience_seconds: float) -> Steps[T]:
    """Return what `call` returns; retry while its peer is unreachable, for at most `patience_seconds`."""
    patience = Patience(patience_seconds)
    while True:
        try:
            return call()
        except (ApiUnreachableError, HostUnreachableError) as unreachable:
            seconds = patience.wait(unreachable)
            tell(unreachable.message)
        yield seconds


def retried(change: Callable[[], T], *, where: str) -> T:
    """Return what `change` returns; retry it after a conflict; raises ConflictError in the end."""
    for _ in range(_ATTEMPTS):
        try:
            return change()
        except ConflictError:
            continue
    raise ConflictError("it keeps changing", where=where)
