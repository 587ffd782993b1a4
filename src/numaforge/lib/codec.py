"""Documents: frozen dataclasses as JSON data and back, checked on the way in, and their JSON Schemas.

pydantic does the work. It is imported only where a document is read or written, so that programs which only
need the dataclasses do not wait for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

from numaforge.lib.cpulist import CPULIST_PATTERN, format_cpulist, parse_cpulist
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import NotJsonError, parse_json
from numaforge.lib.mistakes import dotted, path_of, sentence

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import CoreSchema

Held = TypeVar("Held")


class KnownKeysOnly:
    """A dataclass whose readers reject unknown keys."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (as pydantic has it)


@dataclass(frozen=True)
class DocumentKind(Generic[Held]):
    """One kind of document: name, schema's number, dataclass; a bad one is refused with `error`, `remedy`."""

    name: str
    number: int
    holds: type[Held]
    error: type[NumaforgeError]
    remedy: str

    def prepare(self) -> None:
        """Build the reader and writer of these documents now, before the first document needs them."""
        _ = self._adapter

    def encode(self, value: Held) -> dict[str, Any]:
        """Return the document as JSON data: the schema's number, then the fields in their order."""
        body = self._adapter.dump_python(value, mode="json", warnings="error")
        return {"schema": self.number, **body}

    def decode(self, document: object) -> Held:
        """Return a document's content, which may have a `$schema`; raises `error` for the first mistake."""
        from pydantic import ValidationError

        if not isinstance(document, dict):
            raise self._refusal(f"a {self.name} is a JSON object")
        number = document.get("schema")
        if type(number) is int and number > self.number:
            raise newer(self.error, self.name, number, self.number)
        if type(number) is not int or number != self.number:
            raise self._refusal(f"the {self.name} has schema {number!r}, not {self.number}")
        body = {name: value for name, value in document.items() if name not in ("$schema", "schema")}
        try:
            return self._adapter.validate_json(json.dumps(body), strict=True)
        except ValidationError as invalid:
            detail = invalid.errors(include_url=False)[0]
            raise self._refusal(sentence(detail), dotted(path_of(detail))) from invalid

    def dumps(self, value: Held) -> str:
        """Return the document as text, which ends in a newline."""
        return json.dumps(self.encode(value), indent=2, ensure_ascii=False) + "\n"

    def loads(self, text: str) -> Held:
        """Return what the document in a text holds; raises `error` for text that is no such document."""
        try:
            document = parse_json(text)
        except NotJsonError as error:
            raise self._refusal(f"not JSON: {error}") from error
        return self.decode(document)

    def json_schema(self, generator: type[GenerateJsonSchema]) -> dict[str, Any]:
        """Return the JSON Schema of these documents, as their reader accepts them."""
        body = self._adapter.json_schema(schema_generator=generator)
        head = {
            "$schema": {"type": "string", "description": "Where an editor finds the schema; not read."},
            "schema": {"const": self.number, "description": "The form of the document."},
        }
        return {
            **body,
            "properties": {**head, **body["properties"]},
            "required": ["schema", *body["required"]],
        }

    @cached_property
    def _adapter(self) -> TypeAdapter[Held]:
        from pydantic import TypeAdapter

        return TypeAdapter(self.holds)

    def _refusal(self, message: str, path: str = "") -> NumaforgeError:
        where = f"{self.name}.{path}" if path else self.name
        return self.error(message, where=where, remedy=self.remedy)


def newer(error: type[NumaforgeError], name: str, number: int, newest: int) -> NumaforgeError:
    """Return the refusal of a document that a newer release has written."""
    return error(
        f"a newer numaforge wrote this {name}: it has schema {number}, and {newest} is read here",
        where=name,
        remedy="upgrade numaforge, as it was installed: pip install --upgrade numaforge",
    )


class _Cpulist:
    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core.core_schema import (
            no_info_after_validator_function,
            plain_serializer_function_ser_schema,
            str_schema,
        )

        return no_info_after_validator_function(
            _cpus, str_schema(), serialization=plain_serializer_function_ser_schema(format_cpulist)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "format": "cpulist", "pattern": CPULIST_PATTERN}


class _GroupedByCpu:
    """A mapping by CPU, written with CPUs of equal value grouped: {"0-7": "performance"}."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core.core_schema import (
            dict_schema,
            no_info_after_validator_function,
            plain_serializer_function_ser_schema,
        )

        groups = dict_schema(handler.generate_schema(CpuSet), handler.generate_schema(str))
        return no_info_after_validator_function(
            lambda grouped: dict(sorted((cpu, word) for cpus, word in grouped.items() for cpu in cpus)),
            groups,
            serialization=plain_serializer_function_ser_schema(_grouped),
        )


class _SortedByName:
    """A mapping by name, written in the order of the names at every depth."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core.core_schema import wrap_serializer_function_ser_schema

        schema: Any = handler(source)
        in_order = wrap_serializer_function_ser_schema(
            lambda value, inner: _sorted(inner(value)), schema=schema
        )
        return {**schema, "serialization": in_order}


CpuSet = Annotated[frozenset[int], _Cpulist()]
ByCpu = Annotated[Mapping[int, str], _GroupedByCpu()]
ByName = Annotated[Mapping[str, Held], _SortedByName()]


def _cpus(text: str) -> frozenset[int]:
    try:
        return parse_cpulist(text)
    except NumaforgeError as error:
        raise ValueError(error.message) from error


def _grouped(values: Mapping[int, str]) -> dict[str, str]:
    cpus: dict[str, list[int]] = {}
    for cpu, value in sorted(values.items()):
        cpus.setdefault(value, []).append(cpu)
    return {format_cpulist(members): value for value, members in cpus.items()}


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
