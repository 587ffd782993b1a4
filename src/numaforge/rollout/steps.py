"""Work that waits: a generator that yields how long it wants to wait, in seconds, and does all else by calls.

So the same code runs against a real cluster, where the caller sleeps, and in virtual time, where thousands
of such pieces of work take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[float, None, T]
Clock = Callable[[], float]
"""Seconds that only ever grow. No decision compares the clocks of two machines."""


def run(steps: Steps[T], sleep: Callable[[float], object] = time.sleep) -> T:
    """Do the work to its end, sleeping where it waits."""
    while True:
        try:
            seconds = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        sleep(seconds)
