"""Write the tables of rules into the pages that explain them: `python -m docs.rule_tables`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from docs.generated import renewed
from numaforge.findings import userland
from numaforge.findings.engine import MachineRule
from numaforge.findings.gpudirect import rules as gpudirect
from numaforge.findings.gpus import rules as gpus

_FOLDER = Path(__file__).parent
GPU_FINDINGS, GPUDIRECT_PAGE, HOST_PAGE = (
    _FOLDER / name for name in ("gpu-findings.md", "gpudirect.md", "host.md")
)
_COLUMNS = {"what is found": "title", "applies": "scope.machines"}
_ALL_COLUMNS = {**_COLUMNS, "source": "source", "what helps": "remedy"}
PAGES: Mapping[Path, tuple[Sequence[MachineRule], Mapping[str, str]]] = {
    GPU_FINDINGS: (gpus.RULES, _COLUMNS),
    GPUDIRECT_PAGE: (gpudirect.RULES, _ALL_COLUMNS),
    HOST_PAGE: (userland.RULES, _COLUMNS),
}
"""The rules of each page, and what its table says of them beside id and severity: heading, then field."""


def page(path: Path, text: str) -> str:
    """Return the text of a page with its table of rules renewed."""
    rules, columns = PAGES[path]
    rows = [
        ["id", "severity", *columns],
        ["---"] * (2 + len(columns)),
        *(
            [f"`{rule.id}`", rule.severity, *(attrgetter(name)(rule) for name in columns.values())]
            for rule in rules
        ),
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return renewed(text, "rules", table)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path, path.read_text(encoding="utf-8")), encoding="utf-8")
