"""One line per step with the time since the start; colour only on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lab.interrupts import heed

SIGN_OF_LIFE_S = 30
_STARTED = time.monotonic()
_LOCK = threading.Lock()


def say(text: str, *, colour: int | None = None) -> None:
    """Print one line of progress on stderr."""
    line = f"[{time.monotonic() - _STARTED:6.1f}s] {text}"
    if colour is not None and sys.stderr.isatty():
        line = f"\033[{colour}m{line}\033[0m"
    with _LOCK:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Announce a step when it begins, every now and then while it lasts, and when it ends."""
    say(f"{name} ...")
    begun = time.monotonic()
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(SIGN_OF_LIFE_S):
            say(f"{name}: {time.monotonic() - begun:.0f} s so far")

    threading.Thread(target=tell, daemon=True).start()
    try:
        yield
        heed()
    except BaseException:
        say(f"{name}: failed after {time.monotonic() - begun:.1f} s", colour=31)
        raise
    finally:
        ended.set()
    say(f"{name}: {time.monotonic() - begun:.1f} s", colour=32)
