"""Kubernetes quantities (`2Gi`, `500m`, `1e3`), exact, as apimachinery's `resource.Quantity` reads them."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil

from numaforge.errors import NumaforgeError

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
}
_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<number>\d+\.?\d*|\.\d+)(?:(?P<suffix>[A-Za-z]*)|[eE](?P<exponent>[+-]?\d+))"
)


def parse_quantity(text: str | int) -> Fraction:
    """Return the exact value of a quantity.

    Raises NumaforgeError for a suffix that Kubernetes does not know, such as `8GB`.
    """
    match = _QUANTITY.fullmatch(str(text))
    suffix = (match["suffix"] or "") if match else ""
    if not match or (suffix not in _BINARY and suffix not in _DECIMAL):
        raise NumaforgeError(
            f"{text!r} is not a Kubernetes quantity",
            remedy="write a number with one of the suffixes Ki Mi Gi Ti Pi Ei, k M G T P E, m, or none, "
            "for example 8Gi, 500m or 1048576",
        )
    value = Fraction(match["number"].rstrip("."))
    if match["exponent"]:
        value *= Fraction(10) ** int(match["exponent"])
    value *= Fraction(_BINARY[suffix]) if suffix in _BINARY else _DECIMAL[suffix]
    return -value if match["sign"] == "-" else value


def parse_bytes(text: str | int) -> int:
    """Return a quantity in whole bytes, rounded up as `Quantity.Value()` does."""
    return ceil(parse_quantity(text))


def format_bytes(count: int) -> str:
    """Return bytes as the shortest exact binary quantity: `2148Mi`, `3Gi`, `1000`."""
    for suffix, size in reversed(_BINARY.items()):
        if count and count % size == 0:
            return f"{count // size}{suffix}"
    return str(count)


def format_millis(count: int) -> str:
    """Return thousandths as the shortest exact quantity: `8`, `7500m`."""
    return f"{count}m" if count % 1000 else str(count // 1000)
