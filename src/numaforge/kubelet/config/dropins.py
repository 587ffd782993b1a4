"""Merge drop-in files of --config-dir over a defaulted configuration.

Source: mergeKubeletConfigurations in cmd/kubelet/app/server.go. Up to 1.31 the base was the internal type,
which changes the effect of null and the error for a wrong type; 1.28 merged typed structures instead of JSON.
"""

import re
from collections.abc import Mapping
from math import inf, isinf
from typing import Any, NamedTuple

from numaforge.kubelet.config.decode import LoadError, decode_config, interpret, read_document
from numaforge.kubelet_minors.fields import (
    API_VERSION,
    KIND,
    ROOT_TYPE,
    WrittenAsNumber,
    known_fields,
    types_of,
)
from numaforge.kubelet_minors.tables import INTERNAL_NAMES
from numaforge.kubelet_minors.values.durations import parse_duration
from numaforge.kubelet_minors.values.gojson import (
    GoJsonError,
    Literal,
    Path,
    decode,
    format_number,
    plain_number,
)
from numaforge.kubelet_minors.values.goyaml import Document
from numaforge.kubelet_minors.versions import KubeletVersion

_EXTENSION = ".conf"

FIRST_MINOR_WITHOUT_ENVIRONMENT_VARIABLE = 30
_FIRST_MINOR_OF_JSON_MERGE = 29
FIRST_MINOR_OF_VERSIONED_BASE = 32

# Up to 1.31 a drop-in's field had to match the internal field's name; this one never does.
_UNMATCHED_INTERNAL_NAME = "resolvConf"
# Types of other packages keep their JSON names inside the internal type.
_TAGGED = frozenset({"logging", "tracing", "registerWithTaints"})
_FIELD = re.compile(r"into Go struct field (?P<struct>\w+)\.(?P<path>[\w.]+) of type")


class DropInError(ValueError):
    """The drop-ins cannot be merged; the message is the kubelet's, `file` the drop-in's name."""

    def __init__(self, message: str, file: str, path: Path = (), line: int | None = None) -> None:
        super().__init__(message)
        self.file = file
        self.path = path
        self.line = line


class Merged(NamedTuple):
    """Settings after all drop-ins, before defaults are filled in again.

    `origin` names the drop-in that last wrote a top-level field, `documents` each drop-in's data and lines.
    """

    settings: Mapping[str, Any]
    origin: Mapping[str, str]
    documents: Mapping[str, Document]
    skipped: tuple[str, ...]


def merge(
    base: Mapping[str, Any], drop_ins: Mapping[str, str], version: KubeletVersion, folder: str
) -> Merged:
    """Merge drop-ins (relative name -> text) over a defaulted base in the kubelet's order.

    Only `*.conf` is read. Raises DropInError with the message after `failed to merge kubelet configs: `.
    """
    minor = version.rules_minor
    merged: dict[str, Any] = (
        _omit_empty(_as_json(base), version) if minor >= FIRST_MINOR_OF_VERSIONED_BASE else dict(base)
    )
    origin: dict[str, str] = {}
    documents: dict[str, Document] = {}
    for name in sorted(drop_ins, key=lambda name: name.split("/")):
        if not name.endswith(_EXTENSION):
            continue
        document = _load(drop_ins[name], name, version, folder)
        documents[name] = document
        data = {key: value for key, value in document.data.items() if key not in ("apiVersion", "kind")}
        origin.update(dict.fromkeys(data, name))
        if minor < FIRST_MINOR_OF_VERSIONED_BASE:
            [data] = _without_nulls([_matched_to_internal(data, version)])
        if minor < _FIRST_MINOR_OF_JSON_MERGE:
            data = {key: value for key, value in data.items() if value not in (None, "", 0, False, [], {})}
        merged = _patched(merged, data)
    return Merged(
        _typed(merged, version, origin, documents),
        origin,
        documents,
        tuple(name for name in drop_ins if not name.endswith(_EXTENSION)),
    )


def _as_json(base: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a base as the kubelet writes it: a duration given as a number stays a number."""
    logging = base.get("logging") or {}
    flush = logging.get("flushFrequency")
    if not isinstance(flush, WrittenAsNumber):
        return base
    return {**base, "logging": {**logging, "flushFrequency": parse_duration(flush).nanoseconds}}


def _load(text: str, name: str, version: KubeletVersion, folder: str) -> Document:
    path = f"{folder}/{name}"
    prefix = f'failed to walk through kubelet dropin directory "{folder}": '
    if version.rules_minor < _FIRST_MINOR_OF_JSON_MERGE:
        return _load_typed(text, name, version, path, prefix)
    loading = f"{prefix}failed to load kubelet dropin file, path: {path}, "
    if not text:
        raise DropInError(f'{loading}error: kubelet config file "{path}" was empty', name)
    try:
        document = read_document(text)
        # Drop-ins are merged as JSON, where 110.0 is 110.
        document = document._replace(data=_with_plain_numbers(document.data))
        interpret(document)
    except LoadError as error:
        raise DropInError(f"{loading}error: {error}", name, line=error.line) from error
    # Unlike in the main file, these two names are case-sensitive.
    data = document.data or {}
    api_version, kind = data.get("apiVersion") or "", data.get("kind") or ""
    if not kind:
        raise DropInError(f"{loading}error: Object 'Kind' is missing in '{text}'", name)
    if document.strict_error:
        line = document.duplicates[0][1]
        raise DropInError(f"{loading}error: strict decoding error: {document.strict_error}", name, line=line)
    if version.rules_minor >= FIRST_MINOR_OF_VERSIONED_BASE:
        group, _, minor = api_version.rpartition("/")
        if (api_version, kind) != (API_VERSION, KIND):
            unknown = f"{loading}unknown apiVersion/kind: {group}/{minor}, Kind={kind}"
            raise DropInError(unknown, name, ("kind",))
    return document


def _with_plain_numbers(data: Any) -> Any:
    """Return JSON data as Go writes it after decoding it without a type. Raises LoadError."""
    holder = [data]
    waiting: list[Any] = [holder]
    while waiting:
        container = waiting.pop()
        for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if isinstance(value, dict | list):
                container[key] = value.copy()  # documents are shared
                waiting.append(container[key])
            elif isinstance(value, Literal) or (type(value) is int and not -(2**63) <= value < 2**63):
                container[key] = _plain_number(value)
    return holder[0]


def _plain_number(value: float) -> float:
    try:
        number = plain_number(value)
    except OverflowError:
        number = inf
    if isinf(number):
        text = f"json: cannot unmarshal number {format_number(value)} into Go value of type float64"
        raise LoadError(text, "NF004")
    return number


def _load_typed(text: str, name: str, version: KubeletVersion, path: str, prefix: str) -> Document:
    loading = (
        f"{prefix}failed to load kubelet dropin file, path: {path}, error: failed to load Kubelet config file"
    )
    if not text:
        raise DropInError(f'{loading} {path}, error kubelet config file "{path}" was empty', name)
    try:
        document = read_document(text)
        decode_config(text, version, document)
    except LoadError as error:
        raise DropInError(
            f"{loading} {path}, error {error.reported}", name, error.path, error.line
        ) from error
    return document


def _patched(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Apply a JSON merge patch (RFC 7396): null deletes, objects merge, everything else replaces."""
    merged = dict(base)
    waiting = [(merged, patch)]
    while waiting:
        target, changes = waiting.pop()
        for key, value in changes.items():
            if value is None:
                target.pop(key, None)
            elif isinstance(value, dict):
                current = target.get(key)
                target[key] = dict(current) if isinstance(current, dict) else {}
                waiting.append((target[key], value))
            else:
                target[key] = _without_nulls(value) if isinstance(value, list) else value
    return merged


def _without_nulls(items: list[Any]) -> list[Any]:
    """Return a list without the null values of its objects, which the kubelet's merge drops, too."""
    pruned = list(items)
    waiting: list[Any] = [pruned]
    while waiting:
        container = waiting.pop()
        for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if isinstance(value, dict):
                container[key] = {name: inner for name, inner in value.items() if inner is not None}
                waiting.append(container[key])
            elif isinstance(value, list):
                container[key] = list(value)
                waiting.append(container[key])
    return pruned


def _matched_to_internal(data: Mapping[str, Any], version: KubeletVersion) -> dict[str, Any]:
    # The base had the internal names (CPUManagerPolicy). A drop-in's external names were added beside them
    # and decoded after them, so null deleted nothing, at no depth; internal names overwrite the base.
    external = {_internal_name(name): name for name in known_fields(version)}
    internal = {external[key]: value for key, value in data.items() if key in external}
    internal_names = {key: value for key, value in data.items() if key not in external}
    return {
        key: value for key, value in {**internal, **internal_names}.items() if key != _UNMATCHED_INTERNAL_NAME
    }


def _omit_empty(base: Mapping[str, Any], version: KubeletVersion) -> dict[str, Any]:
    types = known_fields(version)
    return {
        name: value
        for name, value in base.items()
        if types.get(name, "*").startswith("*") or value not in ("", 0, False, [], {})
    }


def _typed(
    merged: Mapping[str, Any],
    version: KubeletVersion,
    origin: Mapping[str, str],
    documents: Mapping[str, Document],
) -> Mapping[str, Any]:
    try:
        matched = _matched_in_any_case(merged, version)
        settings: Mapping[str, Any] = decode(matched, ROOT_TYPE, types_of(version.rules_minor)).value
    except GoJsonError as error:
        file = origin.get(str(error.path[0]), "")
        line = documents[file].lines.get(error.path) if file else None
        text = str(error)
        if version.rules_minor < FIRST_MINOR_OF_VERSIONED_BASE:
            text = _in_internal_names(text)
        raise DropInError(
            f"failed to unmarshal merged JSON into kubelet configuration: {text}", file, error.path, line
        ) from error
    return settings


def _matched_in_any_case(merged: Mapping[str, Any], version: KubeletVersion) -> dict[str, Any]:
    # Unlike the main file, Go's own decoder reads the merged JSON, and ignores case: MaxPods is maxPods.
    exact = {name.lower(): name for name in known_fields(version)}
    merged = {key: value for key, value in merged.items() if key.lower() not in ("kind", "apiversion")}
    matched: dict[str, Any] = {}
    for key in sorted(merged):
        name = exact.get(key.lower(), key)
        if name in matched:
            # Go decodes the overwritten value too.
            decode({name: matched[name]}, ROOT_TYPE, types_of(version.rules_minor))
        matched[name] = merged[key]
    return matched


def _in_internal_names(text: str) -> str:
    match = _FIELD.search(text)
    if not match:
        return text
    first, *rest = match["path"].split(".")
    steps = [_internal_name(first), *(rest if first in _TAGGED else map(_internal_name, rest))]
    field = f"into Go struct field {match['struct']}.{'.'.join(steps)} of type"
    return text.replace(match[0], field).replace("v1beta1.", "config.")


def _internal_name(name: str) -> str:
    return INTERNAL_NAMES.get(name, name[:1].upper() + name[1:])
