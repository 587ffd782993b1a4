"""The fields of KubeletConfiguration kubelet.config.k8s.io/v1beta1 and their Go types, by minor.

Source: k8s.io/kubelet config/v1beta1/types.go, with the logging and tracing types of k8s.io/component-base.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from numaforge.kubelet_minors.tables import (
    ALIASES,
    FIELDS,
    LIBRARY_ALIASES,
    LIBRARY_FIELDS,
    first_minor,
    states_at,
)
from numaforge.kubelet_minors.values.durations import parse_duration, quoted_in_bytes
from numaforge.kubelet_minors.values.gojson import GoJsonError, Types, format_number, kind_of
from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.versions import KubeletVersion
from numaforge.lib.quantity import Quantity

API_VERSION = "kubelet.config.k8s.io/v1beta1"
KIND = "KubeletConfiguration"
ROOT_TYPE = "v1beta1.KubeletConfiguration"

_LAYOUT = "2006-01-02T15:04:05Z07:00"
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


@cache
def types_of(minor: int) -> Types:
    """Return the Go types into which a kubelet of this minor decodes its configuration."""
    structs: dict[str, dict[str, str]] = {ROOT_TYPE: {"apiVersion": "string", "kind": "string"}}
    for field_path, go_type in {**LIBRARY_FIELDS, **states_at(FIELDS, minor)}.items():
        struct, _, name = field_path.rpartition(".")
        structs.setdefault(struct, {})[name] = go_type
    return Types(
        structs=structs,
        aliases={**LIBRARY_ALIASES, **ALIASES},
        parsers=_PARSERS,
        read_null=_READ_NULL,
    )


def known_fields(version: KubeletVersion) -> Mapping[str, str]:
    """Return the top-level fields that this kubelet knows, with their Go types."""
    return types_of(version.rules_minor).structs[ROOT_TYPE]


def first_minor_of(name: str) -> int | None:
    """Return the first minor that knows a top-level field, None where no minor knows it."""
    history = FIELDS.get(f"{ROOT_TYPE}.{name}")
    return first_minor(history) if history else None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise GoJsonError(f"json: cannot unmarshal {kind_of(value)} into Go value of type string", ())
    return value


def _duration(value: Any) -> str:
    return str(parse_duration("" if value is None else _text(value)))


class WrittenAsNumber(str):
    """A duration written as a number of nanoseconds, which is how the kubelet prints it."""

    __slots__ = ()


def _flush_frequency(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return WrittenAsNumber(parse_duration(f"{value}ns"))
    if value is None or isinstance(value, str):
        return _duration(value)
    written = _as_written(value)
    kind = f"number {written}" if isinstance(value, float) else kind_of(value)
    raise ValueError(
        f"invalid duration {quoted(written)}: "
        f"json: cannot unmarshal {kind} into Go value of type time.Duration"
    )


def _as_written(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return format_number(value)
    try:
        return json.dumps(value, separators=(",", ":"))
    except RecursionError:
        return "[...]"


def _quantity(value: Any) -> str:
    if value is None:
        return "0"
    # Any value is parsed as text; a boolean or a list then fails as a quantity.
    text = value if isinstance(value, str) else _as_written(value)
    Quantity.parse(text.strip())
    return text.strip()


def _time(value: Any) -> str:
    text = _text(value)
    if not _RFC_3339.fullmatch(text):
        shown = quoted_in_bytes(text)
        raise ValueError(f'parsing time {shown} as "{_LAYOUT}": cannot parse {shown} as "2006"')
    return text


_PARSERS = {
    "metav1.Duration": _duration,
    "metav1.Time": _time,
    "v1.TimeOrMetaDuration": _flush_frequency,
    "resource.Quantity": _quantity,
    "resource.QuantityValue": _quantity,
}
# Duration.UnmarshalJSON reads null as empty text, an invalid duration; Quantity.UnmarshalJSON reads it as 0.
_READ_NULL = frozenset({"metav1.Duration", "resource.Quantity", "resource.QuantityValue"})
