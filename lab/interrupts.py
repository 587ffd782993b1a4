"""Signals that end the lab, even where Python has lost the handler's exception.

Python silently drops an exception raised in a finalizer, such as that of an HTTP answer. Long operations
therefore check again.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_asked: list[int] = []


def install() -> None:
    """End this program with 128 + the signal's number, once everything that it has started has ended."""
    for number in NUMBERS:
        signal.signal(number, _interrupt)


def heed() -> None:
    """Raise SystemExit where a signal has asked for the end and nothing is being ended yet."""
    of_main = threading.current_thread() is threading.main_thread()
    if _asked and of_main and sys.exc_info()[0] is None:
        sys.exit(128 + _asked[0])


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 (a handler's signature)
    """Have what was started ended, which no second signal interrupts."""
    for each in NUMBERS:
        signal.signal(each, signal.SIG_IGN)
    _asked.append(number)
    sys.exit(128 + number)
