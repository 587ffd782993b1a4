"""Numbers and booleans as Go parses them from text: files, flags and policy options.

Source: ParseInt, ParseUint, Atoi, ParseFloat and ParseBool in Go's strconv package.
"""

import re
import struct
from fractions import Fraction
from math import inf, isinf, isnan, nan, nextafter

from numaforge.kubelet_minors.values.gotext import quoted

_BASES = {"x": 16, "o": 8, "b": 2}
_UNDERSCORES = re.compile(r"[+-]?(0[xXoObB](_?[0-9a-fA-F])+|[0-9](_?[0-9])*)")
_FLOAT = re.compile(
    r"[+-]?(?P<decimal>(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?)"
    r"|[+-]?(?P<hexadecimal>0[xX]_?(?:[0-9a-fA-F][0-9a-fA-F_]*(?:\.[0-9a-fA-F_]*)?|"
    r"\.[0-9a-fA-F][0-9a-fA-F_]*)"
    r"[pP][+-]?[0-9][0-9_]*)"
)
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_LONE_UNDERSCORE = re.compile(r"(?<![0-9a-fA-FxX])_|_(?![0-9a-fA-F])")


class NumberError(ValueError):
    """A text that is not a number of its type; the message is Go's, `is_range` marks one out of range."""

    def __init__(self, function: str, text: str, *, is_range: bool) -> None:
        reason = "value out of range" if is_range else "invalid syntax"
        super().__init__(f"strconv.{function}: parsing {quoted(text)}: {reason}")
        self.is_range = is_range


def parse_int(text: str, base: int = 0, bits: int = 64, function: str = "ParseInt") -> int:
    """Parse an integer; with base 0 the prefix gives the base: `0x10`, `010` for 8, `1_000`.

    Raises NumberError.
    """
    try:
        size = parse_uint(text[1:] if text[:1] in ("+", "-") else text, base, bits)
    except NumberError as error:
        raise NumberError(function, text, is_range=error.is_range) from error
    is_negative = text[0] == "-"
    if size > 2 ** (bits - 1) - (not is_negative):
        raise NumberError(function, text, is_range=True)
    return -size if is_negative else size


def parse_uint(text: str, base: int = 0, bits: int = 64) -> int:
    """Parse an unsigned integer. Raises NumberError."""
    digits, known_base = _prefixed(text) if base == 0 else (text, base)
    value = 0
    for digit in digits:
        if digit == "_" and base == 0:
            continue
        size = int(digit, 36) if digit.isascii() and digit.isalnum() else known_base
        if size >= known_base:
            raise NumberError("ParseUint", text, is_range=False)
        value = value * known_base + size
        if value >= 2**bits:
            raise NumberError("ParseUint", text, is_range=True)
    if not digits or ("_" in digits and not _UNDERSCORES.fullmatch(text)):
        raise NumberError("ParseUint", text, is_range=False)
    return value


def parse_float32(text: str) -> float:
    """Parse a float32: decimal, `0x1p-2`, `inf`, `nan`. Raises NumberError."""
    special = {"inf": inf, "infinity": inf, "nan": nan}
    sign = text[:1] if text[:1] in ("+", "-") else ""
    word = text.removeprefix(sign).lower()
    if word in special and text.isascii() and not (sign and word == "nan"):
        return -special[word] if sign == "-" else special[word]
    match = _FLOAT.fullmatch(text)
    if not match or _LONE_UNDERSCORE.search(text) or "__" in text:
        raise NumberError("ParseFloat", text, is_range=False)
    plain = text.replace("_", "")
    try:
        value = float32(float.fromhex(plain)) if match["hexadecimal"] else _rounded_decimal(plain)
    except OverflowError:
        value = inf
    if isinf(value):
        raise NumberError("ParseFloat", text, is_range=True)
    return value


def float32(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return inf if value > 0 else -inf


def _prefixed(text: str) -> tuple[str, int]:
    if text[:1] != "0":
        return text, 10
    base = _BASES.get(text[1:2].lower())
    if base and len(text) > 2:
        return text[2:], base
    return (text[1:], 8) if len(text) > 1 else (text, 10)


def _rounded_decimal(plain: str) -> float:
    double = float(plain)
    single = float32(double)
    if single == double or isinf(double) or isnan(double):
        return single
    # Rounding twice is wrong only where the double lies halfway between two singles.
    for side in (nextafter(double, -inf), nextafter(double, inf)):
        neighbour = float32(side)
        if neighbour != single and abs(double - single) == abs(double - neighbour):
            exact = Fraction(plain)
            return (
                min((single, neighbour), key=lambda each: abs(exact - Fraction(each)))
                if exact != double
                else single
            )
    return single


def parse_bool(text: str) -> bool:
    """Parse a boolean. Raises ValueError with Go's message."""
    if text not in _BOOLEANS:
        raise ValueError(f"strconv.ParseBool: parsing {quoted(text)}: invalid syntax")
    return _BOOLEANS[text]


def truth(text: object) -> bool | None:
    """Return the value of a boolean, None where the text is not one."""
    return _BOOLEANS.get(str(text))
