"""Decode JSON-shaped data into typed data as Go's encoding/json does, with its error messages.

Source: encoding/json decode.go and sigs.k8s.io/json, with which Kubernetes decodes configuration files and
checkpoints. Types are written as Go writes them: `*int32`, `map[string]string`,
`[]v1beta1.MemoryReservation`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from numaforge.kubelet_minors.values.gotext import quoted
from numaforge.kubelet_minors.values.numbers import NumberError, parse_int

_INTEGER_BITS = {"int32": 31, "int64": 63, "int": 63, "uint32": 32, "uint64": 64}
_DIGITS = "0123456789"
_HEXADECIMAL = f"{_DIGITS}abcdefABCDEF"
_ESCAPES = {**dict(zip("bfnrt", "\b\f\n\r\t", strict=True)), **{character: character for character in '"\\/'}}
_LITERALS = {"true": True, "false": False, "null": None}
_PLAIN_TEXT = re.compile(r'[^"\\\x00-\x1f]*')
_PAIR = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")
_LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
_LARGEST_PLAIN_NUMBER = 1e21
_MOST_OVERWRITTEN = 100
_DEEPEST = 10_000
# No Go type holds this many digits; Python parses at most 4300, and slowly.
_LONGEST_INTEGER = 1000
# No setting is nested deeper; recording paths at every level costs the square of the depth.
_DEEPEST_LINE = 12

Path = tuple[str | int, ...]


class GoJsonError(ValueError):
    """Data that does not fit its Go type; the message is Go's, `path` leads to the value."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class Types:
    """Go types by name: structs with their fields' types, aliases of plain types, and types that parse text.

    `parsers` turn a JSON value into a Python value and raise ValueError with the type's own message; parsers
    of the types in `read_null` also receive null, except where the field is a pointer.
    """

    structs: Mapping[str, Mapping[str, str]]
    aliases: Mapping[str, str] = field(default_factory=dict)
    parsers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    read_null: frozenset[str] = frozenset()


class Decoded(NamedTuple):
    """Typed data, and the paths of fields unknown to their struct, in decoding order."""

    value: Any
    unknown: tuple[Path, ...]


def decode(
    data: Any, go_type: str, types: Types, *, as_written: bool = False, in_any_case: bool = False
) -> Decoded:
    """Decode data (as `parse_json` returns it) into a Go type.

    Unknown fields are dropped and reported; null leaves a value unset. Raises GoJsonError for the first
    value of a wrong type, in the order of sorted keys: Kubernetes turns YAML into JSON with sorted keys
    before decoding. `as_written` keeps the order of the text; `in_any_case` matches field names regardless
    of case, as encoding/json does.
    """
    decoder = _Decoder(types, as_written=as_written, in_any_case=in_any_case)
    value = decoder.value(data, go_type, ())
    if decoder.error is not None:
        raise decoder.error
    return Decoded(value, tuple(decoder.unknown))


def decode_json(json: "Json", go_type: str, types: Types, *, in_any_case: bool = False) -> Decoded:
    """Decode JSON in the order of the text.

    Values that a later duplicate key overwrites are decoded too. Raises GoJsonError for the first value of a
    wrong type.
    """
    for path, value in json.overwritten[:_MOST_OVERWRITTEN]:
        holder = json.data
        for step in path[:-1]:
            holder = holder[step]
        original, holder[path[-1]] = holder[path[-1]], value
        decode(json.data, go_type, types, as_written=True, in_any_case=in_any_case)
        holder[path[-1]] = original
    return decode(json.data, go_type, types, as_written=True, in_any_case=in_any_case)


def kind_of(value: Any) -> str:
    """Return Go's name for the kind of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


class _Decoder:
    """One decoding: as in Go, it continues after a type mismatch and ends at a parser's error."""

    def __init__(self, types: Types, *, as_written: bool, in_any_case: bool) -> None:
        self.types = types
        self.as_written = as_written
        self.in_any_case = in_any_case
        self.unknown: list[Path] = []
        self.error: GoJsonError | None = None
        self._struct = ""
        self._fields: tuple[str, ...] = ()

    def value(self, data: Any, go_type: str, path: Path) -> Any:
        if data is None and go_type not in self.types.read_null:
            return None
        go_type = go_type.removeprefix("*")
        if go_type in self.types.parsers:
            return self._parsed(data, go_type, path)
        if go_type in self.types.structs:
            return self._object(data, go_type, path)
        plain = self.types.aliases.get(go_type, go_type)
        if plain.startswith("[]"):
            return self._list(data, go_type, plain.removeprefix("[]"), path)
        if plain.startswith("map["):
            key, _, value = plain.removeprefix("map[").partition("]")
            return self._map(data, go_type, key, value, path)
        return self._scalar(data, go_type, plain, path)

    def _parsed(self, data: Any, go_type: str, path: Path) -> Any:
        try:
            return self.types.parsers[go_type](data)
        except GoJsonError as error:
            raise GoJsonError(self._in_context(str(error)), path) from error
        except ValueError as error:
            raise GoJsonError(str(error), path) from error

    def _object(self, data: Any, go_type: str, path: Path) -> Any:
        if not isinstance(data, dict):
            return self._mismatch(kind_of(data), go_type, path)
        fields = self.types.structs[go_type]
        struct, outer = self._struct, self._fields
        decoded = {}
        for written in self._ordered(data):
            name = written
            if written not in fields and self.in_any_case:
                name = next((name for name in fields if name.lower() == written.lower()), written)
            if name not in fields:
                self.unknown.append((*path, written))
                continue
            self._struct, self._fields = go_type.rpartition(".")[2], (*outer, name)
            value = self.value(data[written], fields[name], (*path, written))
            self._struct, self._fields = struct, outer
            if value is not None:
                decoded[name] = value
        return decoded

    def _ordered(self, data: Mapping[str, Any]) -> Iterable[str]:
        return data if self.as_written else sorted(data)

    def _list(self, data: Any, go_type: str, item: str, path: Path) -> Any:
        if not isinstance(data, list):
            return self._mismatch(kind_of(data), go_type, path)
        zero = self._zero(item)
        values = [self.value(item_value, item, (*path, index)) for index, item_value in enumerate(data)]
        return [zero if value is None else value for value in values]

    def _map(self, data: Any, go_type: str, key: str, item: str, path: Path) -> Any:
        if not isinstance(data, dict):
            return self._mismatch(kind_of(data), go_type, path)
        decoded: dict[Any, Any] = {}
        for name in self._ordered(data):
            value = self.value(data[name], item, (*path, name))
            decoded_key = self._map_key(name, key, path)
            if decoded_key is not None:
                decoded[decoded_key] = self._zero(item) if value is None else value
        return decoded

    def _map_key(self, name: str, key: str, path: Path) -> Any:
        if key not in _INTEGER_BITS:
            return name
        try:
            return parse_int(name, 10, _INTEGER_BITS[key] + 1)
        except NumberError:
            return self._mismatch(f"number {name}", key, path)

    def _scalar(self, data: Any, go_type: str, plain: str, path: Path) -> Any:
        kind = kind_of(data)
        if plain in _INTEGER_BITS:
            if kind != "number":
                return self._mismatch(kind, go_type, path)
            low = 0 if plain.startswith("u") else -(2 ** _INTEGER_BITS[plain])
            if low and isinstance(data, Literal) and data.literal == "-0":
                return 0
            if not isinstance(data, int) or not low <= data < 2 ** _INTEGER_BITS[plain]:
                return self._mismatch(f"number {format_number(data)}", go_type, path)
            return data
        if plain == "float64":
            return float(data) if kind == "number" else self._mismatch(kind, go_type, path)
        return data if kind == plain else self._mismatch(kind, go_type, path)

    def _zero(self, go_type: str) -> Any:
        plain = self.types.aliases.get(go_type, go_type)
        if plain == "string":
            return ""
        if plain == "bool":
            return False
        if plain in _INTEGER_BITS or plain == "float64":
            return 0
        return {} if go_type in self.types.structs else None

    def _mismatch(self, json_type: str, go_type: str, path: Path) -> None:
        if self.error is None:
            message = f"json: cannot unmarshal {json_type} into Go value of type {go_type}"
            self.error = GoJsonError(self._in_context(message), path)

    def _in_context(self, message: str) -> str:
        if not self._fields:
            return message
        return message.replace(
            "into Go value", f"into Go struct field {self._struct}.{'.'.join(self._fields)}", 1
        )


def format_number(value: float) -> str:
    """Return a number as the JSON has it, or as json.Marshal writes it: an exponent only for many digits."""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Literal):
        return value.literal
    if value and not 1e-6 <= abs(value) < 1e21:
        return re.sub(r"e-0(?=[0-9]$)", "e-", repr(value).replace(".0e", "e"))
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


class Json(NamedTuple):
    """JSON data in the order of the text, with the line of every key and item.

    `duplicates` are the keys that appear twice (path, line), `overwritten` their earlier values, maps
    excepted.
    """

    data: Any
    lines: Mapping[Path, int]
    duplicates: tuple[tuple[Path, int], ...]
    overwritten: tuple[tuple[Path, Any], ...]


class Literal(float):
    """A number not written as an integer, with its text: Go rejects `110.0` as one, `-0` as unsigned."""

    literal: str

    def __new__(cls, literal: str) -> "Literal":
        """Parse a number."""
        number = super().__new__(cls, literal)
        number.literal = literal
        return number


def plain_number(value: float) -> float:
    """Return a number as Go prints its float64: an integer where Go prints one. Raises OverflowError."""
    number = float(value)
    return (
        int(Decimal(repr(number))) if number.is_integer() and abs(number) < _LARGEST_PLAIN_NUMBER else number
    )


def parse_json(text: str) -> Json:
    """Parse JSON as Go's json.Unmarshal does. Raises GoJsonError with Go's message for malformed JSON."""
    parser = _Parser(text)
    parser.document()
    return Json(parser.root[0], parser.lines, tuple(parser.duplicates), tuple(parser.overwritten))


@dataclass
class _Open:
    """An object or array that is still open; `key` is where its next value goes."""

    values: Any
    path: Path
    key: str = ""
    is_empty: bool = True
    wants_more: bool = False


class _Parser:
    """Parse JSON, and find the first syntax error (encoding/json scanner.go)."""

    _END = "unexpected end of JSON input"

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.root: list[Any] = []
        self.lines: dict[Path, int] = {}
        self.duplicates: list[tuple[Path, int]] = []
        self.overwritten: list[tuple[Path, Any]] = []
        self._open: list[_Open] = []
        self._line, self._counted = 1, 0

    def document(self) -> None:
        """Parse the whole text. Raises GoJsonError."""
        self._value()
        while self._open:
            self._step()
        if following := self._next():
            raise self._invalid(following, "after top-level value")

    def _next(self) -> str:
        """Return the next character behind blanks, empty at the end."""
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _expected(self) -> str:
        if character := self._next():
            return character
        raise GoJsonError(self._END, ())

    def _value(self) -> None:
        first, start = self._expected(), self.at
        if first in "{[":
            self.at += 1
            values: Any = {} if first == "{" else []
            self._open.append(_Open(values, self._put(values)))
            if len(self._open) > _DEEPEST:
                raise GoJsonError("exceeded max depth", ())
        elif first == '"':
            self._put(self._string())
        else:
            self._scalar(first)
            self._put(_scalar_of(self.text[start : self.at]))

    def _scalar(self, first: str) -> None:
        if first == "-" or first in _DIGITS:
            self._number()
            return
        word = next((word for word in _LITERALS if first == word[0]), None)
        if word is None:
            raise self._invalid(first, "looking for beginning of value")
        for letter in word[1:]:
            self.at += 1
            character = self.text[self.at : self.at + 1] or " "
            if character != letter:
                expecting = f"in literal {word} (expecting {_quoted_character(letter)})"
                raise self._invalid(character, expecting)
        self.at += 1

    def _step(self) -> None:
        """Parse the end or the next member of the innermost open object or array."""
        holder = self._open[-1]
        is_object = isinstance(holder.values, dict)
        character = self._expected()
        if character == ("}" if is_object else "]"):
            if holder.wants_more:
                wanted = "object key string" if is_object else "value"
                raise self._invalid(character, f"looking for beginning of {wanted}")
            self.at += 1
            self._open.pop()
        elif not holder.is_empty and not holder.wants_more:
            if character != ",":
                context = "object key:value pair" if is_object else "array element"
                raise self._invalid(character, f"after {context}")
            self.at += 1
            holder.wants_more = True
        else:
            holder.is_empty = holder.wants_more = False
            if is_object:
                self._key(character)
            self._value()

    def _key(self, first: str) -> None:
        if first != '"':
            raise self._invalid(first, "looking for beginning of object key string")
        self._open[-1].key = self._string()
        if (character := self._expected()) != ":":
            raise self._invalid(character, "after object key")
        self.at += 1

    def _put(self, value: Any) -> Path:
        """Store a value in the innermost open object or array, and return its path."""
        if not self._open:
            self.root.append(value)
            return ()
        holder = self._open[-1]
        is_list = isinstance(holder.values, list)
        step = len(holder.values) if is_list else holder.key
        path = (*holder.path, step) if len(holder.path) < _DEEPEST_LINE else holder.path
        self.lines[path] = self._current_line()
        if is_list:
            holder.values.append(value)
            return path
        if holder.key in holder.values:
            self.duplicates.append((path, self._current_line()))
            earlier = holder.values.pop(holder.key)
            if isinstance(earlier, dict) and isinstance(value, dict):
                # Go decodes the second map into the first.
                value.update(earlier)
            elif isinstance(earlier, str) and value is None:
                value = earlier
            elif len(holder.path) < _DEEPEST_LINE:
                self.overwritten.append((path, earlier))
        holder.values[holder.key] = value
        return path

    def _current_line(self) -> int:
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def _string(self) -> str:
        """Parse a string; a lone surrogate becomes the replacement character."""
        self.at += 1
        parts = []
        while True:
            plain = _PLAIN_TEXT.match(self.text, self.at)
            assert plain is not None  # noqa: S101
            parts.append(plain[0])
            self.at = plain.end()
            character = self.text[self.at : self.at + 1]
            if not character:
                raise GoJsonError(self._END, ())
            self.at += 1
            if character == '"':
                return _LONE_SURROGATE.sub("\ufffd", _PAIR.sub(_joined, "".join(parts)))
            if character != "\\":
                raise self._invalid(character, "in string literal")
            parts.append(self._escape())

    def _escape(self) -> str:
        letter = self.text[self.at : self.at + 1]
        self.at += 1
        if letter and letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter != "u":
            raise self._invalid(letter or " ", "in string escape code")
        for position in range(self.at, self.at + 4):
            digit = self.text[position : position + 1] or " "
            if digit not in _HEXADECIMAL:
                raise self._invalid(digit, "in \\u hexadecimal character escape")
        self.at += 4
        return chr(int(self.text[self.at - 4 : self.at], 16))

    def _number(self) -> None:
        self._skip("-")
        if not self._skip("0"):
            self._digits("in numeric literal")
        if self._skip("."):
            self._digits("after decimal point in numeric literal")
        if self._skip("eE"):
            self._skip("+-")
            self._digits("in exponent of numeric literal")

    def _digits(self, context: str) -> None:
        # Where the text ends within a number or word, Go appends a blank.
        character = self.text[self.at : self.at + 1] or " "
        if character not in _DIGITS:
            raise self._invalid(character, context)
        while self._skip(_DIGITS):
            pass

    def _skip(self, characters: str) -> bool:
        skipped = self.at < len(self.text) and self.text[self.at] in characters
        self.at += skipped
        return skipped

    def _invalid(self, character: str, context: str) -> GoJsonError:
        return GoJsonError(f"invalid character {_quoted_character(character)} {context}", ())


def _quoted_character(character: str) -> str:
    # Go works on bytes, and shows a byte beyond ASCII as the character with that code.
    special = {"'": r"'\''", '"': "'\"'"}
    return special.get(character, f"'{quoted(chr(character.encode()[0]))[1:-1]}'")


def _scalar_of(written: str) -> Any:
    if written in _LITERALS:
        return _LITERALS[written]
    is_integer = written.lstrip("-").isdigit() and len(written) < _LONGEST_INTEGER
    return int(written) if is_integer and written != "-0" else Literal(written)


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")
