"""Pure functions that remember what they returned."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from hashlib import blake2b
from typing import Concatenate, ParamSpec, TypeVar
from weakref import finalize

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_KEPT = 256  # answers of each function; a fleet has fewer kinds than that, or gains nothing here


def once_per(content: Callable[P, bytes]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a pure function remember what it returned for arguments of the same content.

    They are compared by its digest. What the function returns is shared: nothing may change it. An error is
    raised anew each time.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        answers: OrderedDict[bytes, R] = OrderedDict()

        @wraps(function)
        def remembering(*args: P.args, **kwargs: P.kwargs) -> R:
            key = blake2b(content(*args, **kwargs), digest_size=32).digest()
            if key in answers:
                answers.move_to_end(key)
                return answers[key]
            answer = function(*args, **kwargs)
            answers[key] = answer
            if len(answers) > _KEPT:
                answers.popitem(last=False)
            return answer

        return remembering

    return decorate


def plain(value: object) -> bytes:
    """Return plain data as bytes, which are the same for equal data that were made in the same way."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def once_per_value(function: Callable[P, R]) -> Callable[P, R]:
    """Make a pure function of plain data remember what it returned for equal arguments: see `once_per`."""

    def content(*args: P.args, **kwargs: P.kwargs) -> bytes:
        return plain((args, sorted(kwargs.items())))

    return once_per(content)(function)


def once_per_object(function: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Make a pure function remember what it returned for its first argument itself, as long as that lives.

    The other arguments are compared by value. What it returns is shared: nothing may change it. It must not
    hold the argument, which would live for ever then.
    """
    answers: dict[int, dict[Hashable, R]] = {}

    @wraps(function)
    def remembering(thing: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        place = id(thing)
        if place not in answers:
            answers[place] = {}
            finalize(thing, answers.pop, place).atexit = False
        known, key = answers[place], (args, *kwargs.items())
        if key not in known:
            known[key] = function(thing, *args, **kwargs)
        return known[key]

    return remembering
