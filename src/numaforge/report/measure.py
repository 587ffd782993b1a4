"""Measurements for people and as a document: few machines in full, of many the outliers first."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from numaforge.fleet.measure.record import KINDS, MEASUREMENT, Figure, Measurement
from numaforge.fleet.measure.siblings import names_by_make, outliers_first, slow_of
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.report.hostnames import grouped_by_reason, in_short
from numaforge.report.terminal import Screen, style
from numaforge.report.wording import styled_lines, wrapped

_FEW = 2  # machines shown in full; of more, what is slow and a summary by make
_LOW_SHARE = 0.5  # of its link's limit: below it a figure is coloured, whatever siblings have


def lines(
    machines: Mapping[str, Measurement],
    failed: Mapping[str, str],
    min_share: float,
    screen: Screen,
    *,
    aligned: bool = False,
) -> list[str]:
    """Return the measurements as styled lines, none wider than the screen, unless a single word is."""
    shown: list[str] = []
    for name in outliers_first(machines, min_share):
        if aligned:
            shown += [*_aligned_lines(name, machines[name], screen.width), ""]
        elif len(machines) <= _FEW:
            shown += [*_machine_lines(name, machines[name], min_share, screen.width), ""]
        else:
            for slow in slow_of(machines[name], min_share):
                shown += styled_lines(f"{name}: {slow}", screen.width, fg="red")
    if len(machines) > _FEW and not aligned:
        shown += _fleet_lines(machines, min_share, screen.width)
    for reason, names in grouped_by_reason(failed):
        shown += styled_lines(f"{in_short(names)}: {reason}", screen.width, fg="red")
    return shown


def _machine_lines(name: str, measured: Measurement, min_share: float, width: int) -> Iterator[str]:
    yield style(f"{name}: {measured.make}", bold=True)
    plan = f"plan {measured.plan[:12]}" if measured.plan else "no plan"
    yield f"  measured {measured.measured_at}, Linux {measured.kernel}, {plan}"
    for evidence in measured.in_use:
        yield from wrapped(f"meanwhile {evidence}", width)
    slow = {slow_figure.figure.key for slow_figure in slow_of(measured, min_share)}
    for figure in measured.figures:
        colour = "red" if figure.key in slow else "yellow" if (figure.share or 1) < _LOW_SHARE else None
        text = wrapped(_figure(figure, measured), width)
        yield from (style(line, fg=colour) if colour else line for line in text)
    for gap in measured.not_measured:
        where = f" of {gap.place}" if gap.place else ""
        yield from wrapped(f"not measured: {_title(gap.kind)}{where}: {gap.why}", width)


def _title(kind: str) -> str:
    return KINDS[kind].title if kind in KINDS else kind


def _figure(figure: Figure, measured: Measurement) -> str:
    where = f", {figure.place}" if figure.place else ""
    text = (
        f"{_title(figure.kind)}{where}: {figure.median:g} {figure.unit} "
        f"({figure.lowest:g} to {figure.highest:g} in {counted(figure.runs, 'run')} of {figure.program})"
    )
    if figure.share is not None:
        text += f"; {figure.share:.0%} of the link's {figure.limit:g}"
    if of := measured.siblings.get(figure.key):
        text += f"; {of.machines} siblings have {of.median:g}"
    return text


def _fleet_lines(machines: Mapping[str, Measurement], min_share: float, width: int) -> Iterator[str]:
    """Yield the machines of each make with the lowest, median and highest of their figures."""
    for make, names in names_by_make(machines).items():
        slow = [name for name in names if slow_of(machines[name], min_share)]
        state = f"{len(slow)} slower than siblings" if slow else "none slower than siblings"
        yield style(f"{in_short(names)}: {counted(len(names), 'machine')}, {make}: {state}", bold=True)
        figures = grouped((figure.key, figure) for name in names for figure in machines[name].figures)
        for several in figures.values():
            yield from wrapped(_of_many(several), width)
        reasons = {f"{gap.kind}: {gap.why}" for name in names for gap in machines[name].not_measured}
        for reason in sorted(reasons):
            yield from wrapped(f"not measured: {reason}", width)


def _of_many(several: Sequence[Figure]) -> str:
    first, values = several[0], [figure.median for figure in several]
    steady = first.kind not in KINDS or KINDS[first.kind].steady
    where = f", {first.place}" if first.place and steady else ""
    return (
        f"{_title(first.kind)}{where}: {min(values):g}, {statistics.median(values):g}, {max(values):g} "
        f"{first.unit} (lowest, median, highest of {counted(len(values), 'machine')}, {first.program})"
    )


def alignment(measured: Measurement) -> list[dict[str, Any]]:
    """Return what alignment is worth: both figures of a kind, and how many times as good the aligned is."""
    losses = []
    for aligned, far in product(measured.figures, repeat=2):
        same = (far.kind, far.program) == (aligned.kind, aligned.program)
        if not same or not far.place.startswith(f"{aligned.place} to "):
            continue
        above, below = (aligned, far) if KINDS[aligned.kind].more_is_better else (far, aligned)
        losses.append(
            {
                "kind": aligned.kind,
                "unit": aligned.unit,
                "aligned": aligned.median,
                "not_aligned": far.median,
                "places": [aligned.place, far.place],
                "ratio": float(f"{above.median / below.median:.3g}") if below.median else None,
                "program": aligned.program,
            }
        )
    return losses


def _aligned_lines(name: str, measured: Measurement, width: int) -> Iterator[str]:
    yield style(f"{name}: {measured.make}", bold=True)
    for row in alignment(measured):
        ratio = "not known how much" if row["ratio"] is None else f"{row['ratio']:g} times as good"
        text = (
            f"{KINDS[row['kind']].title}: aligned ({row['places'][0]}) {row['aligned']:g} {row['unit']}, "
            f"across ({row['places'][1]}) {row['not_aligned']:g}: aligned is {ratio} ({row['program']})"
        )
        yield from wrapped(text, width)
    for gap in measured.not_measured:
        yield from wrapped(f"not measured: {gap.why}", width)


def document(
    machines: Mapping[str, Measurement], failed: Mapping[str, str], min_share: float, *, aligned: bool = False
) -> dict[str, Any]:
    """Return the same as JSON data, schema 1; a machine's document is the one that its node keeps."""
    documents: dict[str, dict[str, Any]] = {}
    for name in outliers_first(machines, min_share):
        documents[name] = {"measurement": MEASUREMENT.encode(machines[name])}
        if aligned:
            documents[name]["alignment"] = alignment(machines[name])
        else:
            documents[name]["slow"] = [str(slow) for slow in slow_of(machines[name], min_share)]
    return {"schema": 1, "min_share": min_share, "machines": documents, "failed": dict(failed)}
