"""An audit on one screen: outliers first, then findings with their machines as ranges."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from numaforge.findings import Severity
from numaforge.fleet.audit.facts import PEER_RULE
from numaforge.fleet.audit.fleet import UNREACHABLE, UNREAD, AuditFinding, Changes, FleetAudit
from numaforge.fleet.audit.peers import Unusual
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.report.audit_documents import state_counts, state_of
from numaforge.report.hostnames import folded, in_short, without_name
from numaforge.report.terminal import Screen, line_of, style
from numaforge.report.wording import some_of, wrapped

_COLOURS = {"not read": "red", "error": "red", "warning": "yellow", "note": "cyan", "sound": "green"}
_MOST = 10  # groups of each part of the screen
_LINES = 3  # about one group

Told = TypeVar("Told")


def audit_lines(audit: FleetAudit, changed: Changes, screen: Screen, *, whole: bool = False) -> list[str]:
    """Return an audit for people, styled. `whole` shows every group, and remedies.

    No line is wider than the screen, unless a single word is.
    """
    parts = (
        _failed_lines(audit, screen.width),
        _outlier_lines(audit, screen.width, whole=whole),
        _found_lines(audit, screen.width, whole=whole),
        _changed_lines(changed, screen.width, whole=whole),
    )
    lines = [*_head(audit, screen.width)]
    for part in parts:
        if block := [*part]:
            lines += ["", *block]
    return [*lines, *_foot(audit, screen.width, whole=whole)]


def _head(audit: FleetAudit, width: int) -> Iterator[str]:
    counts = state_counts(audit)
    names = {
        "not read": "not read",
        "error": "with errors",
        "warning": "with warnings",
        "note": "with notes",
        "sound": "sound",
    }
    counts_shown = [
        style(f"{count} {names[state]}", fg=_COLOURS[state]) for state, count in counts.items() if count
    ]
    total = counted(sum(counts.values()), "machine")
    parts = [part for count in reversed(counts_shown) for part in (", ", count)]
    yield line_of(style(f"{total}: ", bold=True), *parts[1:])
    for make, members in [*audit.makes.items()][:_MOST]:
        yield from wrapped(f"{in_short(members)}: {counted(len(members), 'machine')}, {make}", width, most=1)
    if len(audit.makes) > _MOST:
        yield f"  and {counted(len(audit.makes) - _MOST, 'more make')}"
    if audit.racks:
        trays = sum(len(names) for names in audit.racks.values())
        yield f"  {counted(trays, 'tray')} in {counted(len(audit.racks), 'NVLink domain')}"


def _failed_lines(audit: FleetAudit, width: int) -> Iterator[str]:
    failed = [finding for finding in audit.open if finding.finding.id in (UNREACHABLE.id, UNREAD.id)]
    groups = grouped((without_name(finding.finding.evidence, finding.machine), finding) for finding in failed)
    for several in sorted(groups.values(), key=len, reverse=True)[:_MOST]:
        names = in_short(finding.machine for finding in several)
        reason = (
            several[0].finding.evidence
            if len(several) == 1
            else without_name(several[0].finding.evidence, several[0].machine)
        )
        line = wrapped(f"{several[0].finding.id} {names}: {reason}", width, "", most=1)
        yield from (style(part, fg="red") for part in line)
    if len(groups) > _MOST:
        yield f"and {counted(len(groups) - _MOST, 'more reason')}"


def _outlier_lines(audit: FleetAudit, width: int, *, whole: bool) -> Iterator[str]:
    """Yield how machines differ from their siblings, the gravest and the most differences first."""
    differences = grouped((finding.machine, finding) for finding in audit.open if finding.unusual)
    alike = grouped(
        (tuple((finding.finding.id, _of_one(finding)) for finding in several), name)
        for name, several in differences.items()
    )

    def gravity(group: tuple[tuple[tuple[str, str], ...], list[str]]) -> tuple[bool, int]:
        errors = any(PEER_RULE[rule].severity is Severity.ERROR for rule, _ in group[0])
        return not errors, -len(group[0])

    groups = sorted(alike.items(), key=gravity)
    if groups:
        yield style("Unlike their siblings", bold=True)
    for texts, names in groups if whole else groups[:_MOST]:
        of_machine = differences[names[0]]
        siblings = max(one.siblings for finding in of_machine for one in finding.unusual)
        colour = _COLOURS[
            "error"
            if any(finding.finding.severity is Severity.ERROR for finding in of_machine)
            else "warning"
        ]
        verb = "differs" if len(names) == 1 else "differ"
        head = f"{in_short(names)} {verb} from {counted(siblings, 'sibling')}: "
        lines = wrapped(
            head + "; ".join(text for _, text in texts), width, "", most=None if whole else _LINES
        )
        yield from _with_head(lines, in_short(names), colour)
    if len(groups) > _MOST and not whole:
        yield from wrapped(
            f"and {folded(name for _, names in groups[_MOST:] for name in names)}", width, "", most=1
        )


def _with_head(lines: Sequence[str], head: str, colour: str) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == 0 and line.startswith(head):
            yield line_of(style(head, fg=colour, bold=True), line.removeprefix(head))
        else:
            yield line


def _of_one(finding: AuditFinding) -> str:
    """Return what differs, in short: `NVIDIA's driver: version 570.1, not 580.2`."""
    return f"{PEER_RULE[finding.finding.id].what}: {some_of(map(_in_short, finding.unusual))}"


def _in_short(one: Unusual) -> str:
    of = f"{one.place} " if one.place else ""
    at = f" ({some_of(one.devices, 2)})" if one.devices else ""
    return f"{of}{_cut(one.value)}{at}, not {_cut(one.usual)}"


def _cut(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _found_lines(audit: FleetAudit, width: int, *, whole: bool) -> Iterator[str]:
    """Yield what the rules found, the gravest first: the machines, and one piece of evidence."""
    groups = grouped(
        (finding.finding.id, finding)
        for finding in audit.open
        if not finding.unusual and finding.finding.id not in (UNREACHABLE.id, UNREAD.id)
    )
    if groups:
        yield style("Found", bold=True)
    shown = [*groups.items()] if whole else [*groups.items()][:_MOST]
    for rule, several in shown:
        first = several[0]
        names = [*dict.fromkeys(finding.machine for finding in several)]
        head = f"{first.finding.severity} {rule}"
        label = wrapped(
            f"{head}  {first.rule.title}: {in_short(names)}", width, "", most=None if whole else 2
        )
        yield from _with_head(label, head, _COLOURS[str(first.finding.severity)])
        for line in _evidences(several, whole=whole):
            yield from wrapped(line, width, most=None if whole else 1)
        if whole:
            yield from wrapped(f"-> {first.finding.remedy}", width)
    if len(groups) > len(shown):
        rest = [finding for several in [*groups.values()][_MOST:] for finding in several]
        more = counted(len(groups) - len(shown), "more rule")
        yield from wrapped(
            f"and {more} on {in_short({finding.machine for finding in rest})}", width, "", most=1
        )


def _evidences(several: Sequence[AuditFinding], *, whole: bool) -> Iterator[str]:
    machines_of: dict[str, list[str]] = {}
    for finding in several:
        where = f"{finding.finding.where}: " if finding.finding.where else ""
        machines_of.setdefault(f"{where}{finding.finding.evidence}", []).append(finding.machine)
    several_machines = len({finding.machine for finding in several}) > 1
    ordered = sorted(machines_of.items(), key=lambda item: -len(item[1]))
    for text, names in ordered if whole else ordered[:1]:
        yield f"{in_short(names)}: {text}" if several_machines and len(machines_of) > 1 else text


def _changed_lines(changed: Changes, width: int, *, whole: bool) -> Iterator[str]:
    if not changed:
        return
    yield style("Since the earlier audit", bold=True)
    rows: list[str] = []
    rows += _by_text(
        changed.new, lambda each: f"new: {each.finding.id} {each.rule.title}", lambda each: each.machine
    )
    lost = [(name, key) for name, keys in changed.gone.items() for key in keys]
    rows += _by_text(lost, lambda each: f"gone: {each[1]}", lambda each: each[0])
    rows += [f"{in_short(changed.machines_new)}: was not audited before"] if changed.machines_new else []
    rows += [f"{in_short(changed.machines_gone)}: is not audited any more"] if changed.machines_gone else []
    rows += _by_text(
        changed.facts,
        lambda each: f"{each.what}: {_cut(each.before or 'not known')} -> {_cut(each.after or 'not known')}",
        lambda each: each.machine,
    )
    for row in rows if whole else rows[:_MOST]:
        yield from wrapped(row, width, most=None if whole else 2)
    if len(rows) > _MOST and not whole:
        yield f"  and {counted(len(rows) - _MOST, 'more change')}"


def _by_text(several: Iterable[Told], text: Callable[[Told], str], name: Callable[[Told], str]) -> list[str]:
    groups = grouped((text(change), name(change)) for change in several)
    ordered: Mapping[str, list[str]] = dict(sorted(groups.items(), key=lambda item: -len(item[1])))
    return [f"{in_short(names)}: {words}" for words, names in ordered.items()]


def _foot(audit: FleetAudit, width: int, *, whole: bool) -> Iterator[str]:
    accepted = sum(finding.accepted for finding in audit.findings)
    unknown = {rule for machine in audit.machines.values() for rule in machine.unknown}
    notes = [f"{counted(accepted, 'finding')} accepted by the baseline"] if accepted else []
    if unknown:
        machines = sum(bool(machine.unknown) for machine in audit.machines.values())
        notes.append(f"{counted(len(unknown), 'rule')} unknown on {counted(machines, 'machine')}")
    if not audit.open:
        notes.append("nothing found")
    elif not whole:
        notes.append("-v shows all, and what helps")
    yield ""
    yield from wrapped("; ".join(notes), width, "")
    if len(state_of(audit)) == 1 and not audit.failed:
        yield from wrapped(
            "one machine has no siblings: name several, or a folder with their snapshots", width, ""
        )
