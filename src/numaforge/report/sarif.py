"""SARIF 2.1.0: the form in which code hosts and scanners take findings."""

from collections.abc import Iterable, Sequence
from typing import Any

from numaforge import __version__
from numaforge.findings.finding import Severity

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(
    tool: str, rules: Iterable[tuple[str, str, Severity]], results: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return a log of one run; `rules` are ids with their titles and severities, in the order of indices."""
    described = [
        {
            "id": rule,
            "shortDescription": {"text": title},
            "defaultConfiguration": {"level": str(severity)},
        }
        for rule, title, severity in rules
    ]
    driver = {"name": tool, "version": __version__, "rules": described}
    return {
        "$schema": SARIF_SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": list(results)}],
    }
