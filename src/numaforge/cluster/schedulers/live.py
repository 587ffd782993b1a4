"""Live objects compared with plans: the differences, and their writers."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numaforge.lib.cpulist import parse_cpulist
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.quantity import parse_quantity

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
        live_object = f"{self.kind} {self.name}"
        if not self.path:
            return f"{live_object} is missing"
        by = f" (written by {self.writer})" if self.writer else ""
        if self.found is None:
            return f"{live_object}: {self.path} is missing, and planned {_shown(self.planned)}{by}"
        if self.planned is None:
            return f"{live_object}: {self.path} is {_shown(self.found)}, which no plan has{by}"
        return f"{live_object}: {self.path} is {_shown(self.found)}, and planned {_shown(self.planned)}{by}"


def deviations(planned: Document, live: Document | None) -> Iterator[Deviation]:
    """Yield how a live object differs from what is planned; fields beyond that are ignored."""
    kind, name = planned["kind"], planned["metadata"]["name"]
    if live is None:
        yield Deviation(kind, name, "", planned, None)
        return
    planned_fields = {
        key: value for key, value in planned.items() if key not in ("apiVersion", "kind", "metadata")
    }
    metadata = {key: planned["metadata"][key] for key in _OF_METADATA if planned["metadata"].get(key)}
    unlike = [
        *_unlike(("metadata",), metadata, live.get("metadata") or {}),
        *_unlike((), planned_fields, live),
    ]
    for path, planned_value, live_value in unlike:
        yield Deviation(kind, name, _dotted(path), planned_value, live_value, writer_of(live, path))


_Step = str | tuple[str, str]
_Path = tuple[_Step, ...]
_Unlike = tuple[_Path, object, object]


def _unlike(path: _Path, planned: object, live: object) -> Iterator[_Unlike]:
    if isinstance(planned, Mapping):
        if planned and not isinstance(live, Mapping):
            yield path, planned, live
            return
        for name, value in planned.items():
            yield from _unlike((*path, name), value, live.get(name) if isinstance(live, Mapping) else None)
    elif isinstance(planned, Sequence) and not isinstance(planned, str):
        yield from _unlike_lists(path, planned, live)
    elif not _same(path[-1], planned, live):
        yield path, planned, live


def _unlike_lists(path: _Path, planned: Sequence[Any], live: object) -> Iterator[_Unlike]:
    live_entries = list(live) if isinstance(live, Sequence) and not isinstance(live, str) else None
    key = next((key for key in _KEYS if planned and all(_has(entry, key) for entry in planned)), None)
    if live_entries is None or key is None:
        if list(planned) != live_entries:
            yield path, planned, live
        return
    live_by_key = {entry[key]: entry for entry in live_entries if _has(entry, key)}
    for entry in planned:
        yield from _unlike((*path, (key, entry[key])), entry, live_by_key.get(entry[key]))
    if path[-1] in _WHOLE:
        planned_keys = {entry[key] for entry in planned}
        for name, entry in live_by_key.items():
            if name not in planned_keys:
                yield (*path, (key, name)), None, entry


def _has(entry: object, key: str) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get(key), str)


def _same(name: _Step, planned: object, live: object) -> bool:
    if planned == live:
        return True
    if not isinstance(planned, str | int) or not isinstance(live, str | int):
        return False
    if isinstance(planned, str) and _CPULIST.fullmatch(planned):
        try:
            return set(parse_cpulist(planned)) == set(parse_cpulist(str(live)))
        except NumaforgeError:
            return False
    if isinstance(planned, str) and planned.startswith("{"):
        return _same_json(planned, str(live))
    try:
        amounts = parse_quantity(planned), parse_quantity(live)
    except NumaforgeError:
        return False
    return amounts[1] <= amounts[0] if name == _LESS_IS_IN_USE else amounts[0] == amounts[1]


def _same_json(planned: str, live: str) -> bool:
    try:
        return bool(json.loads(planned) == json.loads(live))
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
