"""Mappings that an admin writes: checked where they enter, with every mistake naming its field."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import combinations
from types import UnionType
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.mistakes import dotted, path_of, sentence


class Section(BaseModel):
    """A mapping of settings: unknown keys are refused, values do not change once read."""

    # A profile's validator has those of its sections: the sections' own are made when one is asked for.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def unset(cls) -> Self:
        """Return the section with its defaults; no validator is built for that."""
        return cls.model_construct()


class Removable(Section):
    """A section that a profile can drop as a whole, also where it `extends` one that has it."""

    state: Literal["absent"] | None = Field(
        default=None,
        description="`absent` drops this section of the profile that this one `extends`, and puts back what "
        "earlier runs changed for it. No other key may be set beside it.",
        examples=["absent"],
    )

    @model_validator(mode="after")
    def _absent_stands_alone(self) -> Self:
        other_fields = sorted(self.model_fields_set - {"state"})
        if self.state == "absent" and other_fields:
            raise ValueError(f"state: absent excludes {', '.join(other_fields)}")
        return self


_MOST_PLACES = 3  # that an unknown key may belong to: names such as `devices` are in many sections

Model = TypeVar("Model", bound=Section)
Name = TypeVar("Name", bound=str)


def each_once(names: tuple[Name, ...]) -> tuple[Name, ...]:
    """Refuse a name that a list has twice; pydantic adds the place."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"names {', '.join(twice)} twice; name each once")
    return names


def off_is_no_boolean(value: object) -> object:
    """Return "off" for the false that YAML 1.1 reads from an unquoted `off`, else the value itself."""
    return "off" if value is False else value


def exactly_one_of(*keys: str) -> dict[str, Any]:
    """Return the schema of a section in which exactly one of the keys is given."""
    return {"oneOf": [given(key) for key in keys]}


def at_most_one_of(*keys: str) -> dict[str, Any]:
    """Return the schema of a section in which at most one of the keys is given."""
    return {
        "not": {"anyOf": [{"allOf": [given(one), given(second)]} for one, second in combinations(keys, 2)]}
    }


def given(key: str, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of a section with a key; null counts as left out."""
    return {"required": [key], "properties": {key: more or {"not": {"type": "null"}}}}


def validated(
    model: type[Model],
    document: Mapping[str, Any],
    file: str,
    *,
    also_known: tuple[str, ...] = (),
    error: type[NumaforgeError] = NumaforgeError,
) -> Model:
    """Return a mapping as its model; raises `error` with every mistake. `also_known`: read elsewhere."""
    try:
        return model.model_validate(document)
    except ValidationError as invalid:
        mistakes = []
        for detail in invalid.errors():
            path = path_of(detail)
            extra = detail["type"] == "extra_forbidden"
            advice = f"; {_known_keys(path, model, also_known)}" if extra else ""
            mistakes.append((dotted(path), f"{sentence(detail)}{advice}"))
    if len(mistakes) == 1:
        field, message = mistakes[0]
        raise error(message, where=f"{file}: {field}" if field else file)
    lines = "".join(f"\n  {field}{': ' if field else ''}{message}" for field, message in mistakes)
    raise error(f"{len(mistakes)} mistakes:{lines}", where=file)


def _known_keys(path: tuple[str | int, ...], model: type[Section], also_known: tuple[str, ...]) -> str:
    *above, key = path
    known_keys = (*(() if above else also_known), *_fields(_section_at(above, model)))
    nearest = get_close_matches(str(key), known_keys, n=1)
    if nearest:
        return f"did you mean {nearest[0]}?"
    elsewhere = dict.fromkeys(dotted(place) for place in _places(str(key), model))
    if 0 < len(elsewhere) <= _MOST_PLACES:
        return f"it belongs to {' or '.join(elsewhere)}"
    return f"known here: {', '.join(known_keys)}"


def _places(key: str, section: type[Section], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in _fields(section).items():
        if name == key and above:
            yield above
        for inner in dict.fromkeys(_sections_in(field.annotation)):
            yield from _places(key, inner, (*above, name))


def _section_at(path: Sequence[str | int], section: type[Section]) -> type[Section]:
    for part in path:
        if isinstance(part, str) and (field := _fields(section).get(part)):
            section = next(_sections_in(field.annotation), section)
    return section


def _fields(section: type[Section]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in section.model_fields.items()}


def _sections_in(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    elif get_origin(annotation) in (Union, UnionType, tuple, dict, Annotated):
        for argument in get_args(annotation):
            yield from _sections_in(argument)
