"""The kernel's cpulist notation: `"0-3,64-67"` for a set of CPUs or NUMA nodes."""

from collections.abc import Collection, Iterable
from itertools import groupby

from numaforge.lib.errors import NumaforgeError

# The kernel's largest NR_CPUS is 8192; a range beyond it is a typing error, not a machine.
_LARGEST_ID = 65535
_LONGEST_ID = 20  # digits; int() refuses thousands of them

# Its form, for schemas; that ranges ascend is for `parse_cpulist` to say.
CPULIST_PATTERN = r"^(\s*[0-9]+(-[0-9]+)?\s*(,\s*[0-9]+(-[0-9]+)?\s*)*)?$"


def parse_cpulist(text: str) -> frozenset[int]:
    """Return the ids in a cpulist, none in ""; raises NumaforgeError for anything else."""
    ids: set[int] = set()
    for part in text.strip().split(",") if text.strip() else []:
        first, dash, last = part.strip().partition("-")
        if not _is_id(first) or (dash and not _is_id(last)):
            raise NumaforgeError(
                f"{text!r} is not a cpulist: {part!r} is neither an id nor a range",
                remedy='write ids and ascending ranges, for example "0-3,64-67"',
            )
        low, high = int(first), int(last) if dash else int(first)
        if high < low or high > _LARGEST_ID:
            raise NumaforgeError(
                f"{text!r} is not a cpulist: the range {part!r} is empty or too large",
                remedy='write ids and ascending ranges, for example "0-3,64-67"',
            )
        ids.update(range(low, high + 1))
    return frozenset(ids)


def format_cpulist(ids: Iterable[int]) -> str:
    """Return the shortest cpulist of a set of ids, as the kernel and the kubelet print it."""
    ordered = sorted(set(ids))
    runs = (list(run) for _, run in groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0]))
    return ",".join(str(run[0][1]) if len(run) == 1 else f"{run[0][1]}-{run[-1][1]}" for run in runs)


def cpus_named(ids: Collection[int]) -> str:
    """Return CPUs with their noun: `CPU 3`, `CPUs 0-3`."""
    return f"CPU{'s' if len(ids) != 1 else ''} {format_cpulist(ids)}"


def format_cpumask(ids: Iterable[int]) -> str:
    """Return a set of CPUs as the kernel's bitmap: groups of 32 bits in hex, the highest first."""
    bits = f"{sum(1 << cpu for cpu in set(ids)):x}"
    width = -(-len(bits) // 8) * 8
    padded = bits.zfill(width)
    groups = [padded[start : start + 8] for start in range(0, width, 8)]
    return ",".join([groups[0].lstrip("0") or "0", *groups[1:]])


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_ID
