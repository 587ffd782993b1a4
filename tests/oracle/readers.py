"""Our readers of scalars and YAML, in the form in which the oracle prints what Go's made of a text."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from numaforge.kubelet_minors.values.cpusets import atoi, parse_cpuset
from numaforge.kubelet_minors.values.durations import parse_duration
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.values.goyaml import YamlError, read
from numaforge.kubelet_minors.values.numbers import parse_bool, parse_float32, parse_int
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.quantity import Quantity


def _is_beyond(quantity: Quantity) -> bool:
    """Say whether thousandths do not fit an int64, which Kubernetes does not look after."""
    return abs(quantity.amount) * 1000 >= 2**63


def _quantity(text: str) -> str:
    quantity = Quantity.parse(text)
    if _is_beyond(quantity):
        return str(quantity)
    whole = quantity.as_int64()
    is_whole = str(whole is not None).lower()
    return f"{quantity} {quantity.ceiling()} {quantity.milli_ceiling()} {whole or 0} {is_whole}"


def _strict(text: str) -> Any:
    document = read(text)
    if document.strict_error:
        raise YamlError(document.strict_error, None)
    return document.data


READERS: Mapping[str, Callable[[str], Any]] = {
    "quantity": _quantity,
    "duration": lambda text: str(parse_duration(text)),
    "cpuset": lambda text: format_cpulist(parse_cpuset(text)),
    "integer": lambda text: str(parse_int(text)),
    "decimal": lambda text: str(atoi(text)),
    "float": parse_float32,
    "boolean": lambda text: str(parse_bool(text)).lower(),
    "quote": quoted,
    "yaml": lambda text: read(text).data,
    "strict yaml": _strict,
}


def value(reader: str, text: str) -> tuple[Any, str]:
    """Return what we make of a text, or the error with which we refuse it."""
    try:
        return READERS[reader](text), ""
    except ValueError as error:
        return None, str(error)


def gos(reader: str, answer: Mapping[str, str]) -> tuple[Any, str]:
    """Return what Go made of a text, in our form."""
    if answer["error"]:
        return None, answer["error"]
    said = answer["value"]
    if reader in ("yaml", "strict yaml"):
        return json.loads(said), ""
    if reader == "quantity" and _is_beyond(Quantity.parse(said.split()[0])):
        return said.split()[0], ""
    if reader == "float":
        return float(said), ""
    return said, ""


def same(answer: tuple[Any, str], ours: tuple[Any, str]) -> bool:
    """Say whether both made the same of a text; no number is like another."""
    return answer == ours or repr(answer) == repr(ours)
