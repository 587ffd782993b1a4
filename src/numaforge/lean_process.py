"""Less of Python's own work in a short-lived process: garbage collection and its orderly end.

Python searches for reference cycles after every 700 new objects, which are two or three classes. When it
ends, it searches all objects and destroys them one by one, although the operating system frees the memory at
once. For a run with one host this takes a fifth of a second of CPU.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

_OBJECTS = 200_000
"""How many new objects trigger the garbage collector: a run with one host keeps half as many."""
_OF_A_HOST = 20_000
"""The same while hosts are asked: the garbage of one host must not stay until all are done."""


def begin() -> None:
    """Make the garbage collector run rarely, and not when the process ends."""
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)


def settle() -> None:
    """Exempt the present objects from collection, and collect garbage among later ones, as of hosts."""
    gc.freeze()
    gc.set_threshold(_OF_A_HOST, *gc.get_threshold()[1:])


def run(program: Callable[[], int]) -> NoReturn:
    """Run a program, and end the process with the exit code that it returns.

    Before that, threads are joined, `atexit` functions run, and output is flushed. Where a function is
    already registered, as by a profiler, Python ends the process in its own way.
    """
    ended: list[int] = []
    if not atexit._ncallbacks():  # the first one registered runs last
        atexit.register(_end, ended)
    begin()
    ended.append(program())
    sys.exit(ended[0])


def _end(ended: list[int]) -> None:
    """End the process at once, unless Python has to report an error or lost output."""
    if ended:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended[0])
