"""YAML as the kubelet reads it, reduced to JSON data, with the line of every value.

Source: sigs.k8s.io/yaml (yaml.go) on go.yaml.in/yaml/v2 (decode.go, resolve.go), which is libyaml in Go:
PyYAML's parser gives the same events. YAML 1.1 booleans (`yes`, `on`, `y`), Go's integers, the last duplicate
key wins. The kubelet reads 10,000 levels; libyaml reads 1,000, and this some fewer.
"""

import base64
import binascii
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from math import isinf, isnan
from typing import Any, Literal, NamedTuple

import yaml

from numaforge.kubelet_minors.values.gojson import Json, Path, plain_number
from numaforge.kubelet_minors.values.gotext import quoted, shown_float, shown_float32
from numaforge.kubelet_minors.values.numbers import NumberError, float32, parse_int, parse_uint

_FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 900
# No kubelet setting is nested deeper; recording paths at every level costs the square of the depth.
_DEEPEST_LINE = 12
_STANDARD_TAGS = "tag:yaml.org,2002:"
_STRING = "str"
_RESOLVED_TAGS = frozenset({"", _STRING, "bool", "int", "float", "null", "timestamp"})
_MERGE_KEY = "<<"
_LARGEST_INT64 = 2**63 - 1
_SHOWN_DEPTH = 50
# What the C libyaml reads differently between brackets; Python's parser is slow on many brackets.
_ODD_IN_FLOWS = re.compile(r"\?|:[,\[\]{}]")
_ODD_ANYWHERE = re.compile(r"(?<=.)\ufeff|![^\s]*[,\[\]]", re.DOTALL)
_MOST_ODD_FLOWS = 500
_LONGEST_HANDLE = 100
_LONGEST_ODD = 1 << 18
_BREAKS = "\r\n\x85\u2028\u2029"
_BLANKS = f"\0 \t{_BREAKS}"
# Turns the messages of Python's parser into those of libyaml.
_PROBLEMS = (
    (re.compile(r"(expected) (?:the )?(.*?),? but (?:got|found) .*"), r"did not find \1 \2"),
    (re.compile(r"expected <block end>$"), "expected key"),
    (
        re.compile(r"(?:block )?(sequence entries|mapping \w+) are not allowed here"),
        r"\1 are not allowed in this context",
    ),
    (re.compile(r"^sequence entries"), "block sequence entries"),
    (re.compile(r"special characters are not allowed"), "control characters are not allowed"),
    (re.compile(r"found character '.*' that cannot"), "found character that cannot"),
)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_FLOAT_BEHIND_POINT = re.compile(r"\.[0-9]+([eE][-+]?[0-9]+)?")
_TIMESTAMP = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{1,2}-[0-9]{1,2})"
    r"(?:(?:[Tt]| +)(?P<time>[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2})"
    r"(?:[.,][0-9]+)?(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_TAGS_BY_TYPE: Mapping[type, str] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: _STRING,
    type(None): "null",
}

# A value under construction: yields the tasks whose values it needs, and returns the finished value.
_Task = Generator["_Task", Any, Any]


class _GoLoader(yaml.SafeLoader):
    """A parser that ends plain scalars as Go does: in flows at any `?`, and at `:` only before a blank."""

    def scan_to_next_token(self) -> None:
        """Skip blanks, comments and line breaks, and tabs where no key may begin."""
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()

    def scan_plain(self) -> yaml.ScalarToken:
        start = end = self.get_mark()
        text = gap = ""
        while self.peek() != "#" and not (
            self.column == 0 and self.prefix(3) in ("---", "...") and self.peek(3) in _BLANKS
        ):
            word = self._read_while(lambda ahead: not self._ends_word(ahead))
            if not word:
                break
            self.allow_simple_key = False
            text += gap + word
            end = self.get_mark()
            if self.peek() not in f" \t{_BREAKS}":
                break
            gap = self._gap(start)
            if not self.flow_level and self.column <= self.indent:
                break
        return yaml.ScalarToken(text, True, start, end)

    def scan_tag_handle(self, name: str, start_mark: yaml.Mark) -> str:
        """Return a tag's handle such as `!!`; what has no second `!` behind letters is all suffix."""
        if name == "tag" and not re.match(r"![\w-]*!", self.prefix(_LONGEST_HANDLE)):
            self.forward()
            return "!"
        handle: str = super().scan_tag_handle(name, start_mark)  # type: ignore[no-untyped-call]
        return handle

    def _ends_word(self, ahead: int) -> bool:
        character = self.peek(ahead)
        if character == ":" and self.peek(ahead + 1) in _BLANKS:
            return True
        return character in _BLANKS or bool(self.flow_level and character in ",?[]{}")

    def _gap(self, start: yaml.Mark) -> str:
        """Skip blanks and line breaks, and return what they become in the scalar."""
        blanks = self._read_while(lambda ahead: self.peek(ahead) in " \t")
        if self.peek() not in _BREAKS:
            return blanks
        first = self._break()
        more = ""
        self.allow_simple_key = True
        while self.peek() in f" \t{_BREAKS}":
            if self.peek() in _BREAKS:
                more += self._break()
            elif self.peek() == "\t" and self.column <= self.indent:
                problem = "found a tab character that violates indentation"
                raise yaml.scanner.ScannerError(
                    "while scanning a plain scalar", start, problem, self.get_mark()
                )
            else:
                self.forward()
        return (more or " ") if first == "\n" else first + more

    def _break(self) -> str:
        line_break: str = self.scan_line_break()  # type: ignore[no-untyped-call]
        return line_break

    def _read_while(self, continues: Callable[[int], bool]) -> str:
        length = 0
        while continues(length):
            length += 1
        text: str = self.prefix(length)
        self.forward(length)
        return text


class YamlError(ValueError):
    """A text that is not YAML; the message is the kubelet's, `line` counts from 1."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


class Document(NamedTuple):
    """YAML data with the line of every key and item, and the keys that appear twice (path, line).

    `strict_error` is the message with which a strict reader rejects those keys. `json` is set where the text
    is JSON, which keeps its order: YAML becomes JSON with sorted keys.
    """

    data: Any
    lines: Mapping[Path, int]
    duplicates: tuple[tuple[Path, int], ...] = ()
    strict_error: str | None = None
    json: Json | None = None


def read(text: str) -> Document:
    """Parse the first document of a YAML text. Raises YamlError."""
    return next(read_all(text), Document(None, {}))


def read_all(text: str) -> Iterator[Document]:
    """Yield the documents of a YAML text. Raises YamlError at the first malformed one."""
    for root in _roots(text):
        yield _Decoding().document(root)


@dataclass(slots=True, eq=False)
class _YamlNode:
    kind: Literal["scalar", "sequence", "mapping", "alias"]
    line: int
    tag: str = ""
    value: str = ""
    implicit: bool = False
    children: "list[_YamlNode]" = field(default_factory=list)
    alias: "_YamlNode | None" = None

    @property
    def is_merge(self) -> bool:
        return self.value == _MERGE_KEY and self.kind == "scalar" and (self.implicit or self.tag == "merge")


def _roots(text: str) -> Iterator[_YamlNode]:
    """Yield the root of each document once its end is parsed."""
    open_nodes: list[_YamlNode] = []
    anchors: dict[str, _YamlNode] = {}
    root: _YamlNode | None = None
    try:
        for event in yaml.parse(text, Loader=_loader(text)):
            if isinstance(event, yaml.NodeEvent):
                node = _node(event, anchors)
                if open_nodes:
                    open_nodes[-1].children.append(node)
                else:
                    root = node
                if isinstance(event, yaml.CollectionStartEvent):
                    open_nodes.append(node)
                    _require_depth(len(open_nodes), node.line)
            elif isinstance(event, yaml.CollectionEndEvent):
                open_nodes.pop()
            elif isinstance(event, yaml.DocumentEndEvent) and root is not None:
                yield root
                anchors = {}
    except yaml.YAMLError as error:
        raise _yaml_error(error) from error


def _loader(text: str) -> Any:
    """Return the fast parser, or the exact one where the two would differ."""
    flow = re.search(r"[\[{]", text)
    is_odd = _ODD_ANYWHERE.search(text) or (flow and _ODD_IN_FLOWS.search(text, flow.start()))
    is_bounded = len(text) < _LONGEST_ODD and text.count("[") + text.count("{") < _MOST_ODD_FLOWS
    return _GoLoader if is_odd and is_bounded else _FastLoader


def _node(event: Any, anchors: dict[str, _YamlNode]) -> _YamlNode:
    line = event.start_mark.line + 1
    if isinstance(event, yaml.AliasEvent):
        target = anchors.get(event.anchor or "")
        if target is None:
            raise YamlError(f"yaml: unknown anchor '{event.anchor}' referenced", line)
        return _YamlNode("alias", line, value=event.anchor or "", alias=target)
    tag = (event.tag or "").removeprefix(_STANDARD_TAGS)
    if isinstance(event, yaml.ScalarEvent):
        node = _YamlNode("scalar", line, tag, event.value, event.implicit[0])
    else:
        node = _YamlNode("sequence" if isinstance(event, yaml.SequenceStartEvent) else "mapping", line, tag)
    if event.anchor is not None:
        anchors[event.anchor] = node
    return node


def _require_depth(depth: int, line: int) -> None:
    if depth > _DEEPEST:
        raise _too_deep(line)


def _too_deep(line: int) -> YamlError:
    where = f"line {line}: " if line > 1 else ""
    return YamlError(f"yaml: {where}exceeded max depth of {_DEEPEST}, the most that is read here", line)


def _yaml_error(error: yaml.YAMLError) -> YamlError:
    # A character that YAML forbids raises a ReaderError, which has a reason instead of a problem.
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    problem = problem or "unknown problem parsing YAML content"
    mark = getattr(error, "problem_mark", None)
    if "maximum nesting depth" in problem:  # libyaml reads ahead, and may come to its own limit first
        return _too_deep(mark.line + 1 if mark else 1)
    for pattern, replacement in _PROBLEMS:
        problem = pattern.sub(replacement, problem)
    if mark is None:
        return YamlError(f"yaml: {problem}", None)
    # Go counts lines from 0, and adds one only for the scanner's errors.
    line = mark.line + isinstance(error, yaml.scanner.ScannerError) if mark.line else 0
    context = getattr(error, "context_mark", None)
    line = line or (context.line if context is not None else 0)
    where = f"line {line}: " if line else ""
    return YamlError(f"yaml: {where}{problem}", mark.line + 1)


class _Key(NamedTuple):
    """A non-string key; to Go, `1` and `"1"` are two keys until it writes JSON."""

    kind: type
    value: Any


class _Decoding:
    """Decode one document: expand aliases, apply merge keys where they stand, resolve scalars."""

    def __init__(self) -> None:
        self.lines: dict[Path, int] = {}
        self.duplicates: list[tuple[Path, int]] = []
        self.complaints: list[str] = []
        self.is_odd = False
        self._aliases: set[int] = set()
        self._count = 1
        self._alias_count = 0

    def document(self, root: _YamlNode) -> Document:
        data = _done(self._value(root, ()))
        if self.is_odd:
            data = _as_json(data)
        strict_error = "\n".join(["yaml: unmarshal errors:", *self.complaints]) if self.complaints else None
        return Document(data, self.lines, tuple(self.duplicates), strict_error)

    def _value(self, node: _YamlNode, path: Path, into: dict[Any, Any] | None = None) -> _Task:
        if node.kind == "scalar":
            return self._scalar(node)
        self._counted()
        if node.kind == "mapping":
            return (yield self._mapping(node, path, {} if into is None else into))
        if node.kind == "sequence":
            return (yield self._sequence(node, path))
        if id(node) in self._aliases:
            raise YamlError(f"yaml: anchor '{node.value}' value contains itself", node.line)
        self._aliases.add(id(node))
        assert node.alias is not None  # noqa: S101
        value = yield self._value(node.alias, path, into)
        self._aliases.remove(id(node))
        return value

    def _sequence(self, node: _YamlNode, path: Path) -> _Task:
        values = []
        for index, item in enumerate(node.children):
            below = (*path, index) if len(path) < _DEEPEST_LINE else path
            self.lines[below] = item.line
            values.append(self._scalar(item) if item.kind == "scalar" else (yield self._value(item, below)))
        return values

    def _mapping(self, node: _YamlNode, path: Path, values: dict[Any, Any]) -> _Task:
        for key_node, value_node in zip(node.children[::2], node.children[1::2], strict=True):
            if key_node.is_merge:
                yield self._merge(value_node, path, values)
                continue
            key = yield self._value(key_node, path)
            if isinstance(key, dict | list):
                raise YamlError(f"yaml: invalid map key: {_go_syntax(key)}", key_node.line)
            if not isinstance(key, str):
                self.is_odd = True
                key = _Key(type(key), key)
            name = _key_text(key)
            below = (*path, name) if len(path) < _DEEPEST_LINE else path
            is_scalar = value_node.kind == "scalar"
            value = self._scalar(value_node) if is_scalar else (yield self._value(value_node, below))
            if key in values and not (isinstance(key, _Key) and key.kind is float and isnan(key.value)):
                self.duplicates.append((below, key_node.line))
                shown = _go_syntax(key.value if isinstance(key, _Key) else key)
                self.complaints.append(f"  line {value_node.line}: key {shown} already set in map")
            self.lines[below] = key_node.line
            values[key] = value
        return values

    def _merge(self, node: _YamlNode, path: Path, values: dict[Any, Any]) -> _Task:
        # Apply the sources in reverse: the first one wins.
        sources = list(reversed(node.children)) if node.kind == "sequence" else [node]
        for source in sources:
            target = source.alias if source.alias is not None else source
            if target.kind != "mapping":
                raise YamlError("yaml: map merge requires map or sequence of maps as the value", node.line)
            yield self._value(source, path, values)
        return None

    def _counted(self) -> None:
        self._count += 1
        self._alias_count += bool(self._aliases)
        if self._alias_count > 100 and self._count > 1000:
            scaled = 0.99 - 0.89 * ((self._count - 400_000) / 3_600_000)
            if self._alias_count / self._count > min(0.99, max(0.10, scaled)):
                raise YamlError("yaml: document contains excessive aliasing", None)

    def _scalar(self, node: _YamlNode) -> Any:
        self._counted()
        if not node.tag and not node.implicit:
            return node.value
        value = _resolved(node)
        self.is_odd = self.is_odd or isinstance(value, float)
        return value


def _done(task: _Task) -> Any:
    """Run a task and the tasks it needs, without recursion."""
    waiting, answer = [task], None
    while waiting:
        try:
            waiting.append(waiting[-1].send(answer))
            answer = None
        except StopIteration as end:
            waiting.pop()
            answer = end.value
    return answer


def _resolved(node: _YamlNode) -> Any:
    tag, text = node.tag, node.value
    if tag == "binary":
        return _from_base64(node)
    if tag not in _RESOLVED_TAGS or tag == _STRING:
        return text
    value, resolved_tag = _plain(text, tag)
    if tag in ("", resolved_tag):
        return value
    if tag == "float" and resolved_tag == "int" and value <= _LARGEST_INT64:
        return float(value)
    raise YamlError(f"yaml: cannot decode !!{resolved_tag} `{text}` as a !!{tag}", node.line)


def _plain(text: str, tag: str) -> tuple[Any, str]:
    """Return the value of a plain scalar, and its implicit tag."""
    if text in _WORDS:
        return _WORDS[text], _TAGS_BY_TYPE[type(_WORDS[text])]
    if text[0] == "." and _FLOAT_BEHIND_POINT.fullmatch(text):
        value: Any = float(text)
        return (text, _STRING) if isinf(value) else (value, "float")
    if text[0] not in "+-0123456789":
        return text, _STRING
    if tag in ("", "timestamp") and _is_timestamp(text):
        # A timestamp decoded into an untyped value stays a string.
        return text, "timestamp"
    value = _number(text.replace("_", ""))
    return (text, _STRING) if value is None else (value, _TAGS_BY_TYPE[type(value)])


def _number(plain: str) -> int | float | None:
    for parse in (parse_int, parse_uint):
        try:
            return parse(plain)
        except NumberError:
            continue
    if _FLOAT.fullmatch(plain):
        value = float(plain)
        return None if isinf(value) else value
    if plain.startswith("0b"):
        for parse in (parse_int, parse_uint):
            try:
                return parse(plain[2:], 2)
            except NumberError:
                continue
    return None


def _is_timestamp(text: str) -> bool:
    match = _TIMESTAMP.fullmatch(text)
    if not match:
        return False
    try:
        date(*map(int, match["date"].split("-")))
    except ValueError:
        # Go accepts the year 0, a leap year like 2000.
        return match["date"].startswith("0000-") and _is_timestamp(f"2000{text[4:]}")
    if match["time"] is None:
        return True
    spaced = text[match.end("date")] == " "
    hour, minute, second = map(int, match["time"].split(":"))
    return hour < 24 and minute < 60 and second < 60 and spaced == (match["zone"] is None)


def _from_base64(node: _YamlNode) -> str:
    try:
        plain = node.value.replace("\n", "").replace("\r", "")
        if not _BASE64.fullmatch(plain):
            raise binascii.Error
        return re.sub(r"[\ud800-\udfff]", "\ufffd", base64.b64decode(plain).decode(errors="surrogateescape"))
    except binascii.Error as error:
        raise YamlError("yaml: !!binary value contains invalid base64 data", node.line) from error


def _key_text(key: str | _Key) -> str:
    if isinstance(key, str):
        return key
    if key.kind is bool:
        return "true" if key.value else "false"
    if key.kind is float:
        if isnan(key.value):
            return ".nan"
        single = float32(key.value)
        return shown_float32(single) if not isinf(single) else ".inf" if single > 0 else "-.inf"
    return "null" if key.value is None else str(key.value)


def _as_json(data: Any) -> Any:
    """Return data with strings for keys. Raises YamlError for what JSON cannot express."""
    odd_number = None
    holder: dict[Any, Any] = {"": data}
    waiting: list[Any] = [holder]
    while waiting:
        container = waiting.pop()
        for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if isinstance(key, _Key):
                _require_text(key, value)
                del container[key]
                container[_key_text(key)] = value
            if isinstance(value, dict | list):
                waiting.append(value)
            elif isinstance(value, float) and (isnan(value) or isinf(value)):
                odd_number = _odd_number(value)
            elif isinstance(value, float):
                container[_key_text(key) if isinstance(key, _Key) else key] = plain_number(value)
    if odd_number:
        raise YamlError(f"json: unsupported value: {odd_number}", None)
    return holder[""]


def _require_text(key: _Key, value: Any) -> None:
    kind = None
    if key.value is None:
        kind = "%!s(<nil>)"
    elif key.kind is int and key.value > _LARGEST_INT64:
        kind = "uint64"
    if kind:
        text = (
            f"unsupported map key of type: {kind}, key: {_go_syntax(key.value)}, value: {_go_syntax(value)}"
        )
        raise YamlError(text, None)


def _odd_number(value: float) -> str:
    return "NaN" if isnan(value) else "+Inf" if value > 0 else "-Inf"


def _go_syntax(value: Any, depth: int = 0) -> str:
    """Return a value as %#v prints it."""
    if isinstance(value, dict | list) and depth > _SHOWN_DEPTH:
        return "..."
    if isinstance(value, dict):
        pairs = ((key.value if isinstance(key, _Key) else key, item) for key, item in value.items())
        inner = [f"{_field_syntax(key, depth)}:{_field_syntax(item, depth)}" for key, item in pairs]
        return f"map[interface {{}}]interface {{}}{{{', '.join(sorted(inner))}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(_field_syntax(item, depth) for item in value)}}}"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return hex(value) if value > _LARGEST_INT64 else str(value)
    if isinstance(value, float):
        return _odd_number(value) if isnan(value) or isinf(value) else shown_float(value)
    return quoted(value)


def _field_syntax(value: Any, depth: int) -> str:
    return "interface {}(nil)" if value is None else _go_syntax(value, depth + 1)
