"""Work that waits: a generator of the seconds to wait, run with sleeps or, by thousands, in virtual time."""

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[float, None, T]
Clock = Callable[[], float]
"""A monotonic clock, in seconds. No decision compares the clocks of two machines."""
Beside = Callable[[Steps[None]], AbstractContextManager[None]]
"""A context manager that does some work concurrently with its block, and ends it with the block."""


def run(steps: Steps[T], sleep: Callable[[float], object] = time.sleep) -> T:
    """Run the work to its end, sleeping where it waits."""
    while True:
        try:
            seconds = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        sleep(seconds)


@contextmanager
def in_thread(steps: Steps[None]) -> Iterator[None]:
    """Do the work in a thread (or greenlet) during the block; at its end it is stopped and joined."""
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
