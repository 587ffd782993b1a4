"""An audit on one screen: outliers first, then findings with their machines as ranges."""

from collections.abc import Iterable, Iterator, Sequence

from numaforge.findings import Severity
from numaforge.fleet.audit.facts import PEER_RULE
from numaforge.fleet.audit.fleet import UNREACHABLE, UNREAD, AuditFinding, Changes, FleetAudit
from numaforge.fleet.audit.peers import Unusual
from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.report.audit_documents import IN_WORDS, state_counts
from numaforge.report.findings import located
from numaforge.report.hostnames import folded, in_short, without_name
from numaforge.report.terminal import Screen, line_of, style
from numaforge.report.wording import some_of, styled_lines, wrapped

_COLOURS = {"not read": "red", "error": "red", "warning": "yellow", "note": "cyan", "sound": "green"}
_MOST = 10  # groups of each part of the screen
_LINES = 3  # about one group


def audit_lines(audit: FleetAudit, changed: Changes, screen: Screen, *, whole: bool = False) -> list[str]:
    """Return an audit for people in lines of the screen's width; `whole` shows every group, and remedies."""
    lines = [*_head(audit, screen.width)]
    for part in (
        _failed_lines(audit, screen.width),
        _outlier_lines(audit, screen.width, whole=whole),
        _found_lines(audit, screen.width, whole=whole),
        _changed_lines(changed, screen.width, whole=whole),
    ):
        if block := [*part]:
            lines += ["", *block]
    return [*lines, *_foot(audit, screen.width, whole=whole)]


def _head(audit: FleetAudit, width: int) -> Iterator[str]:
    counts = state_counts(audit)
    parts = [style(f"{counted(sum(counts.values()), 'machine')}: ", bold=True)]
    for state, count in reversed(counts.items()):
        if count:
            separator = [", "] if len(parts) > 1 else []
            parts += [*separator, style(f"{count} {IN_WORDS.get(state, state)}", fg=_COLOURS[state])]
    yield line_of(*parts)
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
    for reason, several in sorted(groups.items(), key=lambda group: -len(group[1]))[:_MOST]:
        names, first = in_short(finding.machine for finding in several), several[0].finding
        why = first.evidence if len(several) == 1 else reason
        yield from styled_lines(f"{first.id} {names}: {why}", width, most=1, fg="red")
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
        wrong = any(finding.finding.severity is Severity.ERROR for finding in of_machine)
        verb = "differs" if len(names) == 1 else "differ"
        rest = f" {verb} from {counted(siblings, 'sibling')}: {'; '.join(text for _, text in texts)}"
        colour, most = _COLOURS["error" if wrong else "warning"], None if whole else _LINES
        yield from _with_head(in_short(names), rest, colour, width, most)
    if len(groups) > _MOST and not whole:
        others = folded(name for _, names in groups[_MOST:] for name in names)
        yield from wrapped(f"and {others}", width, "", most=1)


def _with_head(head: str, rest: str, colour: str, width: int, most: int | None) -> Iterator[str]:
    """Yield a wrapped text whose head is coloured."""
    first, *lines = wrapped(f"{head}{rest}", width, "", most=most)
    if first.startswith(head):
        first = line_of(style(head, fg=colour, bold=True), first.removeprefix(head))
    yield from (first, *lines)


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
        severity = str(first.finding.severity)
        title, most = f"  {first.rule.title}: {in_short(names)}", None if whole else 2
        yield from _with_head(f"{severity} {rule}", title, _COLOURS[severity], width, most)
        for line in _evidences(several, whole=whole):
            yield from wrapped(line, width, most=None if whole else 1)
        if whole:
            yield from wrapped(f"-> {first.finding.remedy}", width)
    if len(groups) > len(shown):
        rest = {finding.machine for several in [*groups.values()][_MOST:] for finding in several}
        more = counted(len(groups) - len(shown), "more rule")
        yield from wrapped(f"and {more} on {in_short(rest)}", width, "", most=1)


def _evidences(several: Sequence[AuditFinding], *, whole: bool) -> Iterator[str]:
    machines_of = grouped((located(finding.finding), finding.machine) for finding in several)
    several_machines = len({finding.machine for finding in several}) > 1
    ordered = sorted(machines_of.items(), key=lambda item: -len(item[1]))
    for text, names in ordered if whole else ordered[:1]:
        yield f"{in_short(names)}: {text}" if several_machines and len(machines_of) > 1 else text


def _changed_lines(changed: Changes, width: int, *, whole: bool) -> Iterator[str]:
    if not changed:
        return
    yield style("Since the earlier audit", bold=True)
    rows = _by_text((f"new: {one.finding.id} {one.rule.title}", one.machine) for one in changed.new)
    rows += _by_text((f"gone: {key}", name) for name, keys in changed.gone.items() for key in keys)
    rows += [f"{in_short(changed.machines_new)}: was not audited before"] if changed.machines_new else []
    rows += [f"{in_short(changed.machines_gone)}: is not audited any more"] if changed.machines_gone else []
    rows += _by_text(
        (f"{one.what}: {_cut(one.before or 'not known')} -> {_cut(one.after or 'not known')}", one.machine)
        for one in changed.facts
    )
    for row in rows if whole else rows[:_MOST]:
        yield from wrapped(row, width, most=None if whole else 2)
    if len(rows) > _MOST and not whole:
        yield f"  and {counted(len(rows) - _MOST, 'more change')}"


def _by_text(changes: Iterable[tuple[str, str]]) -> list[str]:
    """Return each text once, with its machines; those of the most machines first."""
    ordered = sorted(grouped(changes).items(), key=lambda item: -len(item[1]))
    return [f"{in_short(names)}: {words}" for words, names in ordered]


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
    if len(audit.machines) == 1 and not audit.failed:
        hint = "one machine has no siblings: name several, or a folder with their snapshots"
        yield from wrapped(hint, width, "")
