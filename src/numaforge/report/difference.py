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


def _differences(path: str, first: object, right: object, names_of_host: bool) -> Iterator[Unlike]:
    if first == right:
        return
    if isinstance(first, Mapping) and isinstance(right, Mapping):
        for name in {**first, **right}:
            if names_of_host or name not in _OF_ONE_HOST:
                first_items, second_items = first.get(name, _ABSENT), right.get(name, _ABSENT)
                yield from _differences(
                    f"{path}.{name}" if path else str(name), first_items, second_items, names_of_host
                )
    elif isinstance(first, list) and isinstance(right, list) and _has_entries(first + right):
        first_items, second_items = _by_key(first, right)
        for key in {**first_items, **second_items}:
            one, second = first_items.get(key, _ABSENT), second_items.get(key, _ABSENT)
            yield from _differences(f"{path}[{key}]", one, second, names_of_host)
    else:
        yield Unlike(path, *(None if side is _ABSENT else side for side in (first, right)))


def _has_entries(values: Sequence[object]) -> bool:
    return any(isinstance(value, dict | list) for value in values)


def _by_key(*lists: Any) -> list[dict[object, Any]]:
    for key in _KEYS:
        keyed = [_keyed(entries, key) for entries in lists]
        if None not in keyed:
            return [entries for entries in keyed if entries is not None]
    return [dict(enumerate(entries)) for entries in lists]


def _keyed(entries: Sequence[object], key: str) -> dict[object, Any] | None:
    by_key: dict[object, Any] = {}
    for entry in entries:
        value = entry.get(key) if isinstance(entry, Mapping) else None
        if not isinstance(value, str | int) or value in by_key:
            return None
        by_key[value] = entry
    return by_key
