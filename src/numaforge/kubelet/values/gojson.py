"""Decode JSON-shaped data into typed data as Go's encoding/json does, with its error texts.

Source: encoding/json decode.go and sigs.k8s.io/json, which Kubernetes decodes configuration files and
checkpoints with. Types are written as Go writes them: `*int32`, `map[string]string`,
`[]v1beta1.MemoryReservation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from numaforge.kubelet.values.gotext import quoted

_INTEGER_BITS = {"int32": 31, "int64": 63, "int": 63, "uint32": 32, "uint64": 64}
_DIGITS = "0123456789"

Path = tuple[str | int, ...]


class GoJsonError(ValueError):
    """Data does not fit its Go type; the message is Go's. `path` leads to the value."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class Types:
    """Go types by name: structs with their fields' types, aliases of plain types, and types that parse text.

    `parsers` turn a JSON value into a Python value and raise ValueError with the type's own text; those of
    the types in `read_null` see null as well, unless it stands for a pointer.
    """

    structs: Mapping[str, Mapping[str, str]]
    aliases: Mapping[str, str] = field(default_factory=dict)
    parsers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    read_null: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Decoded:
    """Typed data, and the fields that no struct knows, as paths in the order of decoding."""

    value: Any
    unknown: tuple[Path, ...]


def decode(data: Any, go_type: str, types: Types, *, as_written: bool = False) -> Decoded:
    """Decode data (as json.loads returns it) into a Go type.

    Unknown fields are dropped and reported; null leaves a value unset. Raises GoJsonError for the first
    value of a wrong type, in the order of the keys' names: Kubernetes turns YAML into JSON with sorted keys
    before decoding. With `as_written` it is the order of the text, and fields are known in any case, as
    encoding/json itself reads.
    """
    decoder = _Decoder(types, as_written=as_written)
    value = decoder.value(data, go_type, ())
    if decoder.error is not None:
        raise decoder.error
    return Decoded(value, tuple(decoder.unknown))


def kind_of(value: Any) -> str:
    """Return Go's word for a JSON value's kind."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


class _Decoder:
    """One decoding; a type mismatch is kept and decoding goes on, a parser's error ends it, as in Go."""

    def __init__(self, types: Types, *, as_written: bool) -> None:
        self.types = types
        self.as_written = as_written
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
            name = self._field(written, fields)
            if name is None:
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

    def _field(self, written: str, fields: Mapping[str, str]) -> str | None:
        if written in fields or not self.as_written:
            return written if written in fields else None
        return next((name for name in fields if name.lower() == written.lower()), None)

    def _list(self, data: Any, go_type: str, item: str, path: Path) -> Any:
        if not isinstance(data, list):
            return self._mismatch(kind_of(data), go_type, path)
        zero = self._zero(item)
        values = [self.value(each, item, (*path, index)) for index, each in enumerate(data)]
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
        if name.lstrip("-").isdigit():
            return int(name)
        return self._mismatch(f"number {name}", key, path)

    def _scalar(self, data: Any, go_type: str, plain: str, path: Path) -> Any:
        kind = kind_of(data)
        if plain in _INTEGER_BITS:
            if kind != "number":
                return self._mismatch(kind, go_type, path)
            low = 0 if plain.startswith("u") else -(2 ** _INTEGER_BITS[plain])
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

    def _mismatch(self, found: str, go_type: str, path: Path) -> None:
        if self.error is None:
            message = f"json: cannot unmarshal {found} into Go value of type {go_type}"
            self.error = GoJsonError(self._in_context(message), path)

    def _in_context(self, message: str) -> str:
        if not self._fields:
            return message
        return message.replace(
            "into Go value", f"into Go struct field {self._struct}.{'.'.join(self._fields)}", 1
        )


def format_number(value: float) -> str:
    """Return a number as Go's json.Marshal writes it: no exponent where the digits are few."""
    if isinstance(value, int):
        return str(value)
    if value and not 1e-6 <= abs(value) < 1e21:
        return repr(value)
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def syntax_error(text: str) -> str | None:
    """Return the text with which Go's json.Unmarshal refuses malformed JSON, or None for well-formed JSON."""
    scanner = _Scanner(text)
    return scanner.document()


class _Scanner:
    """Walk JSON only to find where and how it stops being JSON (encoding/json scanner.go)."""

    _END = "unexpected end of JSON input"

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> str | None:
        error = self._value()
        if error:
            return error
        after = self._next()
        return None if after is None else self._invalid(after, "after top-level value")

    def _next(self) -> str | None:
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1
        return self.text[self.at] if self.at < len(self.text) else None

    def _value(self) -> str | None:
        first = self._next()
        if first is None:
            return self._END
        if first == "{":
            return self._members()
        if first == "[":
            return self._items()
        if first == '"':
            return self._string()
        if first == "-" or first in _DIGITS:
            return self._number()
        for word in ("true", "false", "null"):
            if first == word[0]:
                return self._literal(word)
        return self._invalid(first, "looking for beginning of value")

    def _members(self) -> str | None:
        self.at += 1
        if self._next() == "}":
            self.at += 1
            return None
        while True:
            first = self._next()
            if first is None:
                return self._END
            if first != '"':
                return self._invalid(first, "looking for beginning of object key string")
            error = self._string() or self._expect(":", "after object key") or self._value()
            if error:
                return error
            done, error = self._separator("}", "after object key:value pair")
            if done or error:
                return error

    def _items(self) -> str | None:
        self.at += 1
        if self._next() == "]":
            self.at += 1
            return None
        while True:
            error = self._value()
            if error:
                return error
            done, error = self._separator("]", "after array element")
            if done or error:
                return error

    def _separator(self, end: str, context: str) -> tuple[bool, str | None]:
        found = self._next()
        if found is None:
            return True, self._END
        self.at += 1
        if found == end:
            return True, None
        return (False, None) if found == "," else (True, self._invalid(found, context))

    def _expect(self, wanted: str, context: str) -> str | None:
        found = self._next()
        if found is None:
            return self._END
        if found != wanted:
            return self._invalid(found, context)
        self.at += 1
        return None

    def _string(self) -> str | None:
        self.at += 1
        while self.at < len(self.text):
            here = self.text[self.at]
            if here == '"':
                self.at += 1
                return None
            if here < " ":
                return self._invalid(here, "in string literal")
            self.at += 2 if here == "\\" else 1
        return self._END

    def _number(self) -> str | None:
        self._skip("-")
        if not self._skip("0"):
            error = self._digits("in numeric literal")
            if error:
                return error
        if self._skip("."):
            error = self._digits("after decimal point in numeric literal")
            if error:
                return error
        if self._skip("eE"):
            self._skip("+-")
            return self._digits("in exponent of numeric literal")
        return None

    def _digits(self, context: str) -> str | None:
        if self.at >= len(self.text):
            return self._END
        if self.text[self.at] not in _DIGITS:
            return self._invalid(self.text[self.at], context)
        while self._skip(_DIGITS):
            pass
        return None

    def _skip(self, characters: str) -> bool:
        """Step over one of these characters where it comes next."""
        found = self.at < len(self.text) and self.text[self.at] in characters
        self.at += found
        return found

    def _literal(self, word: str) -> str | None:
        for index, letter in enumerate(word[1:], start=1):
            self.at += 1
            if self.at >= len(self.text):
                return self._END
            if self.text[self.at] != letter:
                return self._invalid(
                    self.text[self.at], f"in literal {word} (expecting {_quoted(word[index])})"
                )
        self.at += 1
        return None

    def _invalid(self, character: str, context: str) -> str:
        return f"invalid character {_quoted(character)} {context}"


def _quoted(character: str) -> str:
    # Go looks at bytes, and shows one beyond ASCII as the character of that number.
    special = {"'": r"'\''", '"': "'\"'"}
    return special.get(character, f"'{quoted(chr(character.encode()[0]))[1:-1]}'")
