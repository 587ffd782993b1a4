"""Strict YAML: each key once, no tags, within limits, and every mistake with its line."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import yaml

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.given import DEEPEST, MOST_DIGITS

MOST_MIB = 4
"""How large a YAML file may be, in MiB."""
_MOST_NODES = 200_000  # with all aliases expanded
_TEXT = "tag:yaml.org,2002:str"
_INTEGER = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_TEXTS = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")  # what YAML makes of 2025-02-28 and =
_OCTAL = re.compile("[+-]?0[0-7_]+")
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\$\{\w+\}")
_INDENTED_WITH_TAB = re.compile(" *\t")
_TOO_DEEP = f"nested too deeply; {DEEPEST} levels are accepted"
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _NotAcceptedError(Exception):
    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


class _StrictLoader(_BASE):  # type: ignore[misc]
    """A SafeLoader that refuses a duplicate key; dates and times are texts, as in JSON."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (as PyYAML has it)
        first: [(tag, form) for tag, form in forms if tag not in _TEXTS]
        for first, forms in _BASE.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    self.note_repeated(key)
                keys.add(key.value)
        constructed: dict[Any, Any] = super().construct_mapping(node, deep)
        return constructed

    def note_repeated(self, key: yaml.ScalarNode) -> None:
        """Refuse a key that its mapping has already."""
        raise _NotAcceptedError(f"the key {key.value!r} is written twice", _line(key))

    def construct_number(self, node: yaml.ScalarNode) -> int | float | str:
        """Return a number that fits 64 bits; `1:30` is a text, and no number in the base 60."""
        if ":" in node.value:
            return str(node.value)
        if len(node.value) > MOST_DIGITS * 2:
            raise _NotAcceptedError(f"{node.value[:MOST_DIGITS]}... has too many digits", _line(node))
        integer = node.tag == _INTEGER
        number: int | float = self.construct_yaml_int(node) if integer else self.construct_yaml_float(node)
        if abs(number) >= 10**MOST_DIGITS or not math.isfinite(number):
            raise _NotAcceptedError(f"{node.value} is not a number that is accepted", _line(node))
        return number


_StrictLoader.add_constructor(_INTEGER, _StrictLoader.construct_number)
_StrictLoader.add_constructor(_FLOAT, _StrictLoader.construct_number)


class _DecimalLoader(_StrictLoader):
    """A loader that refuses 010, which is 8 to YAML 1.1 and 10 to YAML 1.2."""

    def construct_decimal(self, node: yaml.ScalarNode) -> int | float | str:
        number = self.construct_number(node)
        if isinstance(number, int) and _OCTAL.fullmatch(node.value):
            plain = node.value.replace("0", "", 1)
            raise _NotAcceptedError(f"{node.value} is octal in YAML; write {number}, or {plain}", _line(node))
        return number


_DecimalLoader.add_constructor(_INTEGER, _DecimalLoader.construct_decimal)


class _ManifestLoader(_StrictLoader):
    """A loader that takes the last of a key's values, as kubectl does; `repeated` has each such place."""

    def __init__(self, text: str, repeated: list[str]) -> None:
        super().__init__(text)
        self.repeated = repeated

    def note_repeated(self, key: yaml.ScalarNode) -> None:
        text = f"line {_line(key)}: the key {key.value!r} is written twice; the last one counts"
        self.repeated.append(text)


def read_yaml(
    text: str, file: str, error: type[NumaforgeError] = NumaforgeError, *, octal: bool = True
) -> Any:
    """Return the content of a YAML text with one document, None for an empty one.

    Raises `error`, with the file and the line, for invalid YAML, and for what is refused here: a duplicate
    key, tags, aliases that contain themselves or unfold to too much, numbers beyond 64 bits, more than 100
    levels; without `octal` a number that begins with 0.
    """
    loader = _StrictLoader if octal else _DecimalLoader
    return _only(read_yaml_documents(text, file, error, loader), file, error)


def read_last_keys(
    text: str, file: str, error: type[NumaforgeError] = NumaforgeError
) -> tuple[Any, tuple[str, ...]]:
    """Return one document, whose last key wins as for sigs.k8s.io/yaml, and the places of duplicates."""
    documents, repeated = read_manifests(text, file, error)
    return _only(documents, file, error), repeated


def _only(documents: Iterable[Any], file: str, error: type[NumaforgeError]) -> Any:
    """Return the only document that is not empty, None without any."""
    listed = [document for document in documents if document is not None]
    if len(listed) > 1:
        raise error(f"holds {len(listed)} documents", where=file, remedy="put each in a file, and name one")
    return listed[0] if listed else None


def read_manifests(
    text: str, file: str, error: type[NumaforgeError] = NumaforgeError
) -> tuple[list[Any], tuple[str, ...]]:
    """Return a file's documents, whose last key wins as for kubectl, and the places of duplicates."""
    repeated: list[str] = []
    documents = read_yaml_documents(text, file, error, partial(_ManifestLoader, repeated=repeated))
    return list(documents), tuple(repeated)


def read_yaml_documents(
    text: str,
    file: str,
    error: type[NumaforgeError] = NumaforgeError,
    loader: Callable[[str], _StrictLoader] = _StrictLoader,
) -> Iterator[Any]:
    """Yield what each document of a YAML text holds; raises as `read_yaml` does."""
    if len(text) > MOST_MIB * 2**20:
        raise error(f"is larger than {MOST_MIB} MiB, the limit for YAML", where=file)
    try:
        _check_shape(text)
        yield from yaml.load_all(text, Loader=loader)  # type: ignore[arg-type]  # it is only called
    except _NotAcceptedError as refused:
        raise _located(error, str(refused), file, refused.line) from refused
    except yaml.MarkedYAMLError as mistake:
        mark = mistake.problem_mark or mistake.context_mark
        problem = ", ".join(filter(None, (mistake.context, mistake.problem)))
        if "maximum nesting depth" in problem:  # libyaml reads ahead, and may come to its own limit first
            raise _located(error, _TOO_DEEP, file, mark.line + 1 if mark else None) from mistake
        line = "".join(text.split("\n")[mark.line : mark.line + 1]) if mark else ""
        if _INDENTED_WITH_TAB.match(line):
            problem = "indented with a tab, where YAML takes blanks"
        if marker := _TEMPLATE.search(line):
            problem = f"{marker[0]} is of a template: give what helm template or envsubst makes of it"
        line_of = mark.line + 1 if mark else None
        raise _located(error, f"not valid YAML: {problem}", file, line_of) from mistake
    except yaml.reader.ReaderError as mistake:
        line_number = text.encode()[: mistake.position].count(b"\n") + 1
        character = mistake.character if isinstance(mistake.character, int) else ord(mistake.character)
        raise _located(error, f"is not a text: it holds U+{character:04X}", file, line_number) from mistake
    except (yaml.YAMLError, ValueError, RecursionError) as mistake:
        raise error(f"not valid YAML: {' '.join(str(mistake).split())}", where=file) from mistake


def _located(error: type[NumaforgeError], message: str, file: str, line: int | None) -> NumaforgeError:
    return error(message, where=file if line is None else f"{file}, line {line}")


def _line(node: yaml.Node) -> int | None:
    return node.start_mark.line + 1 if node.start_mark else None


def _check_shape(text: str) -> None:
    """Refuse, event by event, a document that is too large or too deep for the constructor.

    libyaml's composer recurses for each level, and would crash the interpreter.
    """
    sizes: dict[str | None, int] = {}  # by anchor, with all aliases expanded
    opened: list[tuple[str | None, int]] = [(None, 0)]  # enclosing anchors, with their node counts so far
    for event in yaml.parse(text, Loader=_BASE):
        line = event.start_mark.line + 1 if event.start_mark else None
        if isinstance(event, yaml.DocumentStartEvent):
            sizes, opened = {}, [(None, 0)]
        elif isinstance(event, yaml.NodeEvent):
            _check_tag(event, line)
            if isinstance(event, yaml.AliasEvent):
                if any(anchor == event.anchor for anchor, _ in opened):
                    raise _NotAcceptedError(f"the alias *{event.anchor} contains itself", line)
                size = sizes.get(event.anchor, 1)
            elif isinstance(event, yaml.CollectionStartEvent):
                if len(opened) > DEEPEST:
                    raise _NotAcceptedError(_TOO_DEEP, line)
                opened.append((event.anchor, 1))
                continue
            else:
                size = sizes[event.anchor] = 1
            _grow(opened, size, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = opened.pop()
            if anchor:
                sizes[anchor] = size
            _grow(opened, size, line)


def _grow(opened: list[tuple[str | None, int]], size: int, line: int | None) -> None:
    anchor, nodes_before = opened[-1]
    if nodes_before + size > _MOST_NODES:
        raise _NotAcceptedError(f"unfolds to more than {_MOST_NODES} values", line)
    opened[-1] = (anchor, nodes_before + size)


def _check_tag(event: yaml.NodeEvent, line: int | None) -> None:
    tag = getattr(event, "tag", None)
    if tag not in (None, "!", _TEXT):
        shown = tag.replace("tag:yaml.org,2002:", "!!")
        raise _NotAcceptedError(f"the tag {shown} is not accepted; write the value without it", line)
