"""Changing values, one line for each kind: CPUs and NUMA nodes as lists, sysctls by name."""

import re
from collections.abc import Iterable

from numaforge.lib.cpulist import format_cpulist

_NUMBERED = (
    (
        re.compile(r"/sys/devices/system/cpu/cpu(?P<number>\d{1,5})/(?:cpufreq/|cpuidle/)?(?P<rest>.+)"),
        "cpus",
    ),
    (
        re.compile(
            r"/sys/devices/system/node/node(?P<number>\d{1,5})/hugepages/(?P<rest>[^/]+)/nr_hugepages(?P<to>:.*)"
        ),
        "NUMA nodes",
    ),
)
_CHOICES = re.compile(r": (?:[\w+-]+ )*\[(?P<chosen>[\w+-]+)\](?: [\w+-]+)* ->")
_SYSCTL = re.compile(r"/proc/sys/(?P<name>[^:]+)(?P<to>: .*)")


def condensed(moves: Iterable[str]) -> list[str]:
    """Return lines of changing values, with equal ones of many CPUs or NUMA nodes merged.

    `/sys/.../cpu0/cpufreq/scaling_governor: a -> b`, and so on to CPU 127, is `cpus 0-127 scaling_governor: a
    -> b`, at the place of the first. Of choices, `always [madvise] never`, shows the one in effect.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for move in moves:
        kind, rest, number = _numbered(_CHOICES.sub(r": \g<chosen> ->", move, count=1))
        groups.setdefault((kind, rest), []).extend(number)
    return [
        f"{kind} {format_cpulist(numbers)} {rest}" if numbers else rest
        for (kind, rest), numbers in groups.items()
    ]


def _numbered(move: str) -> tuple[str, str, list[int]]:
    for pattern, kind in _NUMBERED:
        if match := pattern.fullmatch(move):
            return kind, match["rest"] + match.groupdict().get("to", ""), [int(match["number"])]
    if sysctl := _SYSCTL.fullmatch(move):
        return "", sysctl["name"].replace("/", ".") + sysctl["to"], []
    return "", move, []
