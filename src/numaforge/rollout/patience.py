"""Retry while an API server or a host is unreachable, which is no reason to undo anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numaforge.errors import HostUnreachableError
from numaforge.rollout.cluster import ApiUnreachableError, ConflictError
from numaforge.rollout.steps import Steps

T = TypeVar("T")

RETRY_SECONDS = 3.0
_ATTEMPTS = 20


class Patience:
    """How long to go on without an answer: so many seconds, anew after each answer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waited = 0.0

    def wait(self, error: Exception, asked_seconds: float = 0.0) -> float:
        """Return for how many seconds to wait now; raises `error` where it was enough.

        `asked_seconds` is how long the call took that was not answered: it counts, too.
        """
        self._waited += asked_seconds
        if self._waited >= self._seconds:
            raise error
        self._waited += RETRY_SECONDS
        return RETRY_SECONDS

    def answered(self) -> None:
        """Forget how long it took."""
        self._waited = 0.0


def patiently(call: Callable[[], T], *, tell: Callable[[str], object], patience_seconds: float) -> Steps[T]:
    """Return what `call` returns; retry while its other side is unreachable, for so long at most."""
    patience = Patience(patience_seconds)
    while True:
        try:
            return call()
        except (ApiUnreachableError, HostUnreachableError) as unreachable:
            seconds = patience.wait(unreachable)
            tell(unreachable.message)
        yield seconds


def retried(change: Callable[[], T], *, where: str) -> T:
    """Return what `change` returns, which reads an object and writes it; retry after another's write.

    Raises ConflictError where another process writes first every time.
    """
    for _ in range(_ATTEMPTS):
        try:
            return change()
        except ConflictError:
            continue
    raise ConflictError("it keeps changing", where=where)
