"""Work that waits: a generator that yields how long it wants to wait, in seconds, and does all else by calls.

So the same code runs against a real cluster, where the caller sleeps, and in virtual time, where thousands
of such pieces of work take turns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[float, None, T]
Clock = Callable[[], float]
"""Seconds that only ever grow. No decision compares the clocks of two machines."""
Beside = Callable[[Steps[None]], AbstractContextManager[None]]
"""Does some work at the same time as what is done while it is entered, and ends it with that."""


def run(steps: Steps[T], sleep: Callable[[float], object] = time.sleep) -> T:
    """Do the work to its end, sleeping where it waits."""
    while True:
        try:
            seconds = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        sleep(seconds)


@contextmanager
def in_thread(steps: Steps[None]) -> Iterator[None]:
    """Do the work in a thread of its own (a greenlet where gevent patches them) while this is entered.

    So it goes on where the caller is blocked. On the way out it is ended where it next waits, and awaited.
    """
    over = threading.Event()

    def go_on() -> None:
        for seconds in steps:
            if over.wait(seconds):
                return

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
