"""Interrupts of a run: the first ends it or, while hosts are changed, only begins no other.

They arrive in any greenlet, or in gevent's hub, which would print a traceback and continue: they are thrown
into the greenlet that started the run.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from gevent import get_hub, getcurrent  # type: ignore[import-untyped]

from numaforge.lib.errors import ExitCode, HostError

INTERRUPTED = "interrupted"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


_stopped: list[str] = []
"""Why this run begins no further host; empty while it does."""


def stopped() -> bool:
    """Whether this run begins no further host, as it was interrupted."""
    return bool(_stopped)


def refuse_if_stopped() -> None:
    """Raise HostError where this run begins no further host."""
    if _stopped:
        error = HostError(
            f"not begun: {INTERRUPTED}", remedy="nothing was changed on this host by this run; run again"
        )
        error.exit_code = ExitCode.BLOCKED
        raise error


@contextmanager
def interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt here, in this greenlet, for an interrupt that ends the run."""
    main = getcurrent()

    def leave(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 (a signal handler's signature)
        if getcurrent() is main:
            raise KeyboardInterrupt
        get_hub().loop.run_callback(main.throw, KeyboardInterrupt)

    with _handled_by(leave):
        yield


@contextmanager
def changes(report: Callable[[], object]) -> Iterator[None]:
    """Let the first interrupt stop the run, calling `report`; the next one ends it."""
    leave = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        if not _stopped:
            _stopped.append(INTERRUPTED)
            report()
        elif callable(leave):
            leave(number, frame)

    with _handled_by(stop):
        yield


@contextmanager
def _handled_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    handlers = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, earlier in handlers.items():
            signal.signal(number, earlier)
