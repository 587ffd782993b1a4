"""Live objects compared with plans: what differs, and who has written it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numaforge.cpulist import parse_cpulist
from numaforge.errors import NumaforgeError
from numaforge.quantity import parse_quantity

Document = Mapping[str, Any]
_OF_METADATA = ("labels", "annotations")
_WHOLE = ("zones", "costs", "members", "levels", "tasks")
"""Lists that may hold only what plans have; other lists may hold more."""
_LESS_IS_IN_USE = "available"
_KEYS = ("name", "nodeLabel", "key")
"""The keys that identify the entries of a list."""
_CPULIST = re.compile(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)+|[0-9]+-[0-9]+")
_UNKNOWN = "an unknown writer"
_LONGEST = 60


@dataclass(frozen=True)
class Deviation:
    """A field of a live object that is not as planned: None where it is missing on one side.

    `writer` is the field manager that wrote it last, by the API server's record; "" where the
    object itself is missing.
    """

    kind: str
    name: str
    path: str
    planned: object
    found: object
    writer: str = ""

    def __str__(self) -> str:
        place = f"{self.kind} {self.name}"
        if not self.path:
            return f"{place} is missing"
        by = f" (written by {self.writer})" if self.writer else ""
        if self.found is None:
            return f"{place}: {self.path} is missing, and planned {_shown(self.planned)}{by}"
        if self.planned is None:
            return f"{place}: {self.path} is {_shown(self.found)}, which no plan has{by}"
        return f"{place}: {self.path} is {_shown(self.found)}, and planned {_shown(self.planned)}{by}"


def deviations(planned: Document, live: Document | None) -> Iterator[Deviation]:
    """Yield how a live object differs from what is planned; fields beyond that are ignored."""
    kind, name = planned["kind"], planned["metadata"]["name"]
    if live is None:
        yield Deviation(kind, name, "", planned, None)
        return
    wanted = {key: value for key, value in planned.items() if key not in ("apiVersion", "kind", "metadata")}
    metadata = {key: planned["metadata"][key] for key in _OF_METADATA if planned["metadata"].get(key)}
    found = [
        *_unlike(("metadata",), metadata, live.get("metadata") or {}),
        *_unlike((), wanted, live),
    ]
    for path, ours, theirs in found:
        yield Deviation(kind, name, _dotted(path), ours, theirs, writer_of(live, path))


_Step = str | tuple[str, str]
_Path = tuple[_Step, ...]
_Unlike = tuple[_Path, object, object]


def _unlike(path: _Path, planned: object, found: object) -> Iterator[_Unlike]:
    if isinstance(planned, Mapping):
        if planned and not isinstance(found, Mapping):
            yield path, planned, found
            return
        for name, value in planned.items():
            yield from _unlike((*path, name), value, found.get(name) if isinstance(found, Mapping) else None)
    elif isinstance(planned, Sequence) and not isinstance(planned, str):
        yield from _unlike_lists(path, planned, found)
    elif not _same(path[-1], planned, found):
        yield path, planned, found


def _unlike_lists(path: _Path, planned: Sequence[Any], found: object) -> Iterator[_Unlike]:
    theirs = list(found) if isinstance(found, Sequence) and not isinstance(found, str) else None
    key = next((key for key in _KEYS if planned and all(_has(each, key) for each in planned)), None)
    if theirs is None or key is None:
        if list(planned) != theirs:
            yield path, planned, found
        return
    named = {each[key]: each for each in theirs if _has(each, key)}
    for each in planned:
        yield from _unlike((*path, (key, each[key])), each, named.get(each[key]))
    if path[-1] in _WHOLE:
        ours = {each[key] for each in planned}
        for name, each in named.items():
            if name not in ours:
                yield (*path, (key, name)), None, each


def _has(entry: object, key: str) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get(key), str)


def _same(name: _Step, planned: object, found: object) -> bool:
    if planned == found:
        return True
    if not isinstance(planned, str | int) or not isinstance(found, str | int):
        return False
    if isinstance(planned, str) and _CPULIST.fullmatch(planned):
        try:
            return set(parse_cpulist(planned)) == set(parse_cpulist(str(found)))
        except NumaforgeError:
            return False
    if isinstance(planned, str) and planned.startswith("{"):
        return _same_json(planned, str(found))
    try:
        amounts = parse_quantity(planned), parse_quantity(found)
    except NumaforgeError:
        return False
    return amounts[1] <= amounts[0] if name == _LESS_IS_IN_USE else amounts[0] == amounts[1]


def _same_json(planned: str, found: str) -> bool:
    try:
        return bool(json.loads(planned) == json.loads(found))
    except ValueError:
        return False


def _dotted(path: _Path) -> str:
    steps = (f"[{step[1]}]" if isinstance(step, tuple) else f".{step}" for step in path)
    return "".join(steps).lstrip(".")


def writer_of(live: Document, path: _Path) -> str:
    """Return the last writer of a field: its owner, or that of the nearest field above it."""
    entries = (live.get("metadata") or {}).get("managedFields") or ()
    owned = [
        (_depth(entry.get("fieldsV1") or {}, path), str(entry.get("time", "")), str(entry.get("manager")))
        for entry in entries
        if isinstance(entry, Mapping)
    ]
    deepest = max(owned, default=(0, "", _UNKNOWN))
    return deepest[2] if deepest[0] else _UNKNOWN


def _depth(fields: Mapping[str, Any], path: _Path) -> int:
    """Return how many steps of a path a writer's fields name."""
    depth = 0
    for step in path:
        key = f"f:{step}" if isinstance(step, str) else f"k:{json.dumps(dict([step]), separators=(',', ':'))}"
        below = fields.get(key)
        if not isinstance(below, Mapping):
            break
        fields, depth = below, depth + 1
    return depth


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
