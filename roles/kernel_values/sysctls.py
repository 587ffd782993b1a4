"""Sysctls by purpose: what peers set on GPU nodes, and the limits that are only raised.

To add a sysctl, add a row to sysctls.json: it is planned, written for each boot, set, verified, watched and
audited like the others. A profile sets any other one by its name (`tuning.sysctls`). One with a key of its
own in profiles is a row of machine/knobs.json, one that must never be set is a row of dangers.json.

A limit or reserve is only raised, and so is each number of a row with several. Left out on purpose: the
scheduler's latencies, gone since Linux 6.6 (EEVDF); default socket buffers of 128 MiB, which every socket of
every pod would take; rp_filter, which belongs to the network plugin.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from numaforge.lib.errors import PlanError
from numaforge.lib.given import digits
from numaforge.lib.reasons import Notice

if TYPE_CHECKING:
    from numaforge.machine.topology.model import NodeTopology

CONGESTION_CONTROLS = "net.ipv4.tcp_available_congestion_control"
_KERNEL_KBYTES = 1024


class Row(NamedTuple):
    """One sysctl of some sets, for machines that have `module` and at least `rails` rails.

    `share_of_memory` caps a value in kB, so it is less on a small machine: 100 is a hundredth.
    """

    sets: tuple[str, ...]
    name: str
    value: str
    reason: str
    source: str
    module: str | None = None
    rails: int = 0
    share_of_memory: int | None = None


_TABLES: Mapping[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
ROWS = tuple(Row(**{**row, "sets": tuple(row["sets"])}) for row in _TABLES["rows"])
RAISED_ONLY: Mapping[str, str] = _TABLES["raised only"]
"""What each limit bounds, with its document. All are whole numbers; a larger one allows more."""
IN_USE: Mapping[str, str] = _TABLES["in use"]
"""The kernel's counter of what is in use of a limit: restoring a limit never lowers it below that."""


def rows_for(
    topology: NodeTopology, sysctls: Mapping[str, str], sets: Iterable[str], notices: list[Notice]
) -> dict[str, tuple[str, Row]]:
    """Return the sets' rows that apply to this machine, by sysctl, each with the name of its set.

    `sysctls` are the values that the kernel has now.
    """
    chosen: dict[str, tuple[str, Row]] = {}
    for name in sets:
        for row in ROWS:
            if name not in row.sets or not _has_rails(topology, row.rails):
                continue
            if row.module and not _has_module(topology, sysctls, row):
                text = f"this kernel is not known to have {row.module}: {row.name} left alone"
                notices.append(Notice("no-such-module", text))
                continue
            chosen.setdefault(row.name, (name, row))
    return chosen


def value_for(topology: NodeTopology, current: str, row: Row) -> str:
    """Return a row's value on this machine; one capped by memory is rounded down to a power of two.

    `current` is the kernel's value now. Of several numbers, such as the minimum, default and maximum
    buffer of a TCP socket, each keeps the host's where that is larger: a newer kernel's default of 131072
    bytes is not lowered to an older one's 87380.
    """
    row_words, current_words = row.value.split(), current.split()
    if len(row_words) > 1:
        comparable = len(current_words) == len(row_words) and None not in map(
            digits, (*row_words, *current_words)
        )
        return (
            " ".join(str(max(map(int, pair))) for pair in zip(row_words, current_words, strict=True))
            if comparable
            else row.value
        )
    if row.share_of_memory is None or topology.memory_bytes is None:
        return row.value
    most = topology.memory_bytes // _KERNEL_KBYTES // row.share_of_memory
    return row.value if most >= int(row.value) else str(1 << max(0, most.bit_length() - 1))


def _has_rails(topology: NodeTopology, rails: int) -> bool:
    ethernet = [
        device
        for device in topology.rdma_devices
        if not device.management and any(port.link_layer == "Ethernet" for port in device.ports)
    ]
    return len(ethernet) >= rails


def _has_module(topology: NodeTopology, sysctls: Mapping[str, str], row: Row) -> bool:
    available = sysctls.get(CONGESTION_CONTROLS if row.value == "bbr" else row.name, "").split()
    return row.value in available or row.module in topology.loadable_modules


def is_raised_only(name: str, value: str) -> bool:
    """Whether a host that has more than `value` keeps what it has."""
    return name in RAISED_ONLY and digits(value) is not None


def refuse_odd_limits(sysctls: Mapping[str, str]) -> None:
    """Raise PlanError for a limit that is not a whole number: it could be set below what the host has.

    The kernel also reads 0x1 and 010, and some limits take -1.
    """
    for name, value in sysctls.items():
        if name in RAISED_ONLY and digits(value) is None:
            raise PlanError(
                f"{value!r} is not a limit",
                where=f"tuning.sysctls.{name}",
                remedy="write a whole number without a sign; a host that has more keeps what it has",
            )


def has_more(current: str | None, value: str) -> bool:
    """Whether a host's value is known and larger than `value`."""
    number, planned = digits(current), digits(value)
    return number is not None and planned is not None and number > planned
