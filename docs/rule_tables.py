"""Write the tables of rules into the pages that explain them: `python -m docs.rule_tables`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from docs.generated import renewed
from numaforge.findings import Rule
from numaforge.findings.gpudirect import rules as gpudirect
from numaforge.findings.gpus import rules as gpus
from numaforge.fleet.audit import drift
from numaforge.fleet.audit import host_rules as userland
from numaforge.fleet.audit.facts import PEER_RULES
from numaforge.fleet.audit.racks import RACK_RULES

_OF_PEERS = {"what siblings are expected to share": "what", "what helps": "remedy"}
_OF_RACKS = {"what is found": "title"}
_FOLDER = Path(__file__).parent
GPU_FINDINGS, GPUDIRECT_PAGE, HOST_PAGE, AUDIT_PAGE = (
    _FOLDER / name for name in ("gpu-findings.md", "gpudirect.md", "host.md", "audit.md")
)
_COLUMNS = {"what is found": "title", "applies": "machines"}
_ALL_COLUMNS = {**_COLUMNS, "source": "source", "what helps": "remedy"}
PAGES: Mapping[Path, Mapping[str, tuple[Sequence[Rule], Mapping[str, str]]]] = {
    GPU_FINDINGS: {"rules": (gpus.RULES, _COLUMNS)},
    GPUDIRECT_PAGE: {"rules": (gpudirect.RULES, _ALL_COLUMNS)},
    HOST_PAGE: {"rules": (userland.RULES, _COLUMNS)},
    AUDIT_PAGE: {
        "peers": (PEER_RULES, _OF_PEERS),
        "racks": (RACK_RULES, _OF_RACKS),
        "drift": (drift.RULES, _COLUMNS),
    },
}
"""The tables of each page: their rules, and what each says beside id and severity: heading, then field."""


def page(path: Path, text: str) -> str:
    """Return the text of a page with its tables of rules renewed."""
    for name, (rules, columns) in PAGES[path].items():
        rows = [
            ["id", "severity", *columns],
            ["---"] * (2 + len(columns)),
            *(
                [f"`{rule.id}`", rule.severity, *(attrgetter(each)(rule) for each in columns.values())]
                for rule in rules
            ),
        ]
        text = renewed(text, name, "\n".join(f"| {' | '.join(row)} |" for row in rows))
    return text


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(page(path, path.read_text(encoding="utf-8")), encoding="utf-8")
