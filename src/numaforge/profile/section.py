"""Mappings that an admin writes: checked where they enter, with every mistake naming its field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from numaforge.errors import NumaforgeError


class Section(BaseModel):
    """A mapping of settings: unknown keys are refused, values do not change once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


Model = TypeVar("Model", bound=Section)


def validated(
    model: type[Model],
    document: Mapping[str, Any],
    place: str,
    *,
    also_known: tuple[str, ...] = (),
    error: type[NumaforgeError] = NumaforgeError,
) -> Model:
    """Return a mapping as its model.

    `place` says where it was written, `also_known` are keys that somebody else reads. Raises `error` with
    every mistake.
    """
    try:
        return model.model_validate(document)
    except ValidationError as invalid:
        mistakes = [_mistake(detail, model, also_known) for detail in invalid.errors()]
    if len(mistakes) == 1:
        field, message = mistakes[0]
        raise error(message, where=f"{place}: {field}" if field else place)
    lines = "".join(f"\n  {field}: {message}" if field else f"\n  {message}" for field, message in mistakes)
    raise error(f"{len(mistakes)} mistakes:{lines}", where=place)


def _mistake(detail: Mapping[str, Any], model: type[Section], also_known: tuple[str, ...]) -> tuple[str, str]:
    """Return the field and the sentence for one of pydantic's error details."""
    location = tuple(part for part in detail["loc"] if part != "[key]")
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    value = detail["input"]
    match detail["type"]:
        case "extra_forbidden":
            return field, _unknown_key(location, model, also_known)
        case "literal_error":
            return field, f"{value!r} is not accepted; write {detail['ctx']['expected']}"
        case "value_error":
            return field, str(detail["ctx"]["error"])
        case "missing":
            return field, "must be given"
        case "int_type" | "int_parsing" | "int_from_float":
            return field, f"{value!r} is not a whole number"
        case "greater_than_equal":
            return field, f"{value!r} is too small; write {detail['ctx']['ge']} or more"
        case "bool_type" | "bool_parsing":
            return field, f"{value!r} is neither true nor false"
        case "model_type" | "model_attributes_type" | "dict_type":
            return field, f"{value!r} is not a mapping"
        case "tuple_type":
            return field, f"{value!r} is not a list"
        case "string_type":
            return field, f"{value!r} is not a text"
        case _:
            return field, f"{value!r} is not accepted: {detail['msg']}"


def _unknown_key(location: tuple[str | int, ...], model: type[Section], also_known: tuple[str, ...]) -> str:
    known = tuple(_section_at(location[:-1], model).model_fields)
    if location[:-1] == ():
        known = (*also_known, *known)
    nearest = get_close_matches(str(location[-1]), known, n=1)
    advice = f"did you mean {nearest[0]}?" if nearest else f"known here: {', '.join(known)}"
    return f"unknown key; {advice}"


def _section_at(location: tuple[str | int, ...], section: type[Section]) -> type[Section]:
    for part in location:
        if isinstance(part, str):
            section = next(_sections_in(section.model_fields[part].annotation), section)
    return section


def _sections_in(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    elif get_origin(annotation) in (Union, UnionType, tuple, Annotated):
        for argument in get_args(annotation):
            yield from _sections_in(argument)
