"""The result of verifying a fleet: identical hosts grouped, and its JSON twin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from numaforge.errors import ExitCode
from numaforge.report.hostnames import alike, folded
from numaforge.report.terminal import Screen, style
from numaforge.report.wording import counted, wrapped
from numaforge.verification.suite import CaseResult, failures

_STATES = {"not as planned": "red", "unreachable": "yellow", "as planned": "green"}
"""How each state of a host is coloured; the gravest first."""
_SHOWN_DIFFERENCES = 12


def exit_code(found: Iterable[CaseResult]) -> ExitCode:
    """Return 0 when every host is as planned, 1 when one is not, else 6: one has not answered."""
    amiss = failures([*found])
    if any(not each.unreachable for each in amiss):
        return ExitCode.NO
    return ExitCode.UNREACHABLE if amiss else ExitCode.YES


def lines(found: Sequence[CaseResult], screen: Screen) -> list[str]:
    """Return the results as styled lines: counts, then groups of identical hosts, the gravest first."""
    groups = _alike(found)
    number = dict.fromkeys(_STATES, 0)
    for (state, _), hosts in groups:
        number[state] += len(hosts)
    said = ", ".join(f"{count} {state}" for state, count in reversed(number.items()) if count)
    total = sum(number.values())
    tests = f"{counted(sum(each.outcome == 'passed' for each in found), 'promise')} kept"
    shown = [
        style(line, bold=True)
        for line in wrapped(f"{counted(total, 'host')}: {said} ({tests})", screen.width, "")
    ]
    for (state, differences), hosts in groups:
        heading = f"{counted(len(hosts), 'host')} {state}: {folded(hosts)}"
        shown += [
            style(line, fg=_STATES[state], bold=state != "as planned")
            for line in wrapped(heading, screen.width, "")
        ]
        for difference in differences[:_SHOWN_DIFFERENCES]:
            shown += wrapped(difference, screen.width)
        if len(differences) > _SHOWN_DIFFERENCES:
            more = counted(len(differences) - _SHOWN_DIFFERENCES, "more difference")
            shown += wrapped(f"and {more}: -o json has all of them", screen.width)
    return shown


def image_lines(found: Sequence[CaseResult], screen: Screen) -> list[str]:
    """Return the results for an image as styled lines: the rules that it breaks."""
    broken = failures([*found])
    kept = f"{counted(len(found) - len(broken), 'rule')} kept, {len(broken)} broken"
    shown = [style(kept, bold=True, fg="red" if broken else "green")]
    for each in broken:
        shown += wrapped(each.reason, screen.width)
    return shown


def document(found: Sequence[CaseResult]) -> dict[str, Any]:
    """Return the same for programs: every test."""
    return {"tests": [vars(result) for result in found], "failed": len(failures(found))}


def _alike(found: Sequence[CaseResult]) -> list[tuple[tuple[str, tuple[str, ...]], list[str]]]:
    """Return hosts grouped by state and differences; the gravest groups first, then the largest."""
    of_host: dict[str, list[CaseResult]] = {each.host: [] for each in found if each.host}
    for each in failures(found):
        of_host.setdefault(each.host, []).append(each)
    groups: dict[tuple[str, tuple[str, ...]], dict[str, tuple[str, ...]]] = {}
    for host, failed in of_host.items():
        state = (
            "as planned"
            if not failed
            else "unreachable"
            if any(each.unreachable for each in failed)
            else "not as planned"
        )
        said = tuple(dict.fromkeys(_difference(each) for each in failed))
        name = _name(host)
        shared = tuple(alike(text, name) for text in said)
        groups.setdefault((state, shared), {})[name] = said
    gravity = list(_STATES)
    ordered = sorted(groups.items(), key=lambda group: (gravity.index(group[0][0]), -len(group[1])))
    return [
        ((state, next(iter(hosts.values())) if len({*hosts.values()}) == 1 else shared), [*hosts])
        for (state, shared), hosts in ordered
    ]


def _difference(failed: CaseResult) -> str:
    """Return what differs, without the host's name: `governor cpu5: ...`."""
    reason = failed.reason.replace(f"{failed.host}: ", "", 1)
    test, _, entry = failed.name.partition("[")
    entry = entry.removesuffix("]").removeprefix(failed.host).removeprefix("-")
    if not entry:
        return reason
    return f"{test.removeprefix('test_').replace('_', ' ')} {entry}: {reason}"


def _name(host: str) -> str:
    return host.removeprefix("ssh://")
