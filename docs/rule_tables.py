"""Write the tables of rules into the pages that explain them: `python -m docs.rule_tables`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from docs.generated import renewed
from numaforge.findings import MachineRule
from numaforge.gpudirect.rules import RULES as GPUDIRECT
from numaforge.gpus.check import RULES as GPUS
from numaforge.hostcheck.check import RULES as HOST

_FOLDER = Path(__file__).parent
GPU_FINDINGS, GPUDIRECT_PAGE, HOST_PAGE = (
    _FOLDER / name for name in ("gpu-findings.md", "gpudirect.md", "host.md")
)
_COLUMNS = {"what is found": "title", "applies": "machines"}
_ALL_COLUMNS = {**_COLUMNS, "source": "source", "what helps": "remedy"}
PAGES: Mapping[Path, tuple[Sequence[MachineRule[Any]], Mapping[str, str]]] = {
    GPU_FINDINGS: (GPUS, _COLUMNS),
    GPUDIRECT_PAGE: (GPUDIRECT, _ALL_COLUMNS),
    HOST_PAGE: (HOST, _COLUMNS),
}
"""The rules of each page, and what its table says of them beside id and severity: heading, then field."""


def page(path: Path, text: str) -> str:
    """Return the text of a page with its table of rules renewed."""
    rules, columns = PAGES[path]
    rows = [
        ["id", "severity", *columns],
        ["---"] * (2 + len(columns)),
        *(
            [f"`{rule.id}`", rule.severity, *(getattr(rule, name) for name in columns.values())]
            for rule in rules
        ),
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return renewed(text, "rules", table)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path, path.read_text(encoding="utf-8")), encoding="utf-8")
