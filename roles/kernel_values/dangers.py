"""Sysctls that a profile sets only with their risk acknowledged, and those that it never sets: dangers.json.

A sysctl that is not listed there is accepted. Sources: Documentation/admin-guide/sysctl,
Documentation/networking/ip-sysctl.rst, namespaces(7).
"""

import json
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple


class Danger(NamedTuple):
    """What makes a sysctl dangerous: `harmful` has the numbers that do; without any, every value does.

    `never`: not even with its risk acknowledged. "*" in a name is one part of it, such as an interface.
    """

    name: str
    why: str
    never: bool
    harmful: dict[str, Any]  # "is", "is not", "above", "below" by place, "fewer ports than"

    def harms(self, numbers: Sequence[int]) -> bool:
        """Whether these numbers do harm; ports are from the first to the last."""
        match self.harmful:
            case {"is": values}:
                return numbers[0] in values
            case {"is not": values}:
                return numbers[0] not in values
            case {"above": most}:
                return bool(numbers[0] > most)
            case {"below": least}:
                pairs = [(place, bound) for place, bound in enumerate(least) if bound is not None]
                return any(len(numbers) <= place or numbers[place] < bound for place, bound in pairs)
            case {"fewer ports than": ports}:  # a busy node has more connections
                return len(numbers) != 2 or bool(numbers[1] - numbers[0] < ports)
        return True


DANGERS = tuple(
    Danger(row.pop("name"), row.pop("why"), row.pop("never", False), row)
    for row in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
)


def danger(name: str, value: str) -> Danger | None:
    """Return the danger of a sysctl's value, None where none is known.

    A non-decimal value is dangerous where numbers may be: the kernel may read it as any number.
    """
    numbers = [int(word) for word in value.split() if re.fullmatch(r"-?(0|[1-9][0-9]{0,18})", word)]
    all_numeric = bool(numbers) and len(numbers) == len(value.split())
    for known_danger in DANGERS:
        if _names(known_danger.name, name) and (not all_numeric or known_danger.harms(numbers)):
            return known_danger
    return None


def _names(pattern: str, name: str) -> bool:
    """Whether a pattern covers a name, "-" equal to "_"; a name with "*" stands for all that it matches."""
    patterns, parts = pattern.split("."), name.replace("-", "_").split(".")
    return len(patterns) == len(parts) and all(
        fnmatchcase(part, named_part) or ("*" in part and fnmatchcase(named_part, part))
        for named_part, part in zip(patterns, parts, strict=True)
    )
