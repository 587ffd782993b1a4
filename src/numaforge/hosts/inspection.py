"""What pyinfra finds out about our code on every host, found out once.

pyinfra orders operations by the lines that called them, and reads the source of every frame of the stack for
that, though it needs the frames' files and line numbers alone; and it evaluates the type hints of its global
arguments for every operation and every fact. It looks for each of these arguments in the data of the host,
through exceptions. There is no hook for any of it.
"""

from __future__ import annotations

import inspect
import sys
from copy import copy
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any

from pyinfra.api import arguments, util
from pyinfra.api.host import HostData


@dataclass(frozen=True)
class _Frame:
    """A frame, as far as `pyinfra.api.util` looks at it."""

    filename: str
    lineno: int


def inspect_once() -> None:
    """Take the place of what pyinfra calls for this, where this pyinfra calls what is known here."""
    known: Any = util
    if known.stack is inspect.stack and known.getframeinfo is inspect.getframeinfo:
        known.stack, known.getframeinfo = _stack, _place
    if not hasattr(arguments.all_global_arguments, "cache_info"):
        arguments.all_global_arguments = cache(arguments.all_global_arguments)
    data: Any = HostData
    data.__getattr__ = _datum


def _datum(data: Any, key: str) -> Any:
    """Return a shallow copy of a host's datum, as pyinfra does; raises AttributeError where there is none."""
    for known in data.datas:
        found = known() if callable(known) else known  # a deploy's defaults are kept in its state
        if key in found:
            return copy(found[key])
    raise AttributeError(key)


def _stack() -> list[tuple[FrameType]]:
    """Return the frames of the caller and of its callers, the innermost first, as `inspect.stack` does."""
    frames = []
    frame: FrameType | None = sys._getframe(1)
    while frame:
        frames.append((frame,))
        frame = frame.f_back
    return frames


def _place(frame: FrameType) -> _Frame:
    return _Frame(frame.f_code.co_filename, frame.f_lineno)
