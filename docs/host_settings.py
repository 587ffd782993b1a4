"""Write the table of sysctl sets into docs/host-settings.md: `python -m docs.host_settings`."""

from __future__ import annotations

from pathlib import Path

from docs.generated import renewed
from numaforge.roles.kernel_values.sysctls import RAISED_ONLY, ROWS, Row

PAGE = Path(__file__).with_name("host-settings.md")


def page(text: str) -> str:
    """Return the page with its table of sets renewed."""
    cells = (
        (f"`{row.name}`", ", ".join(row.sets), _machines(row), _value(row), row.reason, row.source)
        for row in ROWS
    )
    lines = [f"| {' | '.join(row)} |" for row in cells]
    head = (
        "| sysctl | sets | machines it is for | value | why | source |\n| --- | --- | --- | --- | --- | --- |"
    )
    return renewed(text, "sets", "\n".join([head, *lines]))


def _machines(row: Row) -> str:
    if row.module:
        return f"kernels with `{row.module}`"
    return f"{row.rails} or more RDMA devices on Ethernet" if row.rails else "any"


def _value(row: Row) -> str:
    least = f"`{row.value}`" + (" or more" if row.name in RAISED_ONLY else "")
    if row.share_of_memory:
        return f"{least}, at most a hundredth of memory"
    return least


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
