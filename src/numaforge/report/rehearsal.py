"""The rehearsals of hosts: identical ones grouped, and their JSON twin."""

from collections.abc import Mapping
from typing import Any

from numaforge.lib.errors import ExitCode
from numaforge.lib.quantity import format_bytes
from numaforge.report.hostnames import folded, grouped_by_reason
from numaforge.report.terminal import Screen, style
from numaforge.report.wording import wrapped
from numaforge.roles.kubelet.rehearsal import Rehearsed, Verdict, to_document

_COLOURS = {Verdict.STARTS: "green", Verdict.REFUSED: "red", Verdict.UNKNOWN: "yellow"}


def rehearsal_lines(
    rehearsals: Mapping[str, Rehearsed], failed: Mapping[str, str], screen: Screen
) -> list[str]:
    """Return each host's verdict, what its kubelet wrote, and where `check` says something else."""
    lines = []
    for name, rehearsed in rehearsals.items():
        verdict = style(str(rehearsed.verdict), fg=_COLOURS[rehearsed.verdict], bold=True)
        lines.append(f"{name}: {verdict}")
        for line in rehearsed.lines:
            lines += wrapped(line, screen.width, "  ")
        if rehearsed.cpu_seconds is not None:
            lines.append(f"  CPU time: {rehearsed.cpu_seconds:.1f} s")
        if rehearsed.shared_cpus is not None:
            lines += wrapped(f"shared CPUs: {rehearsed.shared_cpus}", screen.width, "  ")
        for node, table in rehearsed.memory.items():
            total, left = format_bytes(table["total"]), format_bytes(table["allocatable"])
            lines.append(f"  NUMA node {node}: {left} of {total} for pods")
    for why, names in grouped_by_reason(dict(failed)):
        lines += wrapped(f"{folded(names)}: {why}", screen.width, "  ")
    return lines


def rehearsal_document(rehearsals: Mapping[str, Rehearsed], failed: Mapping[str, str]) -> dict[str, Any]:
    """Return the rehearsals as JSON data, schema 1."""
    return {
        "schema": 1,
        "hosts": {name: to_document(rehearsed) for name, rehearsed in rehearsals.items()},
        "failed": dict(failed),
    }


def exit_code(rehearsals: Mapping[str, Rehearsed], failed: Mapping[str, str], *, silent: bool) -> ExitCode:
    """Return 0 when every kubelet starts, 1 refused or no plan, 3 unknown, 6 hosts that are only silent."""
    verdicts = {rehearsed.verdict for rehearsed in rehearsals.values()}
    if Verdict.REFUSED in verdicts or (failed and not silent):
        return ExitCode.NO
    if Verdict.UNKNOWN in verdicts:
        return ExitCode.BLOCKED
    return ExitCode.UNREACHABLE if failed else ExitCode.YES
