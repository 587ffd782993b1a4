"""Tables without lines: columns under their headers."""

from __future__ import annotations

from collections.abc import Collection

from rich.table import Table
from rich.text import Text


def columns(
    *headers: str,
    right: Collection[str] = (),
    wraps: Collection[str] = (),
    folds: Collection[str] = (),
    style: str = "bold underline",
    show_footer: bool = False,
) -> Table:
    """Return an empty table; `style` is that of its headers.

    Cells stay on one line, except below headers in `wraps`, and in `folds`, where words are broken, too.
    """
    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        show_footer=show_footer,
        header_style=style,
        footer_style="bold",
    )
    for header in headers:
        table.add_column(
            header,
            justify="right" if header in right else "left",
            no_wrap=header not in (*wraps, *folds),
            overflow="fold" if header in folds else "ellipsis",
        )
    return table


def add_row(table: Table, *cells: object) -> None:
    """Add a row of plain text: what a host reports is never read as rich's markup."""
    table.add_row(*(Text(str(cell)) for cell in cells))
