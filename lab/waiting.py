"""Wait for events that nothing announces."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lab.errors import LabError

T = TypeVar("T")


def wait_until(
    holds: Callable[[], T], otherwise: str, patience_s: float = 240, *, every_s: float = 0.1, where: str = ""
) -> T:
    """Return the first true result of `holds`; raise LabError where there is none in time.

    >>> wait_until(lambda: "found", "finds nothing")
    'found'
    """
    deadline = time.monotonic() + patience_s
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise LabError(f"{otherwise} after {patience_s:.0f} s", where=where)
        time.sleep(every_s)
    return found
