"""Texts and numbers as Go's fmt and strconv print them."""

import struct
from decimal import Decimal

_SHORT = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_FIRST_POWER_WITH_EXPONENT = 6


def quoted(text: str) -> str:
    """Return a text as %q prints it: `two\\nlines` in double quotes."""
    return f'"{"".join(map(_escaped, text))}"'


def shown_float(value: float) -> str:
    """Return a float64 as %v prints it: `0.9`, `100000`, `2.592e+06`."""
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    shown = "".join(map(str, digits))
    power = len(shown) + int(exponent) - 1
    minus = "-" if sign else ""
    if -4 <= power < _FIRST_POWER_WITH_EXPONENT:
        return f"{minus}{Decimal(repr(abs(value))):f}".removesuffix(".0")
    fraction = f".{shown[1:]}" if len(shown) > 1 else ""
    return f"{minus}{shown[0]}{fraction}e{power:+03d}"


def shown_float32(value: float) -> str:
    """Return a float32 as %v prints it, with the fewest digits that identify it."""
    single = struct.pack("f", value)
    shortest = next(
        shown for digits in range(9) if struct.pack("f", float(shown := f"{value:.{digits}e}")) == single
    )
    return shown_float(float(shortest))


def _escaped(character: str) -> str:
    code = ord(character)
    if code in _SHORT:
        return _SHORT[code]
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
