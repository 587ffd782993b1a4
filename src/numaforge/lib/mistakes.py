"""pydantic's errors as sentences: one wording for all input of admins and programs."""

from collections.abc import Mapping
from typing import Any

_LONGEST_VALUE = 80

_TRUTHS = "YAML reads on, off, yes and no as true and false: "
_KINDS = {
    "int_type": "is not a whole number",
    "int_parsing": "is not a whole number",
    "int_from_float": "is not a whole number",
    "float_type": "is not a number",
    "bool_type": "is neither true nor false",
    "bool_parsing": "is neither true nor false",
    "string_type": "is not a text",
    "model_type": "is not a mapping",
    "model_attributes_type": "is not a mapping",
    "dataclass_type": "is not a mapping",
    "dict_type": "is not a mapping",
    "mapping_type": "is not a mapping",
    "tuple_type": "is not a list",
}


def path_of(detail: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Return the path to a mistake: names of keys and indices of lists, from the outside in."""
    return tuple(part for part in detail["loc"] if part != "[key]")


def dotted(path: tuple[str | int, ...]) -> str:
    """Return a path as text: `hugepages[0].size`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def sentence(detail: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, and what would be accepted, for one of pydantic's error details."""
    value = shown(detail["input"])
    quoted = f"{_TRUTHS if isinstance(detail['input'], bool) else ''}write it in quotes"
    if detail["type"] == "string_type" and isinstance(detail["input"], bool):
        return f"{value} is not a text; {quoted}"
    if kind := _KINDS.get(detail["type"]):
        return f"{value} {kind}"
    match detail["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            return "unknown key"
        case "missing":
            return "must be given"
        case "literal_error":
            return f"{value} is not accepted; write {detail['ctx']['expected']}"
        case "value_error":
            return str(detail["ctx"]["error"])
        case "greater_than_equal":
            return f"{value} is too small; write {detail['ctx']['ge']} or more"
        case "invalid_key":
            return f"{value} is not a key; {quoted}"
        case "json_invalid":
            return f"not JSON: {detail['ctx']['error']}"
        case _:
            return f"{value} is not accepted: {detail['msg']}"


def yaml_scalar(value: object) -> str:
    """Return a value as YAML writes a scalar: `true`, `0.5`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def shown(value: object) -> str:
    """Return a value as an error shows it: as Python writes it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
