"""Durations as Go writes and reads them: `2m0s`, `1.5h`, `100ms`.

Source: Go's time package (ParseDuration, Duration.String).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

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
_PART = re.compile(r"(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?P<unit>[^0-9.]*)")
_ESCAPED = re.compile(r'["\\]')
_LARGEST = 2**63 - 1


class DurationError(ValueError):
    """A text is not a duration; the message is Go's."""


@dataclass(frozen=True, order=True)
class Duration:
    """A span of time in nanoseconds, printed as Go prints it."""

    nanoseconds: int

    @property
    def seconds(self) -> float:
        """The span in seconds."""
        return self.nanoseconds / 10**9

    def __str__(self) -> str:
        sign, left = ("-", -self.nanoseconds) if self.nanoseconds < 0 else ("", self.nanoseconds)
        if left == 0:
            return "0s"
        for unit in ("ns", "µs", "ms"):
            if left < _UNITS[unit] * 1000:
                return f"{sign}{_decimal(Fraction(left, _UNITS[unit]))}{unit}"
        hours, left = divmod(left, _UNITS["h"])
        minutes, left = divmod(left, _UNITS["m"])
        seconds = f"{_decimal(Fraction(left, _UNITS['s']))}s"
        if hours:
            return f"{sign}{hours}h{minutes}m{seconds}"
        return f"{sign}{minutes}m{seconds}" if minutes else f"{sign}{seconds}"


def parse_duration(text: str) -> Duration:
    """Read a duration. Raises DurationError with Go's text."""
    rest = text[1:] if text.startswith(("-", "+")) else text
    if rest == "0":
        return Duration(0)
    if not rest:
        raise DurationError(f"time: invalid duration {quoted_in_bytes(text)}")
    total = Fraction(0)
    while rest:
        match = _PART.match(rest)
        if not match:
            raise DurationError(f"time: invalid duration {quoted_in_bytes(text)}")
        unit, number = match["unit"], match["number"]
        if int(number.partition(".")[0] or "0") > _LARGEST + 1:
            raise DurationError(f"time: invalid duration {quoted_in_bytes(text)}")
        if not unit:
            raise DurationError(f"time: missing unit in duration {quoted_in_bytes(text)}")
        if unit not in _UNITS:
            raise DurationError(
                f"time: unknown unit {quoted_in_bytes(unit)} in duration {quoted_in_bytes(text)}"
            )
        total += Fraction(number.rstrip(".") or "0") * _UNITS[unit]
        rest = rest[match.end() :]
    nanoseconds = int(total)
    if nanoseconds > _LARGEST:
        raise DurationError(f"time: invalid duration {quoted_in_bytes(text)}")
    return Duration(-nanoseconds if text.startswith("-") else nanoseconds)


def quoted_in_bytes(text: str) -> str:
    """Return a text as Go's package time quotes it: bytes in hexadecimal where not printable ASCII."""
    shown = "".join(
        chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}"
        for byte in _ESCAPED.sub(r"\\\g<0>", text).encode()
    )
    return f'"{shown}"'


def _decimal(value: Fraction) -> str:
    whole, fraction = divmod(value, 1)
    if not fraction:
        return str(whole)
    digits = f"{fraction.numerator * 10**9 // fraction.denominator:09d}".rstrip("0")
    return f"{whole}.{digits}"
