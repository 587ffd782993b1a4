"""The plan as a JSON document, schema 1: the same bytes for the same plan, nothing lost on the way back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from numaforge import __version__
from numaforge.cpulist import format_cpulist, parse_cpulist
from numaforge.errors import NumaforgeError, PlanError
from numaforge.planning.model import NodePlan
from numaforge.topology.model import CpuSet

SCHEMA = 1

_REMEDY = "plan the host again with this version of numaforge"


def to_document(plan: NodePlan) -> dict[str, Any]:
    """Return the plan as JSON data: sets as cpulists, mappings by CPU with CPUs of one value grouped."""
    head = {"schema": SCHEMA, "written_by": f"numaforge {__version__}"}
    return {**head, **_encode(NodePlan, plan)}


def from_document(document: object) -> NodePlan:
    """Return the plan that a document describes.

    Raises PlanError for another schema and for a field that is missing, unknown or of the wrong kind.
    """
    if not isinstance(document, dict):
        raise PlanError("a plan is a JSON object", where="plan", remedy=_REMEDY)
    if document.get("schema") != SCHEMA:
        raise PlanError(
            f"the plan has schema {document.get('schema')!r}, not {SCHEMA}", where="plan", remedy=_REMEDY
        )
    body = {name: value for name, value in document.items() if name not in ("schema", "written_by")}
    plan = _decode(NodePlan, body, "plan")
    assert isinstance(plan, NodePlan)  # noqa: S101 - for the type checker: _decode built it
    return plan


def dumps(plan: NodePlan) -> str:
    """Return the plan as text, which ends in a newline."""
    return json.dumps(to_document(plan), indent=2, ensure_ascii=False) + "\n"


def loads(text: str) -> NodePlan:
    """Return the plan in a text; raises PlanError for text that is not a plan of this schema."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise PlanError(f"the plan is not JSON: {error}", where="plan", remedy=_REMEDY) from error
    return from_document(document)


def _encode(kind: Any, value: Any) -> Any:
    if value is None:
        return None
    kind = _without_none(kind)
    if kind == CpuSet:
        return format_cpulist(value)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return {field.name: _encode(hints[field.name], getattr(value, field.name)) for field in fields(kind)}
    if get_origin(kind) is tuple:
        return [_encode(get_args(kind)[0], item) for item in value]
    if get_origin(kind) is Mapping:
        return _encode_mapping(kind, value)
    return value


def _encode_mapping(kind: Any, value: Mapping[Any, Any]) -> Any:
    keys, values = get_args(kind)
    if keys is int:
        cpus: dict[str, set[int]] = {}
        for cpu, text in value.items():
            cpus.setdefault(text, set()).add(cpu)
        grouped = sorted((min(members), format_cpulist(members), text) for text, members in cpus.items())
        return {cpulist: text for _, cpulist, text in grouped}
    if values is Any:
        return _sorted_json(value)
    return {key: _encode(values, value[key]) for key in sorted(value)}


def _sorted_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted_json(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_sorted_json(item) for item in value]
    return value


def _decode(kind: Any, value: Any, place: str) -> Any:
    if value is None and NoneType in get_args(kind):
        return None
    kind = _without_none(kind)
    if kind == CpuSet:
        return _decode_cpulist(value, place)
    if is_dataclass(kind) and isinstance(kind, type):
        return _decode_dataclass(kind, value, place)
    if get_origin(kind) is tuple:
        items = _expect(list, value, place)
        return tuple(
            _decode(get_args(kind)[0], item, f"{place}[{index}]") for index, item in enumerate(items)
        )
    if get_origin(kind) is Mapping:
        return _decode_mapping(kind, _expect(dict, value, place), place)
    return _expect(kind, value, place)


def _decode_dataclass(kind: type[Any], value: Any, place: str) -> Any:
    entries = _expect(dict, value, place)
    hints = get_type_hints(kind)
    members = {field.name: field for field in fields(kind)}
    for name in entries:
        if name not in members:
            raise PlanError("unknown field", where=f"{place}.{name}", remedy=_REMEDY)
    for name, member in members.items():
        if name not in entries and _is_required(member):
            raise PlanError("the field is missing", where=f"{place}.{name}", remedy=_REMEDY)
    return kind(
        **{
            name: _decode(hints[name], entries[name], f"{place}.{name}")
            for name in members
            if name in entries
        }
    )


def _decode_mapping(kind: Any, entries: dict[str, Any], place: str) -> Any:
    keys, values = get_args(kind)
    if keys is int:
        by_cpu = {
            cpu: _decode(values, text, f"{place}.{cpulist}")
            for cpulist, text in entries.items()
            for cpu in _decode_cpulist(cpulist, place)
        }
        return dict(sorted(by_cpu.items()))
    if values is Any:
        return entries
    return {key: _decode(values, value, f"{place}.{key}") for key, value in entries.items()}


def _decode_cpulist(value: Any, place: str) -> CpuSet:
    try:
        return parse_cpulist(_expect(str, value, place))
    except NumaforgeError as error:
        raise PlanError(error.message, where=place, remedy=_REMEDY) from error


def _expect(kind: Any, value: Any, place: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise PlanError(f"{value!r} is not {_NAMES[kind]}", where=place, remedy=_REMEDY)
    return value


_NAMES = {int: "a whole number", str: "a text", bool: "true or false", list: "a list", dict: "an object"}


def _is_required(member: Field[Any]) -> bool:
    return member.default is MISSING and member.default_factory is MISSING


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        return next(argument for argument in get_args(kind) if argument is not NoneType)
    return kind
