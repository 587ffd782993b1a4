"""Read YAML as the kubelet reads it, with the line of every value, and find a configuration inside others.

Source: sigs.k8s.io/yaml on goyaml.v2: YAML 1.1 booleans (`yes`, `on`, `y`), Go's integers, the last
duplicate key wins. An OpenShift KubeletConfig, a kubeadm file of several documents and kubeadm's ConfigMap
embed one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isinf
from typing import Any

import yaml

from numaforge.kubelet.minors.fields import API_VERSION, KIND
from numaforge.kubelet.values.gojson import Path, format_number

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STANDARD_TAGS = "tag:yaml.org,2002:"
_STRING_TAG = f"{_STANDARD_TAGS}str"
_MERGE_KEY = "<<"
_LARGEST_PLAIN_NUMBER = 1e21
_RESOLVER: Any = yaml.resolver.Resolver()
_ALIAS = re.compile(r"\*(?P<name>[\w-]+)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}


class YamlError(ValueError):
    """A text is not YAML; the message is goyaml's, `line` counts from 1."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Document:
    """YAML data with the line of every key and item, and the keys that appear twice (path, line)."""

    data: Any
    lines: Mapping[Path, int]
    duplicates: tuple[tuple[Path, int], ...] = ()


@dataclass(frozen=True)
class Embedded:
    """A kubelet configuration found in another document: what held it, and where its values stand there."""

    document: Document
    holder: str
    path: Path


@dataclass
class _Reading:
    lines: dict[Path, int] = field(default_factory=dict)
    duplicates: list[tuple[Path, int]] = field(default_factory=list)


def read(text: str) -> Document:
    """Read the first document of a YAML text. Raises YamlError."""
    first = next(_readable_nodes(text), None)
    return Document(None, {}) if first is None else _document(first)


def find_embedded(text: str) -> Embedded | None:
    """Return the kubelet configuration inside an OpenShift or kubeadm document, or None where there is none.

    A plain KubeletConfiguration is not embedded, and what follows it is not read: it need not be YAML. Raises
    YamlError.
    """
    if "kubelet" not in text:
        return None
    for index, node in enumerate(_readable_nodes(text)):
        document = _document(node)
        data = document.data if isinstance(document.data, dict) else {}
        kind = data.get("kind")
        if kind == "KubeletConfig" and str(data.get("apiVersion", "")).startswith(
            "machineconfiguration.openshift.io/"
        ):
            return _openshift(document, data)
        if kind == "ConfigMap" and isinstance((data.get("data") or {}).get("kubelet"), str):
            return _config_map(document, data)
        if kind == KIND:
            return Embedded(document, "kubeadm configuration", ()) if index else None
        if not data:
            return None
    return None


def _openshift(document: Document, data: Mapping[str, Any]) -> Embedded | None:
    spec = data.get("spec")
    settings = spec.get("kubeletConfig") if isinstance(spec, dict) else None
    if not isinstance(settings, dict):
        return None
    path: Path = ("spec", "kubeletConfig")
    lines = {where[2:]: line for where, line in document.lines.items() if where[:2] == path}
    duplicates = tuple((where[2:], line) for where, line in document.duplicates if where[:2] == path)
    filled = {"apiVersion": API_VERSION, "kind": KIND, **settings}
    return Embedded(Document(filled, lines, duplicates), "OpenShift KubeletConfig", path)


def _config_map(document: Document, data: Mapping[str, Any]) -> Embedded:
    path: Path = ("data", "kubelet")
    inner = read(data["data"]["kubelet"])
    offset = document.lines[path]
    lines = {where: line + offset for where, line in inner.lines.items()}
    duplicates = tuple((where, line + offset) for where, line in inner.duplicates)
    return Embedded(Document(inner.data, lines, duplicates), "kubeadm ConfigMap", path)


def duplicate_keys_error(document: Document) -> str | None:
    """Return the text with which a strict reader refuses keys that appear twice, or None."""
    if not document.duplicates:
        return None
    lines = [f'  line {line}: key "{path[-1]}" already set in map' for path, line in document.duplicates]
    return "\n".join(["yaml: unmarshal errors:", *lines])


def _readable_nodes(text: str) -> Iterator[yaml.Node]:
    """Yield the documents of a text up to the first that is no YAML; none before it is an error."""
    first = True
    try:
        for node in yaml.compose_all(text, Loader=_Loader):
            first = False
            yield node
    except yaml.YAMLError as error:
        if first:
            raise _yaml_error(error, text) from error


def _yaml_error(error: yaml.YAMLError, text: str) -> YamlError:
    # A character that YAML has no place for is the reader's error, which has a reason instead.
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    problem = problem or "unknown problem parsing YAML content"
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return YamlError(f"yaml: {problem}", None)
    if isinstance(error, yaml.composer.ComposerError) and "undefined alias" in problem:
        name = _ALIAS.search(text.splitlines()[mark.line], mark.column)
        return YamlError(f"yaml: unknown anchor '{name['name'] if name else ''}' referenced", mark.line + 1)
    # goyaml counts lines from 0 and adds one for the scanner's errors only.
    line = mark.line + isinstance(error, yaml.scanner.ScannerError) if mark.line else 0
    where = f"line {line}: " if line else ""
    return YamlError(f"yaml: {where}{problem}", mark.line + 1)


def _document(node: yaml.Node) -> Document:
    reading = _Reading()
    data = _value(node, (), reading)
    return Document(data, reading.lines, tuple(reading.duplicates))


def _value(node: yaml.Node, path: Path, reading: _Reading) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, reading)
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            reading.lines[(*path, index)] = item.start_mark.line + 1
        return [_value(item, (*path, index), reading) for index, item in enumerate(node.value)]
    return _scalar(node)


def _mapping(node: yaml.MappingNode, path: Path, reading: _Reading) -> dict[str, Any]:
    values: dict[str, Any] = {}
    merged: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _key(key_node)
        line = key_node.start_mark.line + 1
        if key == _MERGE_KEY:
            sources = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            if not all(isinstance(source, yaml.MappingNode) for source in sources):
                raise YamlError("yaml: map merge requires map or sequence of maps as the value", line)
            for source in sources:
                inherited = _value(source, path, reading)
                merged = {**(inherited if isinstance(inherited, dict) else {}), **merged}
            continue
        if key in values:
            reading.duplicates.append(((*path, key), line))
        reading.lines[(*path, key)] = line
        values[key] = _value(value_node, (*path, key), reading)
    return {**merged, **values}


def _key(node: yaml.Node) -> str:
    key = _scalar(node)
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return format_number(key)
    return "null" if key is None else str(key)


def _scalar(node: yaml.Node) -> Any:
    if not isinstance(node, yaml.ScalarNode):
        return str(node.value)
    text: str = node.value
    if node.style or _is_explicit_string(node):
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text.lower().lstrip("+-") in (".inf", ".nan"):
        shown = "NaN" if text.lower() == ".nan" else f"{'-' if text.startswith('-') else '+'}Inf"
        raise YamlError(f"json: unsupported value: {shown}", node.start_mark.line + 1)
    plain = text.replace("_", "")
    if not plain or plain[0] not in "+-.0123456789":
        return text
    number = _integer(plain)
    if number is not None and -(2**63) <= number < 2**64:
        return number
    if not _FLOAT.fullmatch(plain):
        return text
    value = float(plain)
    if isinf(value):
        return text
    # JSON has one kind of number: a whole one is an integer again to who reads it.
    return int(value) if value.is_integer() and abs(value) < _LARGEST_PLAIN_NUMBER else value


def _is_explicit_string(node: yaml.Node) -> bool:
    if not node.tag.startswith(_STANDARD_TAGS):
        return True
    if node.tag != _STRING_TAG:
        return False
    implied: str = _RESOLVER.resolve(yaml.ScalarNode, node.value, (True, False))
    return implied != _STRING_TAG


def _integer(plain: str) -> int | None:
    """Read an integer as strconv.ParseInt with base 0 does: decimal, 0x, 0o, 0b, octal after a 0."""
    digits = plain.lstrip("+-")
    if len(plain) - len(digits) > 1 or not digits:
        return None
    sign = -1 if plain[0] == "-" else 1
    octal = digits[0] == "0" and digits.isdigit() and len(digits) > 1
    try:
        return sign * int(digits, 8 if octal else 0)
    except ValueError:
        return None
