"""How a roll-out ended: one screen for people, each host's result for a file, and JSON."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.report.columns import text_line
from numaforge.report.hostnames import grouped_by_reason, in_short
from numaforge.report.printable import in_one_line, plain
from numaforge.report.terminal import Screen
from numaforge.report.wording import ELLIPSIS
from numaforge.rollout.fleet import FleetReport

STYLES = {
    "held": "bold red",
    "left in progress": "bold red",
    "rolled back": "red",
    "refused by kubelet": "red",
    "refused": "yellow",
    "blocked": "yellow",
    "aborted": "yellow",
    "unreachable": "yellow",
    "not begun": "yellow",
    "done": "green",
    "unchanged": "green",
}
"""How each state of a host is coloured; the gravest first."""
AS_WISHED = ("done", "unchanged")
_LINES_OF_A_REASON = 2
_LINES_OF_DETAILS = 3


class HostResult(NamedTuple):
    """How the roll-out ended for one host; `state` is a key of STYLES."""

    host: str
    state: str
    reason: str = ""
    details: tuple[str, ...] = ()


class _Failure(NamedTuple):
    """Hosts that ended in one state for one reason."""

    state: str
    reason: str
    results: tuple[HostResult, ...]


def results_of(report: FleetReport) -> list[HostResult]:
    """Return the result of every host, the gravest first and then by name as the report has them."""
    results = [
        HostResult(host, outcome.ending.replace("-", " "), outcome.reason, outcome.details)
        for host, outcome in report.outcomes.items()
    ]
    failed: dict[str, Mapping[str, str]] = {
        "left in progress": report.under_way,
        "refused": report.refused,
        "unreachable": report.unreachable,
        "not begun": report.not_begun,
        "unchanged": dict.fromkeys(report.as_planned, ""),
    }
    results += [
        HostResult(host, state, why) for state, hosts in failed.items() for host, why in hosts.items()
    ]
    gravity = list(STYLES)
    return sorted(results, key=lambda result: gravity.index(result.state))


def counts_of(states: Iterable[str]) -> str:
    """Return the number of hosts per state, the good ones first: `290 done, 7 rolled back`."""
    number = Counter(states)
    order = [*AS_WISHED, *(state for state in STYLES if state not in AS_WISHED)]
    return ", ".join(f"{number[state]} {state}" for state in order if number[state])


def summary(
    report: FleetReport,
    screen: Screen,
    file: Path | None = None,
    notes: Sequence[str] = (),
    nothing: str = "no changes needed",
) -> RenderableType:
    """Return a roll-out's result on one screen, in broken lines: counts, failures, and where the rest is.

    `file` has each host's result, `notes` name what was not recorded, `nothing` is for an empty roll-out.
    """
    results = results_of(report)
    counts = f"{counted(len(results), 'host')}: {counts_of(result.state for result in results)}"
    head = _wrapped(counts if results else nothing, screen.width, "bold")
    if report.stopped:
        head += _wrapped(f"stopped: {report.stopped}", screen.width, "yellow", most=_LINES_OF_A_REASON)
    foot = [line for note in notes for line in _wrapped(note, screen.width, "yellow")]
    if file is not None:
        foot.append(text_line(f"each host: {file}"))  # left to the terminal to wrap, so that it can be copied
        foot += _wrapped("its log is beside that file; --verbose prints them all", screen.width)
    lines = sum(-(-len(line) // screen.width) for line in (*head, *foot))
    room = screen.height - 1 - lines  # the last line of the screen is for the prompt
    return Group(*head, *_failures(_failures_by_state(results), screen.width, room), *foot)


def results_text(report: FleetReport) -> str:
    """Return each host's result with every detail, as the text of a file."""
    lines = []
    for result in results_of(report):
        lines.append(": ".join(filter(None, (result.host, result.state, result.reason))))
        lines += [f"    {detail}" for detail in result.details]
    if report.stopped:
        lines.append(f"stopped: {report.stopped}")
    return plain("".join(f"{line}\n" for line in lines))


def report_document(
    report: FleetReport, exit_code: int | None = None, notes: Sequence[str] = (), file: Path | None = None
) -> dict[str, Any]:
    """Return the same for programs; `notes` name what could not be recorded."""
    return {
        "exit_code": int(report.exit_code) if exit_code is None else int(exit_code),
        "stopped": report.stopped,
        "counts": dict(Counter(result.state for result in results_of(report))),
        "nodes": {
            host: {"ending": outcome.ending, "reason": outcome.reason, "details": list(outcome.details)}
            for host, outcome in report.outcomes.items()
        },
        "under_way": dict(report.under_way),
        "unreachable": dict(report.unreachable),
        "refused": dict(report.refused),
        "not_begun": dict(report.not_begun),
        "failed": dict(report.failed),
        "without_restart": list(report.without_restart),
        "notes": list(notes),
        "file": str(file) if file else None,
    }


def _failures_by_state(results: Iterable[HostResult]) -> list[_Failure]:
    """Return the failures by state and reason, the gravest first."""
    by_host = {result.host: result for result in results if result.state not in AS_WISHED}
    by_state = grouped((result.state, result) for result in by_host.values())
    return [
        _Failure(state, reason, tuple(by_host[host] for host in hosts))
        for state, several in by_state.items()
        for reason, hosts in grouped_by_reason({result.host: result.reason for result in several})
    ]


def _failures(failures: Sequence[_Failure], width: int, room: int) -> Iterator[Text]:
    """Yield as many failures as fit, with details in the remaining room."""
    firsts = {failure.state: failure for failure in reversed(failures)}.values()
    shown: dict[_Failure, list[Text]] = {}
    # the first failure of each state before the others, so that no state is left out
    for number, failure in enumerate(sorted(failures, key=lambda one: one not in firsts), start=1):
        heading = ": ".join(filter(None, (f"{len(failure.results)} {failure.state}", failure.reason)))
        lines = [
            *_wrapped(heading, width, STYLES[failure.state], most=_LINES_OF_A_REASON),
            text_line(_shortened(f"  {in_short(result.host for result in failure.results)}", width)),
        ]
        if len(lines) + (number < len(failures)) > room:
            break
        room -= len(lines)
        shown[failure] = lines
    hidden = len(failures) - len(shown)
    room -= bool(hidden)
    for failure in filter(shown.__contains__, failures):
        yield from shown[failure]
        details = _details(failure.results[0], width)
        if len(details) <= room:
            yield from details
            room -= len(details)
    if hidden:
        yield text_line(f"and {counted(hidden, 'more reason')}")


def _details(result: HostResult, width: int) -> list[Text]:
    lines = [f"  {result.host}: {detail}" for detail in result.details]
    if len(lines) > _LINES_OF_DETAILS:
        hidden = len(lines) - _LINES_OF_DETAILS + 1
        lines = [*lines[: _LINES_OF_DETAILS - 1], f"  {result.host}: and {hidden} more"]
    return [text_line(_shortened(line, width)) for line in lines]


def _wrapped(text: str, width: int, style: str = "", most: int | None = None) -> list[Text]:
    """Return a text wrapped to `width`, in at most `most` lines; a count and its state stay on one line."""
    blank = "\N{NO-BREAK SPACE}"  # at which textwrap does not break
    words = re.sub(r"(?<=\d) (?=[a-z])", blank, in_one_line(text))
    wrap = textwrap.TextWrapper(width, subsequent_indent="  ", max_lines=most, placeholder=f" {ELLIPSIS}")
    wrap.break_on_hyphens = False
    return [text_line(line.replace(blank, " "), style=style) for line in wrap.wrap(words)]


def _shortened(text: str, width: int) -> str:
    line = in_one_line(text)
    return line if len(line) <= width else line[: width - 1] + ELLIPSIS
