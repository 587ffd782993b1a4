"""CPU lists as the kubelet parses them, with its own errors.

Source: k8s.io/utils/cpuset. numaforge.cpulist is the notation for everything else; the kubelet is stricter
(no spaces) and words its errors differently.
"""

from __future__ import annotations

import re

from numaforge.kubelet.values.gotext import quoted

_INTEGER = re.compile(r"[+-]?[0-9]+")


class CpuSetError(ValueError):
    """A text is not a CPU list to the kubelet; the message is its own."""


def parse_cpuset(text: str) -> frozenset[int]:
    """Return the CPUs of a list such as `0-3,8`; the empty text is the empty set. Raises CpuSetError."""
    if text == "":
        return frozenset()
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start = atoi(first)
        end = atoi(last) if dash else start
        if start > end:
            raise CpuSetError(f'invalid range "{part}" ({start} > {end})')
        cpus.update(range(start, end + 1))
    return frozenset(cpus)


def atoi(text: str) -> int:
    """Read an integer as strconv.Atoi does. Raises CpuSetError with its text."""
    if not _INTEGER.fullmatch(text):
        raise CpuSetError(f"strconv.Atoi: parsing {quoted(text)}: invalid syntax")
    value = int(text)
    if abs(value) > 2**63 - 1:
        raise CpuSetError(f"strconv.Atoi: parsing {quoted(text)}: value out of range")
    return value
