"""Natural order of names, and grouping."""

import re
from collections.abc import Collection, Iterable
from decimal import Decimal
from itertools import chain, count, cycle
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that puts mlx5_2 before mlx5_10, and gpu-2 before gpu-10."""
    # int() alone refuses thousands of digits.
    return [
        (int(Decimal(part)), "") if number else (-1, part)
        for part, number in zip(re.split(r"([0-9]+)", name), cycle((False, True)), strict=False)
    ]


def first_of(names: Iterable[str], most: int = 3, joint: str = ", ") -> str:
    """Return the first names of a list, and the number of others: `a, b, c and 4 more`."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return joint.join(listed[:most]) + more


def unlike(name: str, names_taken: Collection[str]) -> str:
    """Return a name that is not taken: `a`, else `a (2)`, `a (3)` and so on."""
    names = chain([name], (f"{name} ({number})" for number in count(2)))
    return next(candidate for candidate in names if candidate not in names_taken)


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Return the values of each key, both in order of appearance."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
