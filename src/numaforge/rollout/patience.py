"""Go on asking while nobody answers: an API server or a host that is away is no reason to undo anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numaforge.errors import HostError
from numaforge.rollout.cluster import ApiAwayError
from numaforge.rollout.steps import Steps

T = TypeVar("T")

RETRY_SECONDS = 3.0


class HostAwayError(HostError):
    """The host does not answer now; what runs there runs on."""


def patiently(call: Callable[[], T], *, tell: Callable[[str], object], patience_seconds: float) -> Steps[T]:
    """Return what `call` returns, asking again while its other side is away, for so long at most."""
    waited = 0.0
    while True:
        try:
            return call()
        except (ApiAwayError, HostAwayError) as away:
            if waited >= patience_seconds:
                raise
            tell(away.message)
        waited += RETRY_SECONDS
        yield RETRY_SECONDS
