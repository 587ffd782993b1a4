"""Each GPU with its NICs and whether GPUDirect works between them, for a terminal."""

import re
from collections.abc import Iterable, Sequence

from numaforge.findings.gpudirect.pairs import Pair, Works
from numaforge.lib.ordering import grouped, natural
from numaforge.lib.quantity import counted
from numaforge.report.hostnames import folded
from numaforge.report.terminal import Screen, screen, style
from numaforge.report.wording import wrapped

_PLACE = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_COLOURS = {Works.YES: "green", Works.NO: "red", Works.UNKNOWN: "yellow"}


def pair_lines(pairs: Sequence[Pair], *, verbose: bool = False) -> list[str]:
    """Return the rails; `verbose` shows every GPU with every NIC."""
    rails = [pair for pair in pairs if pair.rail]
    table = [*_table(rails), ""] if rails else []
    return [*table, *_matrix(pairs), ""] if verbose and pairs else table


def doubt(pairs: Sequence[Pair]) -> str | None:
    """Return how many of the pairs that are on a rail are unknown, None where all are known."""
    rails = [pair for pair in pairs if pair.rail]
    unknown = sum(pair.works is Works.UNKNOWN for pair in rails)
    return f"{unknown} of {counted(len(rails), 'pair')} unknown" if unknown else None


def _matrix(pairs: Sequence[Pair]) -> list[str]:
    """Return each GPU's distance to each NIC and whether GPUDirect works, in tables as wide as the screen."""
    cells = {(pair.gpu, pair.nic): f"{pair.distance or '?'} {pair.works}" for pair in pairs}
    gpus, nics = dict.fromkeys(pair.gpu for pair in pairs), sorted({pair.nic for pair in pairs}, key=natural)
    cell_width = max(map(len, (*cells.values(), *nics))) + 2
    at_once = max(1, (max(screen().width, Screen().width) - max(map(len, gpus))) // cell_width)
    lines: list[str] = []
    for first in range(0, len(nics), at_once):
        some = nics[first : first + at_once]
        rows = [(gpu, *(cells[gpu, nic] for nic in some)) for gpu in gpus]
        lines += [*([""] if lines else []), *_aligned([("", *some), *rows])]
    return lines


def _table(pairs: Sequence[Pair]) -> list[str]:
    """Return a line for each rail, with why it does not work; on a narrow screen the reasons follow below."""
    width = max(screen().width, Screen().width)
    heading, *lines = _aligned(_rows(pairs, map(_answer, pairs)))
    below: list[str] = []
    if max(map(len, lines)) > width:
        heading, *lines = _aligned(_rows(pairs, (str(pair.works) for pair in pairs)))
        below = _reasons(pairs, width)
    coloured = [style(line, fg=_COLOURS[pair.works]) for line, pair in zip(lines, pairs, strict=True)]
    return [heading, *coloured, *below]


def _rows(pairs: Sequence[Pair], answers: Iterable[str]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("GPU", "", "NIC", "", "distance", "GPUDirect")]
    for one, answer in zip(pairs, answers, strict=True):
        address = f"{one.nic_address} by {one.direct}" if one.direct else one.nic_address
        rows.append((one.gpu, one.gpu_address, one.nic, address, one.distance or "?", answer))
    return rows


def _answer(pair: Pair) -> str:
    return f"{pair.works}: {pair.reason}" if pair.reason else str(pair.works)


def _reasons(pairs: Sequence[Pair], width: int) -> list[str]:
    """Return each reason once, as the first pair has it; others may differ only in PCI addresses."""
    alike = grouped((_PLACE.sub("", _answer(pair)), pair) for pair in pairs if pair.reason)
    lines = []
    for same in alike.values():
        too = "; the others likewise" if len({pair.reason for pair in same}) > 1 else ""
        gpus = folded(pair.gpu for pair in same)
        lines += ["", *wrapped(f"{gpus} {_answer(same[0])}{too}", width, indent="")]
    return lines


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows with aligned columns, the first row as a heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
    heading, *lines = ("  ".join(cells).rstrip() for cells in padded)
    return [style(heading, bold=True), *lines]
