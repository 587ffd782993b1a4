"""Write the table of rules into docs/gpu-findings.md: `python docs/gpu_findings.py`."""

from __future__ import annotations

import re
from pathlib import Path

from numaforge.gpus.check import RULES

PAGE = Path(__file__).with_name("gpu-findings.md")
_RULES = re.compile(r"<!-- begin rules -->\n.*?<!-- end rules -->", re.DOTALL)


def page(text: str) -> str:
    """Return the page with its table of rules renewed."""
    rows = [f"| `{rule.id}` | {rule.severity} | {rule.title} | {rule.machines} |" for rule in RULES]
    table = "\n".join(["| id | severity | what is found | applies |", "| --- | --- | --- | --- |", *rows])
    return _RULES.sub(lambda _: f"<!-- begin rules -->\n{table}\n<!-- end rules -->", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
