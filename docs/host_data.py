"""Write the table of host data in docs/provision.md: `python -m docs.host_data`."""

from __future__ import annotations

from pathlib import Path

from docs.generated import renewed
from numaforge.run.hosts.host_data import TABLE

PAGE = Path(__file__).with_name("provision.md")


def table() -> str:
    """Return a row for every datum: what is accepted, what counts without it, what it is for."""
    rows = ["| host data | accepted | default | for |", "|---|---|---|---|"]
    for datum in TABLE:
        default = "" if datum.default is None else f"`{datum.default}`"
        rows.append(f"| `{datum.name}` | {datum.accepted} | {default} | {datum.meaning} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """Return the page with its table replaced."""
    return renewed(text, "host data", table())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
