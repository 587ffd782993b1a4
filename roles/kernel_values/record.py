"""The record of kernel values before numaforge: a file on the host with lines PATH<tab>EARLIER<tab>OURS.

EARLIER is the value before the first change, and stays the same however often a profile changes. OURS is what
was set last: a value that now differs was changed by someone else or by a boot, and is not ours to restore. A
swap device that was turned off is `swap DEVICE`, EARLIER its priority.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from numaforge.machine.snapshot import catalogue

RECORD = catalogue.KERNEL_VALUES
_SWAP = "swap "


class Recorded(NamedTuple):
    """A changed value: the one before the first change, and the one set last."""

    earlier: str
    ours: str


def read_record(text: str | None) -> dict[str, Recorded]:
    """Return a record's values, by path; lines of another form are skipped."""
    rows = (line.split("\t") for line in (text or "").splitlines() if not line.startswith("#"))
    return {row[0]: Recorded(row[1], row[2]) for row in rows if len(row) == 3}


def record_lines(record: Mapping[str, Recorded]) -> tuple[str, ...]:
    """Return the lines of a record, without its header."""
    return tuple(f"{path}\t{entry.earlier}\t{entry.ours}" for path, entry in record.items())


def paths_of(record: Iterable[str]) -> tuple[str, ...]:
    """Return the recorded kernel paths, without swap devices."""
    return tuple(path for path in record if path.startswith(("/sys/", "/proc/sys/")))


def swaps_of(record: Mapping[str, Recorded]) -> dict[str, Recorded]:
    """Return the swap devices that were turned off, by device."""
    return {path.removeprefix(_SWAP): entry for path, entry in record.items() if path.startswith(_SWAP)}
