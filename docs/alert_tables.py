"""Write the tables of Xid codes into the page about alerts: `python -m docs.alert_tables`."""

from __future__ import annotations

from pathlib import Path

from docs.generated import renewed
from numaforge.findings.gpus import xids

ALERTS_PAGE = Path(__file__).parent / "alerts.md"


def page(text: str) -> str:
    """Return the text of the page with its tables renewed."""
    application = {**xids.APPLICATION, **xids.IGNORED}
    for name, codes in (("xids-fatal", xids.FATAL), ("xids-application", application)):
        rows = [
            "| Xid | what it is |",
            "| --- | --- |",
            *(f"| {code} | {meaning} |" for code, meaning in codes.items()),
        ]
        text = renewed(text, name, "\n".join(rows))
    return text


if __name__ == "__main__":
    ALERTS_PAGE.write_text(page(ALERTS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
