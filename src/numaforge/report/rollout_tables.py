"""A roll-out as people and programs look at it: ahead, while it runs, afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from numaforge.kubelet.config.comparison import meaning
from numaforge.report.terminal import plain
from numaforge.rollout.fleet import Fleet, FleetReport
from numaforge.rollout.launch import Pyinfra, Survey
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.orders import Situation, working
from numaforge.rollout.outlook import NodeOutlook
from numaforge.rollout.record import Ending

_COLOURS = {
    Ending.DONE: "green",
    Ending.UNCHANGED: "green",
    Ending.BLOCKED: "yellow",
    Ending.ABORTED: "yellow",
    Ending.ROLLED_BACK: "red",
    Ending.HELD: "bold red",
}
_LINES_OF_ENDED = 5


@dataclass
class LiveView:
    """Where a fleet is, all the time: a table on a terminal, else a line for each change; or JSON lines."""

    fleet: Fleet
    program: Pyinfra
    as_json: bool
    _begun: dict[str, float] = field(default_factory=dict)
    _told: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    _live: Live | None = None

    def __enter__(self) -> Self:
        console = Console(stderr=True, highlight=False)
        if not self.as_json and console.is_terminal:
            self._live = Live(console=console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def refresh(self) -> None:
        """Show what has changed since the last time."""
        for host, run in self.program.runs.items():
            outcome = self.fleet.outcomes.get(host)
            if outcome is None:
                self._tell(host, run.progress.node, run.progress.phase, run.progress.waits_for)
            else:
                said = tuple(filter(None, (outcome.reason, *outcome.details)))
                self._tell(host, run.progress.node, outcome.ending, said)
        if not self.program.runs and self.fleet.waits_for:
            self._tell("", "", "waits", (self.fleet.waits_for,))
        if self._live is not None:
            self._live.update(self._table())

    def _tell(self, host: str, node: str, phase: str, waits_for: tuple[str, ...]) -> None:
        if self._told.get(host) == (phase, waits_for):
            return
        if self._told.get(host, ("",))[0] != phase:
            self._begun[host] = time.monotonic()
        self._told[host] = (phase, waits_for)
        if self.as_json:
            moment = datetime.now(UTC).isoformat(timespec="milliseconds")
            event = {"time": moment, "host": host, "node": node, "phase": phase, "waits_for": waits_for}
            click.echo(json.dumps(event))
        elif self._live is None:
            words = ": ".join(filter(None, (phase, "; ".join(waits_for))))
            moment = f"{datetime.now().astimezone():%H:%M:%S}"
            click.echo(plain(f"{moment} {host or 'the fleet'} {words}"), err=True)

    def _table(self) -> RenderableType:
        fleet = self.fleet
        counts = f"{len(fleet.outcomes)} ended, {len(fleet.running)} in work, {len(fleet.waiting)} waiting"
        table = Table(box=None, pad_edge=False, expand=True)
        for title in ("Node", "Phase", "Since", "Waits for"):
            table.add_column(title, overflow="fold", ratio=1 if title == "Waits for" else None)
        for host in (*list(fleet.outcomes)[-_LINES_OF_ENDED:], *fleet.running):
            phase, waits_for = self._told.get(host, ("connects", ()))
            seconds = f"{time.monotonic() - self._begun.get(host, time.monotonic()):.0f} s"
            colour = next((colour for ending, colour in _COLOURS.items() if ending == phase), "")
            table.add_row(host, _text(phase, colour), seconds, _text("\n".join(waits_for[:3])))
        notes = [note for note in (fleet.stopped and f"stopped: {fleet.stopped}", fleet.waits_for) if note]
        return Group(_text(counts, "bold"), *(_text(note, "yellow") for note in notes[:1]), table)


def _text(text: object, style: str = "") -> Text:
    """Return a text that is shown as it is written: no markup, no control characters."""
    return Text(plain(text), style=style)


def outlook_tables(ahead: Sequence[NodeOutlook], survey: Survey, options: RolloutOptions) -> RenderableType:
    """Return what a roll-out would do, in its order."""
    parts: list[RenderableType] = []
    restarts = (
        f"{sum(each.outlook.restarts for each in ahead)} of {len(survey.outlooks)} kubelets have to restart"
    )
    budget = f"out of service together at most: {options.max_unavailable}"
    parts += [Text(f"{restarts}; {budget}", style="bold"), Text("")]
    table = Table(box=None, pad_edge=False)
    for title in ("Turn", "Node", "Domain", "Pods to evict", "In the way"):
        table.add_column(title, justify="right" if title in ("Turn", "Pods to evict") else "left")
    for turn, each in enumerate(ahead, start=1):
        troubles = "\n".join([*each.in_the_way, *each.waits_for]) or "-"
        row = (str(turn), each.outlook.host, each.domain or "-", str(each.evicted), troubles)
        table.add_row(*(_text(cell) for cell in row))
    parts.append(table)
    for each in ahead:
        parts += [Text(""), _text(each.outlook.host, "bold")]
        parts += [_text(f"  {sentence}") for sentence in each.outlook.sentences]
        parts += [_text(f"  Allocatable {line}") for line in _changes(each)]
    parts += [_text(f"{host} did not answer: {why}", "yellow") for host, why in survey.silent.items()]
    return Group(*parts)


def _changes(each: NodeOutlook) -> list[str]:
    return [
        f"{name}: {now} -> {then}"
        for name, (now, then) in each.allocatable.items()
        if meaning(now) != meaning(then)
    ]


def outlook_document(ahead: Sequence[NodeOutlook], survey: Survey) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "nodes": [
            {
                "host": each.outlook.host,
                "node": each.outlook.node,
                "failure_domain": each.domain,
                "pods_to_evict": each.evicted,
                "in_the_way": list(each.in_the_way),
                "waits_for": list(each.waits_for),
                "changes": list(each.outlook.sentences),
                "allocatable": {
                    name: {"now": now, "predicted": then} for name, (now, then) in each.allocatable.items()
                },
            }
            for each in ahead
        ],
        "without_restart": [each.host for each in survey.outlooks if not each.restarts],
        "without_kubelet": list(survey.without_kubelet),
        "silent": dict(survey.silent),
    }


def report_tables(report: FleetReport, nothing: str = "no kubelet has to restart") -> RenderableType:
    """Return how a roll-out ended; `nothing` is said where it had nothing to do."""
    table = Table(box=None, pad_edge=False)
    for title in ("Node", "", "Why"):
        table.add_column(title, overflow="fold")
    for host, outcome in report.outcomes.items():
        reason = "\n".join(filter(None, (outcome.reason, *outcome.details)))
        table.add_row(_text(host), _text(outcome.ending, _COLOURS[outcome.ending]), _text(reason))
    others = (("under way", report.under_way), ("not begun", report.not_begun), ("failed", report.failed))
    for state, hosts in others:
        for host, reason in hosts.items():
            table.add_row(_text(host), _text(state, "yellow"), _text(reason))
    parts: list[RenderableType] = [table] if table.row_count else [_text(nothing)]
    if report.stopped:
        parts.append(_text(f"stopped: {report.stopped}", "yellow"))
    return Group(*parts)


def report_document(
    report: FleetReport, exit_code: int | None = None, notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the same for programs; `notes` are what could not be written down."""
    return {
        "exit_code": int(report.exit_code) if exit_code is None else int(exit_code),
        "stopped": report.stopped,
        "nodes": {
            host: {"ending": outcome.ending, "reason": outcome.reason, "details": list(outcome.details)}
            for host, outcome in report.outcomes.items()
        },
        "under_way": dict(report.under_way),
        "not_begun": dict(report.not_begun),
        "failed": dict(report.failed),
        "notes": list(notes),
    }


def situation_tables(found: Situation) -> RenderableType:
    """Return what the cluster says of roll-outs."""
    parts: list[RenderableType] = []
    for led in found.rollouts:
        who = f"led by {led.leader}" if led.leader else f"ended, {led.state.get('ended', 'at no known time')}"
        parts.append(_text(f"Roll-out {led.name}: {who}" + (f", stopped by {led.stop}" if led.stop else "")))
    parts += [_text(f"Slot {slot.lease.name}: held by {slot.node} for {slot.runner}") for slot in found.slots]
    parts += [_text(trouble, "yellow") for trouble in found.troubles]
    table = Table(box=None, pad_edge=False)
    for title in ("Node", "State", "By", "Why"):
        table.add_column(title, overflow="fold")
    for each in found.nodes:
        state = "unreadable" if each.trouble else each.record.phase.value if each.record else each.ending
        marks = [state, *(["cordoned"] if each.unschedulable else []), *([] if each.ready else ["not Ready"])]
        row = (each.node, ", ".join(dict.fromkeys(marks)), working(each), each.trouble or each.reason)
        table.add_row(*(_text(cell) for cell in row))
    return Group(*parts, table) if parts or table.row_count else Text("no roll-out has been here")


def situation_document(found: Situation) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        "rollouts": [
            {**led.state, "name": led.name, "leader": led.leader, "stop": led.stop} for led in found.rollouts
        ],
        "slots": [
            {"slot": slot.lease.name, "node": slot.node, "runner": slot.runner} for slot in found.slots
        ],
        "nodes": [
            {
                "node": each.node,
                "phase": each.record.phase.value if each.record else None,
                "runner": each.record.runner if each.record else None,
                "transaction": each.record.transaction if each.record else None,
                "ending": each.ending or None,
                "rollout": each.record.rollout if each.record else None,
                "reason": each.reason,
                "trouble": each.trouble or None,
                "unschedulable": each.unschedulable,
                "ready": each.ready,
            }
            for each in found.nodes
        ],
        "troubles": list(found.troubles),
    }
