"""Many host names in few characters: `gpu-[01-31,40]`, as clusters' own tools write them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from numaforge.lib.ordering import natural
from numaforge.lib.quantity import counted
from numaforge.report.wording import some_of

if TYPE_CHECKING:
    from numaforge.machine.topology.trays import Disagreement

MOST_NAMES = 10_000
"""Limit of names in one range. Kubernetes supports 5,000 nodes."""

_RANGE = re.compile(r"(.*?)\[([0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*)\](.*)")
_HOST = "HOST"
_HOST_NAME = re.compile(r"[\w.:%-]{1,253}")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
_LONGEST = 60  # leaves room for a reason on 80 columns
_NUMBER = re.compile(r"([^.]*[^.0-9])([0-9]+)([^.0-9]*(?:\..*)?)|(.*?)([0-9]+)([^0-9]*)")
"""The last number of a name's first label; without one, the last of all, as in an address."""


def is_host_name(name: str) -> bool:
    """Whether SSH may find a host by this name: a name, an address or an alias of ~/.ssh/config."""
    labels = [name] if ":" in name else name.split(".")
    return (
        _HOST_NAME.fullmatch(name) is not None
        and not name.startswith("-")
        and name.count(":") != 1
        and (":" in name or all(1 <= len(one) <= 63 for one in labels))
    )


def folded(names: Iterable[str]) -> str:
    """Return names as ranges of the last number of their first label: `gpu-[01-02,04],login`."""
    split: list[tuple[str, str, str]] = []
    for name in sorted(set(names), key=natural):
        match = _NUMBER.fullmatch(name)
        parts = [part for part in match.groups() if part is not None] if match else [name, "", ""]
        split.append((parts[0], parts[1], parts[2]))
    padded = {
        (prefix, suffix, len(number)) for prefix, number, suffix in split if number[:-1].startswith("0")
    }
    groups: dict[tuple[str, str, int | None], list[str]] = {}
    for prefix, number, suffix in split:
        width = len(number) if (prefix, suffix, len(number)) in padded else 0 if number else None
        groups.setdefault((prefix, suffix, width), []).append(number)
    return ",".join(_together(prefix, numbers, suffix) for (prefix, suffix, _), numbers in groups.items())


def unfolded(text: str) -> list[str]:
    """Return the names in a range, `gpu-[01-02,04]`, or a plain name. Raises ValueError with the reason."""
    match = _RANGE.fullmatch(text)
    if match is None:
        return [text]
    prefix, ranges, suffix = match.groups()
    names = [f"{prefix}{number}{suffix}" for part in ranges.split(",") for number in _numbers(part)]
    return [name for shorter in names for name in unfolded(shorter)]


def _numbers(part: str) -> list[str]:
    first, _, last = part.partition("-")
    low, high = int(first), int(last or first)
    if low > high:
        raise ValueError(f"{part} runs backwards; write {last}-{first}")
    if high - low >= MOST_NAMES:
        raise ValueError(f"{part} are more than {MOST_NAMES} names")
    return [str(number).zfill(len(first)) for number in range(low, high + 1)]


def in_short(names: Iterable[str]) -> str:
    """Return folded names; of a long list, the first and the number of others."""
    text = folded(names := [*names])
    return text if len(text) <= _LONGEST else some_of(names)


def without_name(reason: str, host: str) -> str:
    """Return a reason with the host's name replaced, as several hosts may share it."""
    return re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", _HOST, reason)


def alike(reason: str, host: str) -> str:
    """Return a reason with the host's name and addresses replaced, as several hosts may share it."""
    return _ADDRESS.sub("ADDRESS", without_name(reason, host))


def disagreement_text(disagreement: Disagreement) -> str:
    """Return what trays differ in: `NVLink clique 0011.7: list of IMEX nodes: 3f2a (18 nodes) on ...`."""
    groups = (
        f"{value} on {counted(len(hosts), 'tray')}, {in_short(hosts)}"
        for value, hosts in disagreement.groups.items()
    )
    return f"the trays of {disagreement.rack} do not agree on the {disagreement.what}: {'; '.join(groups)}"


def grouped_by_reason(reasons: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Return each reason with its hosts, the most frequent first, with `HOST` for a name in it."""
    groups: dict[str, list[str]] = {}
    having = Counter(reasons.values())
    for host, reason in reasons.items():
        groups.setdefault(reason if having[reason] > 1 else without_name(reason, host), []).append(host)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return [(reasons[hosts[0]] if len(hosts) == 1 else reason, hosts) for reason, hosts in ordered]


def _together(prefix: str, numbers: Sequence[str], suffix: str) -> str:
    if len(numbers) == 1:
        return f"{prefix}{numbers[0]}{suffix}"
    runs: list[list[str]] = []
    for number in numbers:
        if runs and int(number) == int(runs[-1][-1]) + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    ranges = (run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"{prefix}[{','.join(ranges)}]{suffix}"
