"""What `numaforge doctor` found: one table, equal rows of many hosts as one, and its JSON twin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from numaforge.preflight import Check, errors
from numaforge.report.columns import add_row, columns
from numaforge.report.wording import counted, some_of

_OK = "ok"


def doctor_table(found: Mapping[str, Sequence[Check]]) -> RenderableType:
    """Return the checks of this machine, the cluster and each host, and the way out of what is wrong."""
    table = columns("WHERE", "CHECK", "")
    table.add_column("FOUND", overflow="fold")
    rows = _rows(found)
    for places, check in rows:
        add_row(table, _some(places), check.name, check.severity or _OK, check.found)
    ways = [Text(f"{_some(places)}: {check.name}: {check.remedy}") for places, check in rows if check.remedy]
    lacking = len(errors(check for _, check in rows))
    end = f"not ready: {counted(lacking, 'error')}" if lacking else "ready"
    return Group(table, Text(""), *ways, Text(end, style="bold"))


def doctor_document(found: Mapping[str, Sequence[Check]]) -> dict[str, Any]:
    """Return the same as JSON data, schema 1."""
    return {
        "schema": 1,
        "ready": not errors(check for checks in found.values() for check in checks),
        "checks": [
            {
                "where": place,
                "check": check.name,
                "result": str(check.severity or _OK),
                "found": check.found,
                "remedy": check.remedy or None,
            }
            for place, checks in found.items()
            for check in checks
        ],
    }


def _rows(found: Mapping[str, Sequence[Check]]) -> list[tuple[list[str], Check]]:
    """Return each different row with its places; among those that will do, what was found may differ."""
    rows: dict[object, tuple[list[str], Check]] = {}
    for place, checks in found.items():
        for check in checks:
            key = check if check.severity else check.name
            known = rows.setdefault(key, ([], check))
            known[0].append(place)
            if known[1].found != check.found:
                rows[key] = (known[0], Check(check.name, "ok on all of them", check.severity, check.remedy))
    return [*rows.values()]


def _some(places: Iterable[str]) -> str:
    return some_of([*places])
