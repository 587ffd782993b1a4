"""Whether two spellings of a kubelet setting mean the same: `1Gi` and `1024Mi`, `60s` and `1m0s`."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from numaforge.kubelet_minors.values.durations import DurationError, parse_duration
from numaforge.lib.errors import NumaforgeError
from numaforge.lib.quantity import parse_quantity


def differences(name: str, expected: Any, actual: Any) -> list[str]:
    """Return a line for each place where a running configuration differs from the expected one.

    A mapping may hold more keys than expected, because the kubelet fills in defaults; a list may not.
    """
    if isinstance(expected, Mapping):
        actual_value = actual if isinstance(actual, Mapping) else {}
        return [
            line
            for key, value in expected.items()
            for line in differences(f"{name}.{key}", value, actual_value.get(key))
        ]
    if _is_list(expected):
        actual_value = actual if _is_list(actual) else []
        if len(actual_value) != len(expected):
            return [f"{name} has {len(actual_value)} entries instead of {len(expected)}: {actual!r}"]
        return [
            line
            for index, (value, item) in enumerate(zip(expected, actual_value, strict=True))
            for line in differences(f"{name}[{index}]", value, item)
        ]
    if meaning(expected) == meaning(actual):
        return []
    return [f"{name} is {actual!r}, planned {expected!r}"]


def meaning(value: Any) -> Any:
    """Return the meaning of a scalar: quantities and durations as numbers, null and empty text as None."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return value
    text = str(value)
    # "5m" is five minutes or five thousandths; both sides are read alike, and the kubelet never writes a
    # duration without seconds.
    if text.endswith(("s", "h")):
        with suppress(DurationError):
            return parse_duration(text)
    try:
        return parse_quantity(text)
    except NumaforgeError:
        return text


_MOST_OF_A_BOOT = 100
"""A reboot changes MemTotal by at most one part in this many; a larger loss is a missing DIMM."""


def same_memory(predicted: str, actual: str, capacity_bytes: int, capacity: str) -> bool:
    """Whether Allocatable memory is as predicted for `capacity_bytes`, on a machine that has `capacity` now.

    Each boot moves the kernel (KASLR) and changes how much it reserves: MemTotal differs by some KiB or MiB,
    and Allocatable by as much, or by less where an eviction threshold is a percentage.
    """
    if meaning(predicted) == meaning(actual):
        return True
    drift = abs(parse_quantity(capacity) - capacity_bytes)
    off = abs(parse_quantity(actual) - parse_quantity(predicted))
    return off <= drift <= capacity_bytes / _MOST_OF_A_BOOT


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
