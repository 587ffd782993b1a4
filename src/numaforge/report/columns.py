"""Borderless tables, and lines of text with them."""

from collections.abc import Collection, Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from numaforge.report.printable import in_one_line, plain


class CleanConsole(Console):
    """A console with rich's own control sequences alone."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of what is shown."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(plain(segment.text), segment.style)


def columns(
    *headers: str,
    right: Collection[str] = (),
    wraps: Collection[str] = (),
    folds: Collection[str] = (),
    style: str = "bold underline",
    show_footer: bool = False,
) -> Table:
    """Return an empty table; cells stay on one line but for `wraps` and `folds`, which also break words."""
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
    """Add a row of texts; a tuple is a cell of several lines."""
    lines = (cell if isinstance(cell, tuple) else (cell,) for cell in cells)
    table.add_row(*(Text("\n".join(map(in_one_line, cell))) for cell in lines))


def filled(table: Table, rows: Iterable[Iterable[object]]) -> Table:
    """Return a table with rows added."""
    for row in rows:
        add_row(table, *row)
    return table


def section(title: str, lines: Iterable[RenderableType], style: str = "bold") -> list[RenderableType]:
    """Return an empty line, a title and the lines below it; nothing without lines."""
    below = list(lines)
    return [text_line(""), text_line(title, style), *below] if below else []


def indented(lines: Iterable[RenderableType], by: int = 2) -> list[RenderableType]:
    return [Padding(line, (0, 0, 0, by), expand=False) for line in lines]


def text_line(content: object, style: str = "") -> Text:
    """Return one line: what a host reports is never read as rich's markup, and begins no line."""
    return Text(in_one_line(content), style)


def title_line(name: str, details: str) -> Text:
    return assembled((name, "bold"), ("  " + details if details else "", "dim"))


def assembled(*parts: str | tuple[str, str]) -> Text:
    """Return one line of texts, each alone or with its style."""
    pairs = ((part, "") if isinstance(part, str) else part for part in parts)
    return Text.assemble(*((in_one_line(content), style) for content, style in pairs))
