"""What a pure function returned for equal arguments, or for one object, is returned again."""

from __future__ import annotations

import weakref

import pytest

from numaforge import memoize
from numaforge.errors import NumaforgeError
from numaforge.memoize import once_per_object, once_per_value


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), ("1", 1), ((), []), ({"a": None}, {})],
    ids=["a-number-and-a-truth", "a-number-and-a-fraction", "a-text", "a-list", "nothing-and-not-there"],
)
def test_arguments_that_only_look_alike_are_told_apart(one, other):
    told = once_per_value(lambda value: repr(value))
    assert (told(one), told(other)) == (repr(one), repr(other))


def test_an_error_is_raised_for_each_machine():
    @once_per_value
    def refuse(value):
        raise NumaforgeError(f"no {value}")

    for _ in range(2):
        with pytest.raises(NumaforgeError, match="no 1"):
            refuse(1)


def test_what_is_remembered_has_a_limit():
    calls = []
    counted = once_per_value(calls.append)
    for number in range(memoize._KEPT + 1):
        counted(number)
    counted(memoize._KEPT)
    assert len(calls) == memoize._KEPT + 1
    counted(0)
    assert len(calls) == memoize._KEPT + 2


class _Thing:
    """Something that lives as long as a test holds it."""


def test_what_is_remembered_for_an_object_ends_with_it():
    asked: list[str] = []

    @once_per_object
    def answer(_thing, word, *, loud=False):
        asked.append(word)
        return word.upper() if loud else word

    first = _Thing()
    assert [answer(first, "a"), answer(first, "a"), answer(first, "a", loud=True)] == ["a", "a", "A"]
    assert answer(_Thing(), "a") == "a"
    assert asked == ["a", "a", "a"]
    gone = weakref.ref(first)
    del first
    assert gone() is None
