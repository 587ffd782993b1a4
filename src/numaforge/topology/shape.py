"""The shape of a machine: what machines of its kind have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, cast, get_args, get_origin, get_type_hints

from numaforge.topology.model import MachineShape

_Narrow = Callable[[Any], Any]


def shape_of(machine: MachineShape) -> MachineShape:
    """Return the machine without its state; equal for all machines of a kind."""
    return cast(MachineShape, _narrowing(MachineShape)(machine))


@cache
def _narrowing(hint: Any) -> _Narrow:
    """Return a function that narrows a subclass's value to this type; `_as_it_is` where nothing narrows."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _narrowing_fields(cast(type, hint))
    if origin is Collection:
        return tuple
    if origin is tuple and (inner := _narrowing(arguments[0])) is not _as_it_is:
        return lambda values: tuple(map(inner, values))
    if origin is Mapping and (inner := _narrowing(arguments[1])) is not _as_it_is:
        return lambda values: {key: inner(value) for key, value in values.items()}
    if NoneType in arguments and (inner := _narrowing(arguments[0])) is not _as_it_is:
        return lambda value: None if value is None else inner(value)
    return _as_it_is


def _narrowing_fields(kind: type[Any]) -> _Narrow:
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind)]
    narrowed = {name: inner for name in names if (inner := _narrowing(hints[name])) is not _as_it_is}
    if not narrowed and not kind.__subclasses__():
        return _as_it_is
    same = [name for name in names if name not in narrowed]

    def narrow(value: Any) -> Any:
        return kind(
            **{name: getattr(value, name) for name in same},
            **{name: inner(getattr(value, name)) for name, inner in narrowed.items()},
        )

    return narrow


def _as_it_is(value: Any) -> Any:
    return value
