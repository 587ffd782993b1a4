"""Classes that are made with less compiling, for a process that is to begin at once.

Python 3.11 and 3.12 compile six methods of each dataclass one by one: 300 classes are a fifth of a second of
CPU, and most methods of most classes are never called by a command. Python 3.13 compiles those of a class
together, and is left alone. And typing compiles the annotation of each field, of which most are alike: here
each text is compiled once.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from functools import cache
from typing import Any

_Method = Callable[..., Any]


def begin() -> None:
    """Have the classes that this process makes from now on compile what they need, when they need it."""
    names: Any = typing
    if "compile" not in vars(names):
        names.compile = cache(compile)  # typing finds it before Python's own
    library: Any = dataclasses
    create = getattr(library, "_create_fn", None)
    if create is None or create.__module__ == __name__:
        return

    def create_when_called(name: str, *given: Any, **how: Any) -> _Method:
        return _when_called(name, lambda: create(name, *given, **how))

    library._create_fn = create_when_called


def _when_called(name: str, create: Callable[[], _Method]) -> _Method:
    """Return what stands for a method until it is called."""
    made: list[_Method] = []

    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        if not made:
            made.append(create())
            made[0].__qualname__ = method.__qualname__
            _replace(type(self), name, method, made[0])
        return made[0](self, *arguments, **named)

    method.__name__ = method.__qualname__ = name
    return method


def _replace(kind: type, name: str, method: _Method, real: _Method) -> None:
    """Give the class that has a method the one that it stands for, unless something is wrapped around it."""
    for each in kind.__mro__:
        if each.__dict__.get(name) is method:
            setattr(each, name, real)
