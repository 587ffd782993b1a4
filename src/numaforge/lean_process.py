"""What Python does beside a program, for a process that ends soon: little of it.

Python looks for circles of objects after each 700 new ones, which are two or three classes. When it ends, it
looks through all there are, and takes them apart one by one, for an operating system that takes the memory
back at once. Of a run with one host that is a fifth of a second of CPU.
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
"""For how many new objects the garbage collector waits: a run with one host makes half as many that stay."""
_OF_A_HOST = 20_000
"""The same while hosts are asked: what is left of one is not to stay until others are through."""


def begin() -> None:
    """Make the garbage collector run rarely, and not when the process ends."""
    gc.set_threshold(_OBJECTS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)


def settle() -> None:
    """Keep what is there for good, and look for garbage among what comes from now on, as of hosts."""
    gc.freeze()
    gc.set_threshold(_OF_A_HOST, *gc.get_threshold()[1:])


def run(program: Callable[[], int]) -> NoReturn:
    """Run a program, and end the process with the exit code that it returns.

    Threads are waited for, what is registered with `atexit` is called, and output is written before. Where
    something is registered already, as by a profiler, the process ends as Python ends it.
    """
    ended: list[int] = []
    if not atexit._ncallbacks():  # what is registered first is called last
        atexit.register(_end, ended)
    begin()
    ended.append(program())
    sys.exit(ended[0])


def _end(ended: list[int]) -> None:
    """End the process as it is; where an error has ended the program, or output is lost, Python says so."""
    if ended:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended[0])
