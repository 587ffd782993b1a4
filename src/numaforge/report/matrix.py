"""The distances between devices: the table of `nvidia-smi topo -m`, also as JSON data."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult  # noqa: TID251 (a type)
from rich.text import Text

from numaforge.lib.cpulist import format_cpulist
from numaforge.machine.topology.links import LEGEND, LinkedDevice, LinkMatrix
from numaforge.machine.topology.model import Gpu
from numaforge.machine.topology.vendors import NVIDIA
from numaforge.report.columns import text_line
from numaforge.report.printable import in_one_line
from numaforge.report.wording import some_of, wrapped_cpulist

_UNKNOWN = "?"
_CPULIST_WIDTH = 16

# By the bandwidth of a link; links not named here have no style.
_STYLES = {r"\b(NV\d+|XGMI)\b": "bold green", r"\b(PIX|PXB)\b": "green", r"\bSYS\b": "dim"}


def matrix_document(matrix: LinkMatrix) -> dict[str, Any]:
    """Return the matrix as JSON data: an unknown link is null, CPUs are cpulists."""
    names = [device.name for device in matrix.devices]
    return {
        "schema": 1,
        "devices": [
            {
                "name": device.name,
                "pci_address": device.device.pci_address,
                "label": device.label,
                "cpu_affinity": None if device.cpus is None else format_cpulist(device.cpus),
                "numa_node": device.numa_node,
                "memory_numa_node": device.memory_numa_node,
                "management": device.management,
            }
            for device in matrix.devices
        ],
        "links": {
            name: dict(zip(names, row, strict=True)) for name, row in zip(names, matrix.links, strict=True)
        },
        "nvlink_domains": [
            {"gpus": list(domain.gpus), "fabric": domain.fabric} for domain in matrix.nvlink_domains
        ],
    }


@dataclass(frozen=True)
class MatrixTable:
    """The matrix for a terminal, in blocks of columns that fit."""

    matrix: LinkMatrix

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the table, the devices, the legend and what is not known."""
        if not self.matrix.devices:
            yield text_line("no GPU, accelerator or NIC")
            return
        for number, block in enumerate(_blocks(self.matrix, options.max_width)):
            if number:
                yield text_line("")
            yield from _lines(block)
        yield from _section("Devices", _lines(list(_device_columns(self.matrix.devices))))
        yield from _section("Legend", _lines(list(_legend_columns(self.matrix))))
        yield from _notes(self.matrix)


Column = list[str]  # a heading, then a cell for each row; cells may have several lines


def _blocks(matrix: LinkMatrix, width: int) -> Iterator[list[Column]]:
    """Yield blocks of columns that fit, each with the row names first."""
    names: Column = ["", *(device.name for device in matrix.devices)]
    kinds = groupby(_link_columns(matrix), key=lambda column: column[0][:3])
    groups = [list(alike) for _, alike in kinds] + [list(_affinity_columns(matrix.devices))]
    block = [names]
    for group in groups:
        together = _line_width([names, *group]) <= width
        for columns in [group] if together else [[index] for index in group]:
            if len(block) > 1 and _line_width([*block, *columns]) > width:
                yield block
                block = [names]
            block.extend(columns)
    yield block


def _line_width(columns: Iterable[Column]) -> int:
    return sum(_width(column) + 1 for column in columns) - 1


def _link_columns(matrix: LinkMatrix) -> Iterator[Column]:
    for column, device in enumerate(matrix.devices):
        yield [in_one_line(device.name), *(row[column] or _UNKNOWN for row in matrix.links)]


def _affinity_columns(devices: Sequence[LinkedDevice]) -> Iterator[Column]:
    cpus = (_UNKNOWN if device.cpus is None else format_cpulist(device.cpus) for device in devices)
    yield ["CPU\naffinity", *("\n".join(wrapped_cpulist(cpulist, _CPULIST_WIDTH)) for cpulist in cpus)]
    yield ["NUMA\nnode", *(_number_or(device.numa_node, _UNKNOWN) for device in devices)]
    yield [
        "GPU\nNUMA\nID",
        *(
            _number_or(device.memory_numa_node, "N/A") if isinstance(device.device, Gpu) else ""
            for device in devices
        ),
    ]


def _device_columns(devices: Sequence[LinkedDevice]) -> Iterator[Column]:
    yield [in_one_line(f"  {device.name}") for device in devices]
    yield [device.device.pci_address for device in devices]
    yield [f"{device.label}{' (management)' if device.management else ''}" for device in devices]


def _legend_columns(matrix: LinkMatrix) -> Iterator[Column]:
    shown = {re.sub(r"^NV\d+$", "NV#", link or _UNKNOWN) for row in matrix.links for link in row}
    legend = {**LEGEND, _UNKNOWN: "unknown: not reported by the firmware"}
    if any(device.management for device in matrix.devices):
        legend["(management)"] = "manages NVSwitches: no traffic of workloads, on no rail"
        shown.add("(management)")
    used = {mark: meaning for mark, meaning in legend.items() if mark in shown}
    yield [f"  {mark}" for mark in used]
    yield list(used.values())


def _notes(matrix: LinkMatrix) -> Iterator[Text]:
    silent = [
        device.name for device in matrix.devices if isinstance(device.device, Gpu) and _silent(device.device)
    ]
    if silent:
        yield text_line("")
        yield text_line(f"NVLinks are not known of {some_of(silent)}: their driver did not answer.")


def _silent(gpu: Gpu) -> bool:
    return gpu.vendor == NVIDIA and gpu.uuid is None and not gpu.nvlink_peers


def _section(title: str, lines: Iterable[RenderableType]) -> Iterator[RenderableType]:
    yield text_line("")
    yield text_line(title, "bold")
    yield from lines


def _lines(columns: Sequence[Column]) -> Iterator[Text]:
    widths = [_width(column) for column in columns]
    for row in zip(*columns, strict=True):
        parts = [cell.split("\n") for cell in row]
        for number in range(max(map(len, parts))):
            cells = (part[number] if number < len(part) else "" for part in parts)
            line = " ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
            text = Text(line, no_wrap=True)
            for pattern, style in _STYLES.items():
                text.highlight_regex(pattern, style)
            yield text


def _width(column: Column) -> int:
    return max(len(line) for cell in column for line in cell.split("\n"))


def _number_or(number: int | None, otherwise: str) -> str:
    return otherwise if number is None else str(number)
