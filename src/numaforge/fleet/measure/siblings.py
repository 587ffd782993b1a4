"""Each machine compared with others of its make: which is slow, and what keeps a node from service."""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from numaforge.fleet.audit.makes import LEAST_SIBLINGS
from numaforge.fleet.measure.record import KINDS, Figure, Measurement, OfSiblings
from numaforge.lib.ordering import grouped

UNSTEADY_SHARE = 0.1
"""The share below which a figure counts against a machine that differs between runs anyway."""

MIN_SHARE = 0.8  # the share of its siblings' median that a machine must reach, unless a profile sets another


@dataclass(frozen=True)
class Slow:
    """A figure that is worse than the siblings'; a `share` of 1.0 equals theirs."""

    figure: Figure
    of: OfSiblings
    share: float

    def __str__(self) -> str:
        where = f" of {self.figure.place}" if self.figure.place else ""
        kind = self.figure.of_kind
        title = kind.title if kind else self.figure.kind
        return (
            f"{title}{where}: {self.figure.median:g} {self.figure.unit}, where {self.of.machines} siblings "
            f"have {self.of.median:g}"
        )


def with_siblings(machines: Mapping[str, Measurement]) -> dict[str, Measurement]:
    """Return measurements, each with the medians of the others of its make: at least three of them."""
    compared, makes = {}, names_by_make(machines)
    for name, measured in machines.items():
        siblings = [machines[sibling] for sibling in makes[measured.make] if sibling != name]
        values = grouped((figure.key, figure.median) for sibling in siblings for figure in sibling.figures)
        medians = {
            key: OfSiblings(float(f"{statistics.median(of_key):.5g}"), len(of_key))
            for key, of_key in values.items()
            if len(of_key) >= LEAST_SIBLINGS
        }
        compared[name] = replace(measured, siblings=medians)
    return compared


def names_by_make(machines: Mapping[str, Measurement]) -> dict[str, list[str]]:
    return grouped((measured.make, name) for name, measured in machines.items())


def slow_of(measured: Measurement, min_share: float = MIN_SHARE) -> tuple[Slow, ...]:
    """Return the figures of a machine that are worse than its siblings', the worst first."""
    slow_figures = []
    for figure in measured.figures:
        of, kind = measured.siblings.get(figure.key), figure.of_kind
        if of is None or kind is None or not of.median or not (kind.more_is_better or figure.median):
            continue
        share = figure.median / of.median if kind.more_is_better else of.median / figure.median
        if share < (min_share if kind.steady else min(min_share, UNSTEADY_SHARE)):
            slow_figures.append(Slow(figure, of, share))
    return tuple(sorted(slow_figures, key=lambda slow: slow.share))


def outliers_first(machines: Mapping[str, Measurement], min_share: float = MIN_SHARE) -> list[str]:
    """Return the names of machines, those with the worst figure relative to their siblings first."""

    def worst(name: str) -> float:
        slow = slow_of(machines[name], min_share)
        return slow[0].share if slow else 1.0

    return sorted(machines, key=worst)


def why_held(measured: Measurement | None, min_share: float, command: str) -> tuple[str, ...]:
    """Return why a node's measurement keeps it from service; () where nothing is wrong.

    Unknown counts as wrong: no measurement, none with a figure, or none that siblings could be compared with.
    `command` is what to run in that case.
    """
    if measured is None:
        return (f"it was not measured: run `{command}`",)
    if not measured.figures:
        return (f"no figure was measured: run `{command}`, which names the programs that are missing",)
    if not any(figure.key in measured.siblings for figure in measured.figures):
        compared = f"was compared with fewer than {LEAST_SIBLINGS} siblings"
        where = f"run `{command}` with the others of its make in the inventory"
        return (f"what was measured at {measured.measured_at} {compared}: {where}",)
    return (*map(str, slow_of(measured, min_share)), *_lacking(measured, command))


def _lacking(measured: Measurement, command: str) -> Iterator[str]:
    measured_keys = {figure.key for figure in measured.figures}
    why = {gap.kind: gap.why for gap in measured.not_measured}
    for key, of in measured.siblings.items():
        kind, location, _ = key.split(" | ")
        if key not in measured_keys and kind in KINDS and KINDS[kind].steady:
            reason = f" ({why[kind]})" if kind in why else ""
            yield (
                f"{KINDS[kind].title} of {location} was not measured{reason}, {of.machines} siblings have "
                f"{of.median:g} {KINDS[kind].unit}: run `{command}`"
            )
