"""Kubernetes quantities (`2Gi`, `500m`, `1e3`), exact, read and printed as Kubernetes does.

`Quantity` has Kubernetes' own errors and notations; `parse_quantity` is for users: it returns a number, and
its error says what would be accepted. Source: k8s.io/apimachinery pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor, trunc

from numaforge.lib.errors import NumaforgeError

FORMAT_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_ERROR = "unable to parse quantity's suffix"

NUMBER_ERROR = "unable to parse numeric part of quantity"
_LARGEST_EXPONENT = 10_000
EXPONENT_ERROR = f"the exponent is beyond {_LARGEST_EXPONENT}, with which the kubelet does not come to an end"

_SHAPE = re.compile(
    r"(?P<value>(?P<sign>[+-]?)0*+(?P<whole>[0-9]*+)(?:\.(?P<decimals>[0-9]*+))?+)"
    r"(?P<suffix>[eEinumkKMGTP]*+[-+]?[0-9]*+)"
)
_EXPONENT = re.compile(r"[eE](?P<power>[+-]?[0-9]+)")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_BINARY_SUFFIX = {power // 10: suffix for suffix, power in _BINARY.items()} | {0: ""}

_LARGEST = 2**63 - 1
_NANO = -9
_UNPRINTED = 10**4000
# As many digits fit an int64 in any case.
_SAFE_DIGITS = 18

# No quantity of a machine is larger, and the cost of computing grows with the exponent.
_ABSURD = re.compile(r"^.{64}|[eE][+-]?[0-9]{4}", re.DOTALL)


class QuantityError(ValueError):
    """A text is not a quantity; the message is Kubernetes' own."""


@dataclass(frozen=True)
class Quantity:
    """An amount with its notation: "BinarySI", "DecimalSI" or "DecimalExponent".

    Kubernetes holds most amounts as an int64 with a power of ten, `scale` (-3 for millicores), which shows
    when the kubelet prints the structure instead of the quantity. `big`: held as a big decimal, which never
    converts to an integer: `1.5Gi`, `1048576Gi`.
    """

    amount: Fraction
    notation: str = "DecimalSI"
    scale: int = 0
    big: bool = False

    @classmethod
    @lru_cache(maxsize=4096)  # the machines of a fleet repeat the same texts
    def parse(cls, text: str) -> Quantity:
        """Read a quantity; raises QuantityError with Kubernetes' text, and where Kubernetes would hang."""
        match = _SHAPE.fullmatch(text)
        if not text or not match:
            raise QuantityError(FORMAT_ERROR)
        notation, exponent = _interpreted(match["suffix"])
        if abs(exponent) > _LARGEST_EXPONENT:
            raise QuantityError(EXPONENT_ERROR)
        if len(text) > _LARGEST_EXPONENT:
            raise QuantityError(f"the text has more than {_LARGEST_EXPONENT} characters")
        integer, decimals = match["whole"] or "0", match["decimals"] or ""
        size = _of_digits(integer + decimals)
        sign = -1 if match["sign"] == "-" else 1
        scale = 0 if notation == "BinarySI" else exponent - len(decimals)
        factor = 2**exponent if notation == "BinarySI" else 1
        is_small = _is_small(notation, exponent, integer, decimals) and scale >= _NANO
        if is_small and size * factor <= _LARGEST:
            return cls(sign * Fraction(size * factor) * Fraction(10) ** scale, notation, scale)
        if not any(map(str.isdigit, match["value"])):
            raise QuantityError(NUMBER_ERROR)
        amount = (
            Fraction(size) * factor * Fraction(10) ** (scale if notation != "BinarySI" else -len(decimals))
        )
        amount = Fraction(ceil(amount * 10**9), 10**9)
        if notation == "BinarySI":
            amount = min(amount, Fraction(_LARGEST))
            notation = "DecimalSI" if 0 < amount < 1 else notation
        return cls(sign * amount, notation, 0, True)

    @classmethod
    def of_bytes(cls, count: int) -> Quantity:
        """Return a whole number of bytes, as the kubelet holds a capacity of memory."""
        return cls(Fraction(count), "BinarySI", 0)

    def plus(self, addend: Quantity) -> Quantity:
        """Add as `Quantity.Add` does: a zero takes over the other's notation, the finer scale stays."""
        if self.amount == 0:
            return addend
        if addend.amount == 0:
            return self
        scale, amount = min(self.scale, addend.scale), self.amount + addend.amount
        is_big = self.big or addend.big or abs(amount) / Fraction(10) ** scale > _LARGEST
        return Quantity(amount, self.notation, 0 if is_big else scale, is_big)

    def as_int64(self) -> int | None:
        """Return a whole number that fits 64 bits, or None where `Quantity.AsInt64` fails."""
        is_whole = self.amount.denominator == 1 and abs(self.amount) <= _LARGEST
        return int(self.amount) if is_whole and self.scale >= 0 and not self.big else None

    def ceiling(self) -> int:
        """Return the amount as `Quantity.Value` rounds it: away from zero, 0 where it is beyond an int64."""
        return self._scaled(0)

    def milli_ceiling(self) -> int:
        """Return thousandths as `Quantity.MilliValue` rounds them, which is as `ceiling` does."""
        return self._scaled(3)

    def rounded_to_milli(self) -> Quantity:
        """Return an amount from 0 on in thousandths, rounded half up, as the kubelet keeps reserved CPUs."""
        return Quantity(Fraction((self._scaled(6) + 500) // 1000, 1000), self.notation, -3)

    def structure(self) -> str:
        """Return what Go's %v prints for a Quantity that is not behind a pointer."""
        if self.big:
            # Go prints a pointer there, which differs each time.
            return f"{{{{0 0}} {{0x...}}  {self.notation}}}"
        value = self.amount / Fraction(10) ** self.scale
        return f"{{{{{int(value)} {self.scale}}} {{<nil>}}  {self.notation}}}"

    def __str__(self) -> str:
        if self.amount == 0:
            return "0"
        if self.notation == "BinarySI" and abs(self.amount) >= 1024 and self.amount.denominator == 1:
            number, power = _without_factor(int(self.amount), 1024)
            return f"{_digits_of(number)}{_BINARY_SUFFIX.get(power, '')}"
        # Kubernetes holds no finer part than 1n, so nothing is rounded here.
        number, zeros = _without_factor(int(self.amount * 10**9), 10)
        power = zeros - 9
        number *= 10 ** (power % 3)
        power -= power % 3
        if self.notation == "DecimalExponent":
            return f"{_digits_of(number)}e{power}" if power else _digits_of(number)
        return f"{_digits_of(number)}{_DECIMAL_SUFFIX.get(power, '')}"

    def _scaled(self, digits: int) -> int:
        exact = self.amount * 10**digits
        if not self.big:
            rounded = ceil(exact) if exact > 0 else floor(exact)
            return rounded if abs(rounded) <= _LARGEST else 0
        if exact > 0 or abs(self.amount) == _LARGEST:
            return _lower_bits(ceil(exact))
        # Below zero Kubernetes takes the lower bits before it divides.
        nanos = _lower_bits(int(self.amount * 10**9))
        divisor: int = 10 ** (9 - digits)
        return trunc(Fraction(nanos, divisor)) + (nanos % divisor != 0)


ZERO = Quantity(Fraction(0))


def parse_quantity(text: str | int) -> Fraction:
    """Return the exact value; raises NumaforgeError for an unknown suffix (`8GB`), and a suffix alone."""
    written = str(text)
    try:
        value = None if _ABSURD.search(written) else Quantity.parse(written).amount
    except QuantityError:
        value = None
    shape = _SHAPE.fullmatch(written)
    if value is None or shape is None or not any(map(str.isdigit, shape["value"])):
        shorter = written[:-1] if re.fullmatch(r"[0-9.]{1,20}([kKMGTP]i?)[bB]", written) else "8Gi"
        raise NumaforgeError(
            f"{text!r} is not a Kubernetes quantity",
            remedy="write a number with one of the suffixes Ki Mi Gi Ti Pi Ei, k M G T P E, m, or none, "
            f"for example {shorter}, 500m or 1048576",
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


def format_amount(amount: Fraction) -> str:
    """Return a quantity in its shortest exact form, to thousandths: `3`, `80Gi`, `500m`."""
    return format_bytes(int(amount)) if amount.denominator == 1 else format_millis(ceil(amount * 1000))


def format_millis(count: int) -> str:
    """Return thousandths as the shortest exact quantity: `8`, `7500m`."""
    return f"{count}m" if count % 1000 else str(count // 1000)


def _interpreted(suffix: str) -> tuple[str, int]:
    """Return a suffix's notation and its power of two or ten. Raises QuantityError."""
    if suffix in _DECIMAL:
        return "DecimalSI", _DECIMAL[suffix]
    if suffix in _BINARY:
        return "BinarySI", _BINARY[suffix]
    exponent = _EXPONENT.fullmatch(suffix)
    power = _of_digits(exponent["power"]) if exponent and len(suffix) < _LARGEST_EXPONENT else _LARGEST + 1
    if not -_LARGEST - 1 <= power <= _LARGEST:
        raise QuantityError(SUFFIX_ERROR)
    # An int64 is read, and the int32 of its lower bits is kept.
    return "DecimalExponent", (power + 2**31) % 2**32 - 2**31


def _of_digits(digits: str) -> int:
    """Read decimal digits, beyond Python's limit for one conversion."""
    return int(Decimal(digits))


def _digits_of(number: int) -> str:
    return str(number) if abs(number) < _UNPRINTED else f"{Decimal(number):f}"


def _lower_bits(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def _is_small(notation: str, exponent: int, integer: str, decimals: str) -> bool:
    """Return whether Kubernetes tries an int64: by its digits the number surely fits."""
    if notation != "BinarySI":
        return len(integer) + len(decimals) <= _SAFE_DIGITS
    return not decimals and 15 - len(integer) - exponent * 3 // 10 - 1 >= 0


def _without_factor(number: int, factor: int) -> tuple[int, int]:
    powers = [factor]
    while number % powers[-1] == 0:
        powers.append(powers[-1] ** 2)
    times = 0
    for power in range(len(powers) - 2, -1, -1):
        if number % powers[power] == 0:
            number //= powers[power]
            times += 2**power
    return number, times


def counted(count: int | Fraction, singular: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 package`, `2 packages`."""
    return f"{count} {singular if count == 1 else plural or singular + 's'}"
