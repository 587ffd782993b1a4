"""Memoized pure functions."""

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
    """Memoize a pure function by the content of its arguments.

    Digests of the content are compared. Results are shared and must not be changed. Errors are not
    remembered.
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
    """Return plain data as bytes, which are the same for equal data built in the same way."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def once_per_value(function: Callable[P, R]) -> Callable[P, R]:
    """Memoize a pure function of plain data by its arguments' values: see `once_per`."""

    def content(*args: P.args, **kwargs: P.kwargs) -> bytes:
        return plain((args, sorted(kwargs.items())))

    return once_per(content)(function)


def once_per_object(function: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Memoize a pure function by the identity of its first argument, as long as that lives.

    The other arguments are compared by value. Results are shared and must not be changed, nor refer to the
    first argument, which would then live for ever.
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
