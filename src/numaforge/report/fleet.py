"""What a run will do to a fleet, or has done: identical hosts grouped, on one screen."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import ExitCode
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.node.bundle import FileChange, diff
from numaforge.report.hostnames import alike, folded, without_name
from numaforge.report.terminal import Screen, style
from numaforge.report.wording import styled_lines, wrapped

STATES = {
    "in progress": "red",
    "held": "red",
    "rolled back": "red",
    "failed": "red",
    "refused": "red",
    "blocked": "yellow",
    "unreachable": "yellow",
    "to change": "cyan",
    "changed": "green",
    "unchanged": "green",
    "planned": "green",
}
"""How each state of a host is coloured; the gravest first."""
FAILED = ("in progress", "held", "rolled back", "failed", "refused", "blocked", "unreachable")
_EXIT_CODES = {
    "in progress": ExitCode.HELD,
    "held": ExitCode.HELD,
    "rolled back": ExitCode.ROLLED_BACK,
    "failed": ExitCode.NO,
    "refused": ExitCode.NO,
    "blocked": ExitCode.NO,
    "unreachable": ExitCode.UNREACHABLE,
}
_CHANGING = ("to change", "changed")
EVERY_HOST = "all"
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_SHOWN_GROUPS = 12
_LINES_OF_FILES = 2
_LINES_OF_VALUES = 3
_LINES_OF_REASON = 8


_LISTS = ("sentences", "moves", "changed", "pending")
CHANGES = ("state", "drains", "reboots", *_LISTS)
"""The fields of HostSummary that a change of the host sets."""


@dataclass(frozen=True)
class HostSummary:
    """One host of a run, with its changes.

    `state` is a key of STATES, `reason` why it failed or how the change ended. `drains`: its pods leave,
    `reboots`: it reboots. `sentences` describe changes besides the `changed` files and the values in `moves`,
    `pending` what a later run does; `notices` are the plan's by id. `seconds` is the duration of the change,
    None without one.
    """

    host: str
    state: str = "planned"
    reason: str = ""
    drains: bool = False
    reboots: bool = False
    sentences: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()
    changed: tuple[FileChange, ...] = ()
    pending: tuple[str, ...] = ()
    notices: tuple[tuple[str, str], ...] = ()
    seconds: float | None = None

    def merged(self, earlier: "HostSummary") -> "HostSummary":
        """Return this change merged with an earlier one of the same host."""
        both: dict[str, Any] = {
            name: tuple(dict.fromkeys((*getattr(earlier, name), *getattr(self, name)))) for name in _LISTS
        }
        state = self.state if self.state != "unchanged" else earlier.state
        return replace(
            self,
            **both,
            state=state,
            drains=self.drains or earlier.drains,
            reboots=self.reboots or earlier.reboots,
        )

    @property
    def files(self) -> dict[str, tuple[str, ...]]:
        """The paths that are `new`, `changed` or `removed`."""
        kinds: dict[str, list[str]] = {"new": [], "changed": [], "removed": []}
        for change in self.changed:
            kind = "new" if change.old is None else "removed" if change.new is None else "changed"
            kinds[kind].append(change.path)
        return {kind: tuple(paths) for kind, paths in kinds.items() if paths}


def exit_code(hosts: Iterable[HostSummary]) -> ExitCode:
    """Return the exit code of a run: 0 when every host is, or can be, as planned, else the gravest code."""
    states = {summary.state for summary in hosts}
    return next((code for state, code in _EXIT_CODES.items() if state in states), ExitCode.YES)


_NUMBERED = (
    (
        re.compile(r"/sys/devices/system/cpu/cpu(?P<number>\d{1,5})/(?:cpufreq/|cpuidle/)?(?P<rest>.+)"),
        "cpus",
    ),
    (
        re.compile(
            r"/sys/devices/system/node/node(?P<number>\d{1,5})/hugepages/(?P<rest>[^/]+)/nr_hugepages(?P<to>:.*)"
        ),
        "NUMA nodes",
    ),
)


_CHOICES = re.compile(r": (?:[\w+-]+ )*\[(?P<chosen>[\w+-]+)\](?: [\w+-]+)* ->")


_SYSCTL = re.compile(r"/proc/sys/(?P<name>[^:]+)(?P<to>: .*)")


def condensed(moves: Iterable[str]) -> list[str]:
    """Return lines of changing values, of equal ones one: `cpus 0-127 scaling_governor: a -> b`."""
    groups: dict[tuple[str, str], list[int]] = {}
    for move in moves:
        kind, rest, number = _numbered(_CHOICES.sub(r": \g<chosen> ->", move, count=1))
        groups.setdefault((kind, rest), []).extend(number)
    return [
        f"{kind} {format_cpulist(numbers)} {rest}" if numbers else rest
        for (kind, rest), numbers in groups.items()
    ]


def _numbered(move: str) -> tuple[str, str, list[int]]:
    for pattern, kind in _NUMBERED:
        if match := pattern.fullmatch(move):
            return kind, match["rest"] + match.groupdict().get("to", ""), [int(match["number"])]
    if sysctl := _SYSCTL.fullmatch(move):
        return "", sysctl["name"].replace("/", ".") + sysctl["to"], []
    return "", move, []


def fleet_lines(hosts: Sequence[HostSummary], screen: Screen, *, hints: Iterable[str] = ()) -> list[str]:
    """Return a fleet in lines of the screen's width: counts, then identical hosts, the gravest first."""
    groups = _alike(hosts)
    lines = styled_lines(_counts_by_state(hosts), screen.width, bold=True)
    for group in groups[:_SHOWN_GROUPS]:
        lines += _group_lines(group, screen.width, whole=len(groups) == 1)
    notes = [*hints]
    if hidden := groups[_SHOWN_GROUPS:]:
        names = folded(summary.host for group in hidden for summary in group)
        notes.insert(0, f"and {counted(len(hidden), 'more group')}: {names}")
    return [*lines, *(line for note in notes for line in wrapped(note, screen.width, ""))]


def diff_lines(hosts: Sequence[HostSummary], chosen: Collection[str]) -> list[str]:
    """Return the diffs of the chosen hosts, styled: each once, below its hosts and its file."""
    texts = grouped(
        ((change.path, tuple(diff(change))), summary.host)
        for summary in hosts
        if summary.host in chosen or EVERY_HOST in chosen
        for change in summary.changed
    )
    lines = []
    for (path, text), names in texts.items():
        lines += ["", style(f"{folded(names)}: {path}", bold=True)]
        lines += [style(line, fg=_COLOURS.get(line[:1])) for line in text]
    return lines


def fleet_document(hosts: Sequence[HostSummary], *, dry: bool, seconds: float) -> dict[str, Any]:
    """Return a fleet for programs, every host whole."""
    return {
        "schema": 1,
        "dry": dry,
        "seconds": round(seconds, 1),
        "counts": dict(Counter(summary.state for summary in hosts)),
        "hosts": {
            summary.host: {
                "state": summary.state,
                "reason": summary.reason,
                "drains": summary.drains,
                "reboots": summary.reboots,
                "does": list(summary.sentences),
                "values": list(summary.moves),
                "files": {kind: list(paths) for kind, paths in summary.files.items()},
                "pending": list(summary.pending),
                "notices": dict(summary.notices),
                "seconds": None if summary.seconds is None else round(summary.seconds, 1),
            }
            for summary in hosts
        },
    }


def _counts_by_state(hosts: Sequence[HostSummary]) -> str:
    number = Counter(summary.state for summary in hosts)
    counts = ", ".join(f"{count} {state}" for state in reversed(STATES) if (count := number[state]))
    changing = [summary for summary in hosts if summary.state in _CHANGING]
    drained, booted = sum(one.drains for one in changing), sum(one.reboots for one in changing)
    more = ", ".join(
        f"{count} {word}" for count, word in ((drained, "drained"), (booted, "rebooted")) if count
    )
    return f"{counted(len(hosts), 'host')}: {counts}{f' ({more})' if more else ''}"


def _alike(hosts: Iterable[HostSummary]) -> list[list[HostSummary]]:
    """Return hosts grouped by what happens to them; the gravest groups first, then the largest."""
    groups: dict[object, list[HostSummary]] = {}
    for summary in hosts:
        reason = alike(summary.reason, summary.host)
        texts = (*summary.sentences, *summary.pending, *(text for _, text in summary.notices))
        sentences = tuple(without_name(text, summary.host) for text in texts)
        does = (summary.state, summary.drains, summary.reboots, summary.moves, tuple(summary.files.items()))
        groups.setdefault((does, reason, sentences), []).append(summary)
    gravity = list(STATES)
    return sorted(groups.values(), key=lambda group: (gravity.index(group[0].state), -len(group)))


def _group_lines(group: Sequence[HostSummary], width: int, *, whole: bool) -> Iterator[str]:
    """Yield the changes of identical hosts; `whole` leaves nothing out."""
    values, files, notice = (None,) * 3 if whole else (_LINES_OF_VALUES, _LINES_OF_FILES, 1)
    first = group[0]
    seconds = sorted(round(summary.seconds) for summary in group if summary.seconds is not None)
    took = " to ".join(map(str, dict.fromkeys((*seconds[:1], *seconds[-1:]))))
    names = folded(summary.host for summary in group)
    heading = f"{counted(len(group), 'host')} {first.state}: {names}{f' ({took} s)' if took else ''}"
    bold = first.state not in ("unchanged", "planned")
    yield from styled_lines(heading, width, fg=STATES[first.state], bold=bold)
    reason = first.reason if len(group) == 1 else without_name(first.reason, first.host)
    for line in [line for text in reason.splitlines() for line in wrapped(text, width)][:_LINES_OF_REASON]:
        yield style(line, fg=STATES[first.state] if first.state in FAILED else None)
    sentences = first.pending
    if first.state == "changed":
        yield from wrapped(_done(first), width, most=1)
    else:
        drains = ["drains: pods leave the node first"] if first.drains and first.state in _CHANGING else []
        sentences = (*drains, *first.sentences, *first.pending)
    for sentence in sentences:
        yield from wrapped(sentence, width)
    if first.state != "changed":
        yield from _value_lines(first.moves, width, values)
        for kind, paths in first.files.items():
            yield from wrapped(f"{counted(len(paths), 'file')} {kind}: {', '.join(paths)}", width, most=files)
    for name, message in first.notices if first.state in (*_CHANGING, "planned") else ():
        yield from wrapped(f"notice {name}: {message}", width, most=notice)


def _done(summary: HostSummary) -> str:
    """Return what was changed in a line: `9 values, 7 files new; the kubelet restarted`."""
    values = len(condensed(summary.moves))
    counts = [counted(values, "value")] if values else []
    counts += [f"{counted(len(paths), 'file')} {kind}" for kind, paths in summary.files.items()]
    disturbed = [word for word, did in (("drained", summary.drains), ("rebooted", summary.reboots)) if did]
    return "; ".join(filter(None, (", ".join([*counts, *disturbed]), *summary.sentences)))


def _value_lines(moves: Sequence[str], width: int, most: int | None) -> list[str]:
    """Return a line a value, `vm.swappiness  60 -> 0`, with the number of those beyond `most`."""
    rows = [(name, change) for name, _, change in (move.partition(": ") for move in condensed(moves))]
    column = max((len(name) for name, _ in rows if len(name) < width / 2), default=0)
    shown = rows if most is None or len(rows) <= most else rows[: most - 1]
    lines = [line for name, change in shown for line in wrapped(f"{name:{column}}  {change}".rstrip(), width)]
    return lines if len(shown) == len(rows) else [*lines, f"  and {len(rows) - len(shown)} more values"]
