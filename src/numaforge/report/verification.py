"""The result of verifying a fleet: identical hosts grouped, and its JSON twin."""

from collections.abc import Iterable, Sequence
from typing import Any

from numaforge.lib.errors import ExitCode
from numaforge.lib.quantity import counted
from numaforge.report.hostnames import alike, folded
from numaforge.report.terminal import Screen, style
from numaforge.report.wording import styled_lines, wrapped
from numaforge.verification.suite import CaseResult, failures

_STATES = {"not as planned": "red", "unreachable": "yellow", "as planned": "green"}
"""How each state of a host is coloured; the gravest first."""
_SHOWN_DIFFERENCES = 12


def exit_code(results: Iterable[CaseResult]) -> ExitCode:
    """Return 0 when every host is as planned, 1 when one is not, else 6: one has not answered."""
    amiss = failures([*results])
    if any(not result.unreachable for result in amiss):
        return ExitCode.NO
    return ExitCode.UNREACHABLE if amiss else ExitCode.YES


def lines(results: Sequence[CaseResult], screen: Screen) -> list[str]:
    """Return the results as styled lines: counts, then groups of identical hosts, the gravest first."""
    groups = _alike(results)
    number = dict.fromkeys(_STATES, 0)
    for (state, _), hosts in groups:
        number[state] += len(hosts)
    counts = ", ".join(f"{count} {state}" for state, count in reversed(number.items()) if count)
    tests = f"{counted(sum(result.outcome == 'passed' for result in results), 'promise')} kept"
    total = counted(sum(number.values()), "host")
    shown = styled_lines(f"{total}: {counts} ({tests})", screen.width, bold=True)
    for (state, differences), hosts in groups:
        heading = f"{counted(len(hosts), 'host')} {state}: {folded(hosts)}"
        shown += styled_lines(heading, screen.width, fg=_STATES[state], bold=state != "as planned")
        for difference in differences[:_SHOWN_DIFFERENCES]:
            shown += wrapped(difference, screen.width)
        if len(differences) > _SHOWN_DIFFERENCES:
            more = counted(len(differences) - _SHOWN_DIFFERENCES, "more difference")
            shown += wrapped(f"and {more}: -o json has all of them", screen.width)
    return shown


def image_lines(results: Sequence[CaseResult], screen: Screen) -> list[str]:
    """Return the results for an image as styled lines: the rules that it breaks."""
    broken = failures([*results])
    tally = f"{counted(len(results) - len(broken), 'rule')} kept, {len(broken)} broken"
    shown = [style(tally, bold=True, fg="red" if broken else "green")]
    for result in broken:
        shown += wrapped(result.reason, screen.width)
    return shown


def document(results: Sequence[CaseResult]) -> dict[str, Any]:
    """Return the same for programs: every test."""
    return {"tests": [vars(result) for result in results], "failed": len(failures(results))}


def _alike(results: Sequence[CaseResult]) -> list[tuple[tuple[str, tuple[str, ...]], list[str]]]:
    """Return hosts grouped by state and differences; the gravest groups first, then the largest."""
    of_host: dict[str, list[CaseResult]] = {result.host: [] for result in results if result.host}
    for result in failures(results):
        of_host.setdefault(result.host, []).append(result)
    groups: dict[tuple[str, tuple[str, ...]], dict[str, tuple[str, ...]]] = {}
    for host, failed in of_host.items():
        silent = any(result.unreachable for result in failed)
        state = "unreachable" if silent else "not as planned" if failed else "as planned"
        differences = tuple(dict.fromkeys(_difference(result) for result in failed))
        name = host.removeprefix("ssh://")
        shared = tuple(alike(text, name) for text in differences)
        groups.setdefault((state, shared), {})[name] = differences
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
