"""Durations as Go writes and reads them: `2m0s`, `1.5h`, `100ms`.

Source: Go's time package (ParseDuration, Duration.String).
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # the micro sign
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(?=\.?[0-9])(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>[^0-9.]*)")
_ESCAPED = re.compile(r'["\\]')
_LARGEST = 2**63 - 1
_MOST_DIGITS = 19


class DurationError(ValueError):
    """A text that is not a duration; the message is Go's."""


@dataclass(frozen=True, order=True)
class Duration:
    """A span of time in nanoseconds, printed as Go prints it."""

    nanoseconds: int

    @property
    def seconds(self) -> float:
        return self.nanoseconds / 10**9

    def __str__(self) -> str:
        sign, rest = ("-", -self.nanoseconds) if self.nanoseconds < 0 else ("", self.nanoseconds)
        if rest == 0:
            return "0s"
        for unit in ("ns", "µs", "ms"):
            if rest < _UNITS[unit] * 1000:
                return f"{sign}{_decimal(Fraction(rest, _UNITS[unit]))}{unit}"
        hours, rest = divmod(rest, _UNITS["h"])
        minutes, rest = divmod(rest, _UNITS["m"])
        seconds = f"{_decimal(Fraction(rest, _UNITS['s']))}s"
        if hours:
            return f"{sign}{hours}h{minutes}m{seconds}"
        return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


@lru_cache
def parse_duration(text: str) -> Duration:
    """Parse a duration, truncating each part to whole nanoseconds. Raises DurationError with Go's message."""
    rest = text[1:] if text.startswith(("-", "+")) else text
    if rest == "0":
        return Duration(0)
    invalid = f"time: invalid duration {quoted_in_bytes(text)}"
    if not rest:
        raise DurationError(invalid)
    total = 0
    while rest:
        match = _PART.match(rest)
        if not match or _is_beyond(match["whole"]):
            raise DurationError(invalid)
        if not match["unit"]:
            raise DurationError(f"time: missing unit in duration {quoted_in_bytes(text)}")
        if (unit := _UNITS.get(match["unit"])) is None:
            name = quoted_in_bytes(match["unit"])
            raise DurationError(f"time: unknown unit {name} in duration {quoted_in_bytes(text)}")
        part = int(match["whole"] or "0") * unit
        total += part + _nanoseconds(match["fraction"] or "", unit)
        if max(part, total) > _LARGEST + 1:
            raise DurationError(invalid)
        rest = rest[match.end() :]
    if text.startswith("-"):
        return Duration(-total)
    if total > _LARGEST:
        raise DurationError(invalid)
    return Duration(total)


def _is_beyond(digits: str) -> bool:
    significant = digits.lstrip("0")
    return len(significant) > _MOST_DIGITS or int(significant or "0") > _LARGEST + 1


def _nanoseconds(fraction: str, unit: int) -> int:
    """Return a fraction of a unit as Go computes it: the digits that fit an int64, times a float."""
    value, scale = 0, 1.0
    for digit in fraction:
        following = value * 10 + int(digit)
        if value > _LARGEST // 10 or following > _LARGEST + 1:
            break
        value, scale = following, scale * 10
    return int(float(value) * (float(unit) / scale))


def quoted_in_bytes(text: str) -> str:
    """Return a text as Go's package time quotes it: non-ASCII and unprintable bytes in hexadecimal."""
    shown = "".join(
        chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}"
        for byte in _ESCAPED.sub(r"\\\g<0>", text).encode()
    )
    return f'"{shown}"'


def _decimal(value: Fraction) -> str:
    integer, fraction = divmod(value, 1)
    if not fraction:
        return str(integer)
    digits = f"{fraction.numerator * 10**9 // fraction.denominator:09d}".rstrip("0")
    return f"{integer}.{digits}"
