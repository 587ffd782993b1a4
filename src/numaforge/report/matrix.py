"""The distances between devices: the table of `nvidia-smi topo -m`, also as JSON data."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult  # noqa: TID251 (a type)
from rich.text import Text

from numaforge.lib.cpulist import format_cpulist
from numaforge.machine.topology.links import LEGEND, LinkedDevice, LinkMatrix
from numaforge.machine.topology.model import Gpu
from numaforge.machine.topology.vendors import NVIDIA
from numaforge.report.columns import section, text_line
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
        devices = self.matrix.devices
        if not devices:
            yield text_line("no GPU, accelerator or NIC")
            return
        for number, block in enumerate(_blocks(self.matrix, options.max_width)):
            if number:
                yield text_line("")
            yield from _lines(block)
        names = [in_one_line(f"  {device.name}") for device in devices]
        addresses = [device.device.pci_address for device in devices]
        labels = [f"{device.label}{' (management)' if device.management else ''}" for device in devices]
        yield from section("Devices", _lines([names, addresses, labels]))
        legend = _legend(self.matrix)
        yield from section("Legend", _lines([[f"  {mark}" for mark in legend], [*legend.values()]]))
        gpus = [(one.name, one.device) for one in devices if isinstance(one.device, Gpu)]
        silent = [name for name, gpu in gpus if gpu.vendor == NVIDIA and not (gpu.uuid or gpu.nvlink_peers)]
        if silent:
            yield text_line("")
            yield text_line(f"NVLinks are not known of {some_of(silent)}: their driver did not answer.")


Column = list[str]  # a heading, then a cell for each row; cells may have several lines


def _blocks(matrix: LinkMatrix, width: int) -> Iterator[list[Column]]:
    """Yield blocks of columns that fit, each with the row names first."""
    names: Column = ["", *(device.name for device in matrix.devices)]
    links = (
        [in_one_line(device.name), *(row[number] or _UNKNOWN for row in matrix.links)]
        for number, device in enumerate(matrix.devices)
    )
    kinds = groupby(links, key=lambda column: column[0][:3])
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


def _affinity_columns(devices: Sequence[LinkedDevice]) -> Iterator[Column]:
    cpus = (_UNKNOWN if device.cpus is None else format_cpulist(device.cpus) for device in devices)
    yield ["CPU\naffinity", *("\n".join(wrapped_cpulist(cpulist, _CPULIST_WIDTH)) for cpulist in cpus)]
    yield ["NUMA\nnode", *(_number_or(device.numa_node, _UNKNOWN) for device in devices)]
    memory = ((isinstance(device.device, Gpu), device.memory_numa_node) for device in devices)
    yield ["GPU\nNUMA\nID", *(_number_or(node, "N/A") if is_gpu else "" for is_gpu, node in memory)]


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


def _legend(matrix: LinkMatrix) -> dict[str, str]:
    """Return the meaning of each mark that the table has."""
    shown = {re.sub(r"^NV\d+$", "NV#", link or _UNKNOWN) for row in matrix.links for link in row}
    legend = {**LEGEND, _UNKNOWN: "unknown: not reported by the firmware"}
    if any(device.management for device in matrix.devices):
        legend["(management)"] = "manages NVSwitches: no traffic of workloads, on no rail"
        shown.add("(management)")
    return {mark: meaning for mark, meaning in legend.items() if mark in shown}
