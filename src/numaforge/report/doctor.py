"""What `numaforge doctor` found: equal rows of hosts merged, and its JSON twin."""

from collections.abc import Mapping, Sequence
from typing import Any

from numaforge.lib.ordering import grouped
from numaforge.lib.quantity import counted
from numaforge.preflight import Check, errors
from numaforge.report.hostnames import folded
from numaforge.report.terminal import Screen, line_of, style
from numaforge.report.wording import styled_lines, wrapped

_OK = "ok"
_COLOURS = {_OK: "green", "warning": "yellow", "error": "red"}


def doctor_lines(checks_of: Mapping[str, Sequence[Check]], screen: Screen) -> list[str]:
    """Return all checks, styled, each with its remedy below it; no word is broken."""
    rows = _rows(checks_of)
    results = max(len(str(check.severity or _OK)) for _, check in rows)
    names = max(len(check.name) for _, check in rows)
    lines = []
    for places, checks in grouped((tuple(where), check) for where, check in rows).items():
        lines += styled_lines(places[0] if len(places) == 1 else folded(places), screen.width, bold=True)
        for check in checks:
            lines += _check_lines(check, results, names, screen.width)
    lacking = len(errors(check for _, check in rows))
    end = f"not ready: {counted(lacking, 'error')}" if lacking else "ready"
    return [*lines, "", style(end, bold=True)]


def _check_lines(check: Check, results: int, names: int, width: int) -> list[str]:
    """Return a check: its result, name and evidence, and the remedy below."""
    result = str(check.severity or _OK)
    indent = " " * (results + names + 6)
    text_lines = [*wrapped(check.evidence, width, indent), *wrapped(check.remedy, width, indent)]
    first = text_lines[0].removeprefix(indent) if text_lines else ""
    rest = f"{' ' * (results - len(result))}  {check.name:{names}}  {first}".rstrip()
    return [line_of("  ", style(result, fg=_COLOURS.get(result)), rest), *text_lines[1:]]


def doctor_document(checks_of: Mapping[str, Sequence[Check]]) -> dict[str, Any]:
    """Return the checks as JSON data, schema 1."""
    return {
        "schema": 1,
        "ready": not errors(check for checks in checks_of.values() for check in checks),
        "checks": [
            {
                "where": where,
                "check": check.name,
                "result": str(check.severity or _OK),
                "found": check.evidence,
                "remedy": check.remedy or None,
            }
            for where, checks in checks_of.items()
            for check in checks
        ],
    }


def _rows(checks_of: Mapping[str, Sequence[Check]]) -> list[tuple[list[str], Check]]:
    """Return each distinct check with its places; passed ones are merged even if what was found differs."""
    rows: dict[object, tuple[list[str], Check]] = {}
    for where, checks in checks_of.items():
        for check in checks:
            key = check if check.severity else check.name
            row = rows.setdefault(key, ([], check))
            row[0].append(where)
            if row[1].evidence != check.evidence:
                rows[key] = (row[0], Check(check.name, "ok on all of them", check.severity, check.remedy))
    return [*rows.values()]
