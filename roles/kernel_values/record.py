"""The record of what the kernel had before numaforge: a file on the host, PATH<tab>EARLIER<tab>OURS a line.

EARLIER is the value that was there before the first change, and stays that one however often a profile
changes. OURS is what was set last: a value that is another one by now was changed by someone else or by a
boot, and is not ours to put back. A swap device that was turned off is `swap DEVICE`, EARLIER its priority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numaforge.snapshot import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RECORD = catalogue.KERNEL_VALUES
_SWAP = "swap "


@dataclass(frozen=True)
class Recorded:
    """One value that was changed: what was there before, and what was set last."""

    earlier: str
    ours: str


def read_record(text: str | None) -> dict[str, Recorded]:
    """Return what a record holds, by path; a line of another form is passed over."""
    rows = (line.split("\t") for line in (text or "").splitlines() if not line.startswith("#"))
    return {row[0]: Recorded(row[1], row[2]) for row in rows if len(row) == 3}


def record_lines(record: Mapping[str, Recorded]) -> tuple[str, ...]:
    """Return the lines of a record, without its head."""
    return tuple(f"{path}\t{each.earlier}\t{each.ours}" for path, each in record.items())


def paths_of(record: Iterable[str]) -> tuple[str, ...]:
    """Return the recorded paths of the kernel, without swap devices."""
    return tuple(path for path in record if path.startswith(("/sys/", "/proc/sys/")))


def swaps_of(record: Mapping[str, Recorded]) -> dict[str, Recorded]:
    """Return the swap devices that were turned off, by device."""
    return {path.removeprefix(_SWAP): each for path, each in record.items() if path.startswith(_SWAP)}
