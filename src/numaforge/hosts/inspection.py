"""What pyinfra finds out about our code on every host, found out once.

pyinfra orders operations by the lines that called them, and reads the source of every frame of the stack for
that, though it needs the frames' files and line numbers alone; and it evaluates the type hints of its global
arguments for every operation and every fact. There is no hook for either.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any

from pyinfra.api import arguments, util


@dataclass(frozen=True)
class _Place:
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


def _stack() -> list[tuple[FrameType]]:
    """Return the frames of the caller and of its callers, the innermost first, as `inspect.stack` does."""
    frames = []
    frame: FrameType | None = sys._getframe(1)
    while frame:
        frames.append((frame,))
        frame = frame.f_back
    return frames


def _place(frame: FrameType) -> _Place:
    return _Place(frame.f_code.co_filename, frame.f_lineno)
