"""The differences between two documents by path, with entries for the same thing side by side."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

_KEYS = ("id", "pci_address", "path", "subject", "uuid", "name", "address", "number", "resource", "cpus")
"""Keys that identify the entries of a list: the first that all of them have, with unique values, is used."""

_OF_ONE_HOST = frozenset(
    {"hostname", "uuid", "serial", "boot_id", "machine_id", "node_guid", "port_guid", "guid", "gids", "pids"}
    | {"kernel.hostname", "kernel.random.boot_id", "previous_plan", "kernel_values_record", "processes"}
)
"""Keys that differ between any two hosts, or two captures of one."""

_ABSENT = object()


class Unlike(NamedTuple):
    """A value that differs: its path (`numa_nodes[1].memory_bytes`) and each side's, None where absent."""

    path: str
    left: Any
    right: Any


def differences(first: object, right: object, *, names_of_host: bool = False) -> list[Unlike]:
    """Compare two JSON documents, entries by their key, else by position; `names_of_host` adds a host's."""
    return list(_differences("", first, right, names_of_host))


def _differences(path: str, left: object, right: object, names_of_host: bool) -> Iterator[Unlike]:
    if left == right:
        return
    sides: list[Mapping[Any, Any]] | None = None
    inner = "{}[{}]"
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        hidden = frozenset[str]() if names_of_host else _OF_ONE_HOST
        sides = [{name: one[name] for name in one if name not in hidden} for one in (left, right)]
        inner = "{}.{}" if path else "{}{}"
    elif isinstance(left, list) and isinstance(right, list) and _has_entries(left + right):
        sides = _by_key(left, right)
    if sides is None:
        yield Unlike(path, *(None if side is _ABSENT else side for side in (left, right)))
        return
    left_side, right_side = sides
    for name in {**left_side, **right_side}:
        one, other = left_side.get(name, _ABSENT), right_side.get(name, _ABSENT)
        yield from _differences(inner.format(path, name), one, other, names_of_host)


def _has_entries(values: Sequence[object]) -> bool:
    return any(isinstance(value, dict | list) for value in values)


def _by_key(*lists: Any) -> list[Mapping[object, Any]]:
    """Return the entries of lists by the first key that tells them apart, else by position."""
    for key in _KEYS:
        values = [
            [one.get(key) if isinstance(one, Mapping) else None for one in entries] for entries in lists
        ]
        named = all(isinstance(value, str | int) for keys in values for value in keys)
        if named and all(len(set(keys)) == len(keys) for keys in values):
            return [dict(zip(keys, one, strict=True)) for keys, one in zip(values, lists, strict=True)]
    return [dict(enumerate(entries)) for entries in lists]
