"""The progress of a roll-out: a screen on a terminal, else few lines; or JSON lines."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from numaforge.lib.ordering import grouped
from numaforge.report.hostnames import grouped_by_reason, in_short, without_name
from numaforge.report.printable import in_one_line
from numaforge.report.summary import AS_WISHED, STYLES, counts_of
from numaforge.report.terminal import Screen, echo, rewritable, screen, show_json_line
from numaforge.report.wording import ELLIPSIS
from numaforge.rollout.fleet import Fleet
from numaforge.rollout.outcome import Progress
from numaforge.rollout.steps import Clock

_SMALL = 10  # in a fleet of up to this many hosts, every change is a line
_QUIET_SECONDS = 60.0
_STEPS = 20  # progress lines of a larger fleet, one per equal share of ended hosts
_PHASES = 3


@dataclass(frozen=True)
class Age:
    """The time since a moment, counted whenever it is shown: a fleet that is silent still moves."""

    since: float
    clock: Clock

    def __rich__(self) -> Text:
        return Text(f"{self.clock() - self.since:.0f} s")


class HostProgress(Protocol):
    """A host's run, with its progress."""

    progress: Progress


class _HostStatus(NamedTuple):
    """A host's status: its phase or end, and its reason or what it waits for."""

    node: str
    phase: str
    reasons: tuple[str, ...]


@dataclass
class LiveView:
    """The progress of a fleet; `runs` are the hosts that were begun."""

    fleet: Fleet
    runs: Mapping[str, HostProgress]
    as_json: bool
    clock: Clock = time.monotonic
    _statuses: dict[str, _HostStatus] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)
    _live: Live | None = None

    def __post_init__(self) -> None:
        self._lines = _Lines(self.clock)

    def __enter__(self) -> Self:
        if not self.as_json and (console := rewritable()) is not None:
            self._live = Live(console=console, transient=True, redirect_stdout=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def refresh(self) -> None:
        """Show what has changed since the last time."""
        for host, run in self.runs.items():
            phase, reasons = run.progress.phase, run.progress.waits_for
            if (outcome := self.fleet.outcomes.get(host)) is not None:
                phase, reasons = outcome.ending, (outcome.reason, *outcome.details)
            self._note(host, _HostStatus(run.progress.node, phase, tuple(filter(None, reasons))))
        waits = self.fleet.waits_for if self.fleet.waiting and not self.fleet.running else ""
        if waits:
            self._note("", _HostStatus("", "waits", (waits,)))
        if self._live is not None:
            ages = {host: Age(since, self.clock) for host, since in self._since.items()}
            self._live.update(fleet_screen(self.fleet, self._statuses, ages, screen()))
        elif not self.as_json:
            for line in self._lines.new(self.fleet, self._statuses, waits):
                echo(f"{datetime.now().astimezone():%H:%M:%S} {line}", err=True)

    def _note(self, host: str, status: _HostStatus) -> None:
        previous = self._statuses.get(host)
        if previous == status:
            return
        if previous is None or previous.phase != status.phase:
            self._since[host] = self.clock()
        self._statuses[host] = status
        if self.as_json:
            moment = datetime.now(UTC).isoformat(timespec="milliseconds")
            event = {"time": moment, "host": host, "node": status.node, "phase": status.phase}
            show_json_line({**event, "waits_for": status.reasons})


@dataclass
class _Lines:
    """The lines for a log: each reason once, and the fleet's progress from time to time."""

    clock: Clock
    _reasons: set[tuple[str, str]] = field(default_factory=set)
    _ended: int = 0
    _progress: str = ""
    _waits: str = ""

    def __post_init__(self) -> None:
        self._told_at = self.clock()
        self._waited_at = float("-inf")

    def new(self, fleet: Fleet, statuses: Mapping[str, _HostStatus], waits: str) -> list[str]:
        """Return the lines not yet printed."""
        lines = self._failures(fleet)
        size = len(fleet.outcomes) + len(fleet.running) + len(fleet.waiting)
        step = 1 if size <= _SMALL else -(-size // _STEPS)
        quiet = 0.0 if size <= _SMALL else _QUIET_SECONDS
        if waits and waits != self._waits and self.clock() - self._waited_at >= quiet:
            self._waits, self._waited_at = waits, self.clock()
            lines.append(f"the fleet waits: {waits}")
        ended = len(fleet.outcomes)
        progress = f"{fleet_counts(fleet)}{_in_progress(fleet, statuses)}"
        over = not fleet.running and (fleet.stopped is not None or not fleet.waiting)
        due = over or ended - self._ended >= step or self.clock() - self._told_at >= quiet
        if due and progress != self._progress and fleet.outcomes.keys() | fleet.running.keys():
            self._ended, self._progress, self._told_at = ended, progress, self.clock()
            lines.append(progress)
        return lines

    def _failures(self, fleet: Fleet) -> list[str]:
        """Return the reasons that no host had before; hosts that get them later are only counted."""
        hosts_of: dict[str, dict[str, str]] = {}
        for host, outcome in fleet.outcomes.items():
            state = outcome.ending.replace("-", " ")
            if state not in AS_WISHED and (state, without_name(outcome.reason, host)) not in self._reasons:
                hosts_of.setdefault(state, {})[host] = outcome.reason
        for state, reasons in hosts_of.items():
            self._reasons |= {(state, without_name(reason, host)) for host, reason in reasons.items()}
        return [
            ": ".join(filter(None, (state, in_short(hosts), reason)))
            for state, reasons in hosts_of.items()
            for reason, hosts in grouped_by_reason(reasons)
        ]


def fleet_counts(fleet: Fleet) -> str:
    """Return the progress of a fleet: `120 of 300 ended (118 done, 2 blocked), 4 in progress`."""
    size = len(fleet.outcomes) + len(fleet.running) + len(fleet.waiting)
    endings = counts_of(outcome.ending.replace("-", " ") for outcome in fleet.outcomes.values())
    ended = f"{len(fleet.outcomes)} of {size} ended" + (f" ({endings})" if endings else "")
    return f"{ended}, {len(fleet.running)} in progress"


_CONNECTS = _HostStatus("", "connects", ())


def _in_progress(fleet: Fleet, statuses: Mapping[str, _HostStatus]) -> str:
    """Return the most frequent phases of hosts in progress, and what they wait for."""
    each = ((host, statuses.get(host, _CONNECTS)) for host in fleet.running)
    phases = grouped(((status.phase, status.reasons), host) for host, status in each)
    ordered = sorted(phases.items(), key=lambda item: -len(item[1]))
    parts = [
        f"; {phase}: {in_short(hosts)}" + (f" ({reasons[0]})" if reasons else "")
        for (phase, reasons), hosts in ordered[:_PHASES]
    ]
    return "".join([*parts, f"; {ELLIPSIS}" if len(ordered) > _PHASES else ""])


def fleet_screen(
    fleet: Fleet, statuses: Mapping[str, _HostStatus], ages: Mapping[str, Age], room: Screen
) -> RenderableType:
    """Return a fleet's progress on one screen: counts, hosts in progress, oldest phase first, ended ones."""
    notes = [note for note in (fleet.stopped and f"stopped: {fleet.stopped}", fleet.waits_for) if note][:1]
    table = Table(box=None, pad_edge=False, expand=True)
    for title in ("Node", "Phase", "Since", "Waits for"):
        table.add_column(title, no_wrap=True, overflow="ellipsis", ratio=1 if title == "Waits for" else None)
    rows = max(1, room.height - 3 - len(notes))  # counts, headings, and the line of the cursor
    running = sorted(fleet.running, key=lambda host: ages[host].since if host in ages else math.inf)
    hosts = [*running, *reversed(fleet.outcomes)][:rows]
    hidden = len(running) - rows + 1 if len(running) > rows else 0
    for host in hosts[: rows - 1] if hidden else hosts:
        state = statuses.get(host, _CONNECTS)
        phase = _text(state.phase, STYLES.get(state.phase.replace("-", " "), ""))
        table.add_row(_text(host), phase, ages.get(host, ""), _text(" ".join(state.reasons)))
    lines = [_text(fleet_counts(fleet), "bold"), *(_text(note, "yellow") for note in notes)]
    return Group(*lines, table, *([_text(f"and {hidden} more in progress")] if hidden else []))


def _text(text: object, style: str = "") -> Text:
    """Return one line without markup and control characters."""
    return Text(in_one_line(text), style=style, no_wrap=True, overflow="ellipsis")
