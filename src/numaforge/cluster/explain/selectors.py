"""CEL selectors of devices, as far as supported here: the rest is unknown, and never guessed.

k8s.io/dynamic-resource-allocation/cel of Kubernetes 1.37: a selector sees `device.driver`,
`device.attributes` and `device.capacity`, both by domain, and `device.allowMultipleAllocations`. Supported
are `&&`, `||`, `!`, comparisons, `in`, `has`, `quantity` and `semver` with their comparisons, and what
strings start with, end with or contain. Macros, arithmetic, `matches`, `? :` and the rest are unknown,
separately for each operand of `&&` and `||`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.quantity import parse_quantity

_MOST_CHARACTERS = 10_000
"""resource.k8s.io, CELSelectorExpressionMaxLength."""
_DEEPEST = 50
_TOKEN = re.compile(
    r"\s*(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>[0-9]+)(?![0-9.eEuUxX])"
    r"|\"(?P<double>[^\"\\\n]*)\"|'(?P<single>[^'\\\n]*)'|(?P<sign>&&|\|\||==|!=|<=|>=|[<>!()\[\].,?:+*/%{}-]))"
)
_ORDERS = ("<", "<=", ">", ">=")
_RELATIONS = ("==", "!=", *_ORDERS, "in")
_ENDS = {("sign", text) for text in ("&&", "||", "?", ")", "]", ",")}
_SEMVER = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})")


class SelectorUnknownError(Exception):
    """A part of a selector is not supported, or whether it matches a device is not known here."""


class SelectorFailsError(Exception):
    """A selector fails on a device, which ends the scheduler's allocation on its node."""


class Release(NamedTuple):
    """A semantic version."""

    text: str


@dataclass(frozen=True)
class SelectedDevice:
    """A device as selectors see it: attributes and capacities by domain and name; all, if `complete`."""

    driver: str
    attributes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    capacity: Mapping[str, Mapping[str, Fraction]] = field(default_factory=dict)
    several: bool = False
    complete: bool = True


class _Names(NamedTuple):
    """A CEL map; missing keys are unknown unless it is complete; `by_domain` has a map for each."""

    entries: Mapping[str, Any]
    complete: bool
    by_domain: bool = False


_Node = Callable[[SelectedDevice], Any]


def selects(expression: str, device: SelectedDevice) -> bool | None:
    """Return whether a selector matches a device, None if unknown; raises SelectorFailsError."""
    try:
        result = _compiled(expression)(device)
    except SelectorUnknownError:
        return None
    if type(result) is not bool:
        raise SelectorFailsError("it is neither true nor false")
    return result


@lru_cache(maxsize=1024)
def _compiled(expression: str) -> _Node:
    if len(expression) > _MOST_CHARACTERS:
        return _unknown
    tokens: list[tuple[str, str]] = []
    position, text = 0, expression.rstrip()
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None or token.lastgroup is None:
            return _unknown
        kind = "text" if token.lastgroup in ("double", "single") else token.lastgroup
        # Raw strings and bytes have a letter before their quotes, and are not supported.
        if kind == "text" and tokens and tokens[-1][0] == "name" and text[token.start()] in "\"'":
            return _unknown
        tokens.append((kind, token[token.lastgroup]))
        position = token.end()
    reader = _SelectorReader(tokens)
    try:
        node = reader.either(0)
    except SelectorUnknownError:
        return _unknown
    return node if reader.at_end else _unknown


def _unknown(_: SelectedDevice) -> Any:
    raise SelectorUnknownError


class _SelectorReader:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._tokens)

    def _next(self) -> tuple[str, str]:
        return ("", "") if self.at_end else self._tokens[self._at]

    def _sign(self, *signs: str) -> str | None:
        kind, text = self._next()
        if (kind == "sign" or text == "in") and text in signs:
            self._at += 1
            return text
        return None

    def _take(self, kind: str) -> str:
        if self._next()[0] != kind:
            raise SelectorUnknownError
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _expect(self, sign: str) -> None:
        if self._sign(sign) is None:
            raise SelectorUnknownError

    def either(self, depth: int) -> _Node:
        """Read an expression up to its end or its bracket; a conditional, `? :`, is not supported."""
        node = self._joined("||", lambda: self._joined("&&", lambda: self._part(depth), by=False), by=True)
        if self._next() == ("sign", "?"):
            raise SelectorUnknownError
        return node

    def _joined(self, operator: str, operand: Callable[[], _Node], *, by: bool) -> _Node:
        parts = [operand()]
        while self._sign(operator):
            parts.append(operand())
        return parts[0] if len(parts) == 1 else _decided(parts, by=by)

    def _part(self, depth: int) -> _Node:
        """Return one operand of `&&`: unknown, and skipped, where it is not supported."""
        start = self._at
        try:
            if depth > _DEEPEST:
                raise SelectorUnknownError
            node = self._relation(depth)
            if not self.at_end and self._next() not in _ENDS:
                raise SelectorUnknownError
        except SelectorUnknownError:
            self._at = start
            self._skip()
            return _unknown
        return node

    def _skip(self) -> None:
        """Skip an operand, up to the operator or bracket that ends it."""
        depth = 0
        while not self.at_end:
            token = self._next()
            if not depth and token in _ENDS:
                return
            if token[0] == "sign":
                depth += (token[1] in "([{") - (token[1] in ")]}")
            self._at += 1

    def _relation(self, depth: int) -> _Node:
        first_operand = self._unary(depth)
        operator = self._sign(*_RELATIONS)
        if operator is None:
            return first_operand
        right = self._unary(depth)
        if operator == "in":
            return lambda device: _is_in(first_operand(device), right(device))
        if operator in _ORDERS:
            return lambda device: _in_order(operator, first_operand(device), right(device))
        return lambda device: _same(first_operand(device), right(device)) == (operator == "==")

    def _unary(self, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise SelectorUnknownError
        if self._sign("!"):
            inner = self._unary(depth + 1)
            return lambda device: not _boolean(inner(device))
        if self._sign("-"):
            return _constant(-int(self._take("number")))
        return self._path(depth)[0]

    def _primary(self, depth: int) -> _Node:
        kind, text = self._next()
        self._at += 1
        if kind == "text":
            return _constant(text)
        if kind == "number":
            return _constant(int(text))
        if (kind, text) == ("sign", "("):
            node = self.either(depth + 1)
            self._expect(")")
            return node
        if (kind, text) == ("sign", "["):
            listed = self._listed(depth, "]")
            return lambda device: [element(device) for element in listed]
        if kind != "name":
            raise SelectorUnknownError
        if text in ("true", "false"):
            return _constant(text == "true")
        if text == "device":
            return lambda device: device
        if text in ("has", "quantity", "semver") and self._sign("("):
            return self._function(text, depth)
        raise SelectorUnknownError

    def _listed(self, depth: int, end: str) -> list[_Node]:
        if self._sign(end):
            return []
        elements = [self._relation(depth + 1)]
        while self._sign(","):
            elements.append(self._relation(depth + 1))
        self._expect(end)
        return elements

    def _function(self, name: str, depth: int) -> _Node:
        if name == "has":
            _, owner, member = self._path(depth)
            if member is None:
                raise SelectorUnknownError
            self._expect(")")
            return lambda device: _has(owner(device), member)
        text = self._take("text")
        self._expect(")")
        if name == "semver":
            return _constant(Release(text))
        try:
            return _constant(parse_quantity(text))
        except NumaforgeError:
            raise SelectorUnknownError from None

    def _path(self, depth: int) -> tuple[_Node, _Node, str | None]:
        """Return a value with its members; the owner and the name of the last one, None for an index."""
        node = owner = self._primary(depth)
        member: str | None = None
        while self._next() in (("sign", "."), ("sign", "[")):
            owner = node
            node, member = self._step(node, depth)
        return node, owner, member

    def _step(self, owner: _Node, depth: int) -> tuple[_Node, str | None]:
        if self._sign("["):
            index = self._relation(depth + 1)
            self._expect("]")
            return (lambda device: _member(owner(device), index(device))), None
        self._expect(".")
        name = self._take("name")
        if not self._sign("("):
            return (lambda device: _member(owner(device), name)), name
        if name not in _METHODS:
            raise SelectorUnknownError
        arguments, (count, method) = self._listed(depth, ")"), _METHODS[name]
        if len(arguments) != count:
            raise SelectorUnknownError
        return (lambda device: method(owner(device), *(argument(device) for argument in arguments))), None


def _constant(value: Any) -> _Node:
    return lambda _: value


def _decided(parts: list[_Node], *, by: bool) -> _Node:
    """Return `||`, decided by any true operand, or `&&`, decided by any false one."""

    def node(device: SelectedDevice) -> bool:
        doubt: Exception | None = None
        for part in parts:
            try:
                if _boolean(part(device)) == by:
                    return by
            except SelectorUnknownError as unknown:
                doubt = unknown
            except SelectorFailsError as failure:
                doubt = doubt or failure
        if doubt:
            raise doubt
        return not by

    return node


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise SelectorFailsError("no such overload")
    return value


def _member(owner: Any, name: Any) -> Any:
    if isinstance(owner, SelectedDevice):
        if name == "driver":
            return owner.driver
        if name == "allowMultipleAllocations":
            return owner.several
        if name in ("attributes", "capacity"):
            return _Names(getattr(owner, name), owner.complete, by_domain=True)
        raise SelectorUnknownError
    if not isinstance(owner, _Names) or not isinstance(name, str):
        raise SelectorUnknownError
    if owner.by_domain:  # a domain that the device lacks is empty
        return _Names(owner.entries.get(name, {}), owner.complete)
    if name in owner.entries:
        return owner.entries[name]
    if not owner.complete:
        raise SelectorUnknownError
    raise SelectorFailsError(f"no such key: {name}")


def _has(owner: Any, name: str) -> bool:
    if not isinstance(owner, _Names) or owner.by_domain:
        raise SelectorUnknownError
    if name not in owner.entries and not owner.complete:
        raise SelectorUnknownError
    return name in owner.entries


def _is_in(value: Any, group: Any) -> bool:
    if isinstance(group, _Names) and isinstance(value, str):
        return _has(group, value)
    if not isinstance(group, list):
        raise SelectorUnknownError
    return any(_same(value, member) for member in group)


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, _Names | SelectedDevice | list) or isinstance(right, _Names | SelectedDevice | list):
        raise SelectorUnknownError
    if Release in (type(left), type(right)):
        return type(left) is type(right) and _compared(left, right) == 0
    return type(left) is type(right) and bool(left == right)


def _in_order(operator: str, left: Any, right: Any) -> bool:
    if type(left) is not type(right) or type(left) not in (int, str):
        raise SelectorFailsError("no such overload")
    if operator in ("<", "<="):
        return bool(left < right) or (operator == "<=" and left == right)
    return bool(left > right) or (operator == ">=" and left == right)


def _compared(left: Any, right: Any) -> int:
    if type(left) is not type(right):
        raise SelectorFailsError("no such overload")
    if isinstance(left, Release):
        left_version, right_version = _SEMVER.fullmatch(left.text), _SEMVER.fullmatch(right.text)
        if left_version is None or right_version is None:  # a pre-release, or leading zeros
            raise SelectorUnknownError
        left_numbers, right_numbers = [*map(int, left_version.groups())], [*map(int, right_version.groups())]
        return (left_numbers > right_numbers) - (left_numbers < right_numbers)
    if not isinstance(left, Fraction):
        raise SelectorUnknownError
    return int(left > right) - int(left < right)


def _of_texts(compare: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def method(text: Any, part: Any) -> bool:
        if type(text) is not str or type(part) is not str:
            raise SelectorFailsError("no such overload")
        return compare(text, part)

    return method


def _lower(text: Any) -> str:
    if type(text) is not str:
        raise SelectorFailsError("no such overload")
    return "".join(character.lower() if character.isascii() else character for character in text)


_METHODS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "compareTo": (1, _compared),
    "isGreaterThan": (1, lambda left, right: _compared(left, right) > 0),
    "isLessThan": (1, lambda left, right: _compared(left, right) < 0),
    "startsWith": (1, _of_texts(str.startswith)),
    "endsWith": (1, _of_texts(str.endswith)),
    "contains": (1, _of_texts(str.__contains__)),
    "lowerAscii": (0, _lower),
}
