"""Kubernetes quantities (`2Gi`, `500m`, `1e3`), exact, read and printed as Kubernetes does.

`Quantity` has Kubernetes' own errors and notations; `parse_quantity` is the same for people: a number, and an
error that says what would be accepted. Source: k8s.io/apimachinery pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from numaforge.errors import NumaforgeError

FORMAT_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_ERROR = "unable to parse quantity's suffix"

_SHAPE = re.compile(r"(?P<sign>[+-]?)(?P<number>[0-9]*(?:\.[0-9]*)?)(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)")
_EXPONENT = re.compile(r"[eE](?P<power>[+-]?[0-9]+)")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = {power // 10: suffix for suffix, power in _BINARY.items()} | {0: ""}

_LARGEST = 2**63 - 1


class QuantityError(ValueError):
    """A text is not a quantity; the message is Kubernetes' own."""


@dataclass(frozen=True)
class Quantity:
    """An amount with the notation it was written in: "BinarySI", "DecimalSI" or "DecimalExponent".

    `scale` is the power of ten in which Kubernetes holds the amount (-3 for millicores), which shows when the
    kubelet prints the structure instead of the quantity. `big` tells that it is held as a big decimal, which
    never converts to an integer: `1.5Gi`, `1048576Gi`.
    """

    amount: Fraction
    notation: str = "DecimalSI"
    scale: int = 0
    big: bool = False

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity. Raises QuantityError with Kubernetes' text."""
        match = _SHAPE.fullmatch(text)
        if not text or not match:
            raise QuantityError(FORMAT_ERROR)
        amount = Fraction(_plain_number(match["number"]))
        suffix = match["suffix"]
        exponent = _EXPONENT.fullmatch(suffix)
        decimals = len(match["number"].partition(".")[2])
        if suffix in _BINARY:
            big = _is_big_binary(match["number"], _BINARY[suffix])
            quantity = cls(amount * 2 ** _BINARY[suffix], "BinarySI", 0, big)
        elif suffix in _DECIMAL:
            quantity = cls(
                amount * Fraction(10) ** _DECIMAL[suffix], "DecimalSI", _DECIMAL[suffix] - decimals
            )
        elif exponent:
            power = int(exponent["power"])
            quantity = cls(amount * Fraction(10) ** power, "DecimalExponent", power - decimals)
        else:
            raise QuantityError(SUFFIX_ERROR)
        return replace(quantity, amount=-quantity.amount) if match["sign"] == "-" else quantity

    @classmethod
    def of_bytes(cls, count: int) -> Quantity:
        """Return a whole number of bytes, as the kubelet holds a capacity of memory."""
        return cls(Fraction(count), "BinarySI", 0)

    def plus(self, other: Quantity) -> Quantity:
        """Add as `Quantity.Add` does: a zero takes over the other's notation, the finer scale stays."""
        if self.amount == 0:
            return other
        if other.amount == 0:
            return self
        return Quantity(self.amount + other.amount, self.notation, min(self.scale, other.scale))

    def as_int64(self) -> int | None:
        """Return a whole number that fits 64 bits, or None where `Quantity.AsInt64` fails."""
        whole = self.amount.denominator == 1 and abs(self.amount) <= _LARGEST
        return int(self.amount) if whole and self.scale >= 0 and not self.big else None

    def ceiling(self) -> int:
        """Return the amount as `Quantity.Value` rounds it: up."""
        return ceil(self.amount)

    def milli_ceiling(self) -> int:
        """Return thousandths as `Quantity.MilliValue` rounds them: up."""
        return ceil(self.amount * 1000)

    def structure(self) -> str:
        """Return what Go's %v prints for a Quantity that is not behind a pointer."""
        value = self.amount / Fraction(10) ** self.scale
        return f"{{{{{int(value)} {self.scale}}} {{<nil>}}  {self.notation}}}"

    def __str__(self) -> str:
        if self.amount == 0:
            return "0"
        if self.notation == "BinarySI" and abs(self.amount) >= 1024 and self.amount.denominator == 1:
            number, power = _without_factor(int(self.amount), 1024, max(_BINARY_SUFFIX))
            return f"{number}{_BINARY_SUFFIX[power]}"
        nano = ceil(abs(self.amount) * 10**9) * (1 if self.amount > 0 else -1)
        number, steps = _without_factor(nano, 1000, 9)
        power = steps * 3 - 9
        if self.notation == "DecimalExponent":
            return f"{number}e{power}" if power else str(number)
        return f"{number}{_DECIMAL_SUFFIX[power]}"


ZERO = Quantity(Fraction(0))


def parse_quantity(text: str | int) -> Fraction:
    """Return the exact value of a quantity.

    Raises NumaforgeError for a suffix that Kubernetes does not know, such as `8GB`, and for a suffix alone,
    which Kubernetes reads as 0.
    """
    written = str(text)
    try:
        value = Quantity.parse(written).amount
    except QuantityError:
        value = None
    if value is None or not any(each.isdigit() for each in written):
        raise NumaforgeError(
            f"{text!r} is not a Kubernetes quantity",
            remedy="write a number with one of the suffixes Ki Mi Gi Ti Pi Ei, k M G T P E, m, or none, "
            "for example 8Gi, 500m or 1048576",
        )
    return value


def parse_bytes(text: str | int) -> int:
    """Return a quantity in whole bytes, rounded up as `Quantity.Value()` does."""
    return ceil(parse_quantity(text))


def format_bytes(count: int) -> str:
    """Return bytes as the shortest exact binary quantity: `2148Mi`, `3Gi`, `1000`."""
    for suffix, power in reversed(_BINARY.items()):
        if count and count % 2**power == 0:
            return f"{count >> power}{suffix}"
    return str(count)


def format_millis(count: int) -> str:
    """Return thousandths as the shortest exact quantity: `8`, `7500m`."""
    return f"{count}m" if count % 1000 else str(count // 1000)


def _is_big_binary(number: str, exponent: int) -> bool:
    """Return whether the fast path of ParseQuantity is left: a fraction, or too many digits to be sure."""
    whole, _, decimals = number.partition(".")
    digits = len(whole.lstrip("0")) or 1
    return bool(decimals) or 15 - digits - exponent * 3 // 10 - 1 < 0


def _plain_number(number: str) -> str:
    whole, _, decimals = number.partition(".")
    return f"{whole or '0'}.{decimals or '0'}"


def _without_factor(number: int, factor: int, most: int) -> tuple[int, int]:
    times = 0
    while times < most and number % factor == 0:
        number //= factor
        times += 1
    return number, times
