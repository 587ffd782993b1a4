"""What a command prints, and its sign of life while it waits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

# rich is imported by who prints with it: `--help` answers at once.
if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class Screen:
    """The size of a terminal in characters."""

    width: int = 80
    height: int = 24


def screen() -> Screen:
    """Return the size of this terminal; where there is none, that of the smallest usual one."""
    size = shutil.get_terminal_size((Screen.width, Screen.height))
    return Screen(size.columns, size.lines)


def show(renderable: RenderableType, *, wrapped: bool = False) -> None:
    """Print tables and text for people; `wrapped` is what has the lines of the screen already."""
    from rich.console import Console

    Console(highlight=False).print(renderable, soft_wrap=wrapped)


def show_json(document: object) -> None:
    """Print the JSON twin of what people see."""
    click.echo(json.dumps(document, indent=2))


def save(text: str, output: str | None) -> None:
    """Write a text to a file and say so; without one, or for `-`, print it."""
    if output is None or output == "-":
        click.echo(text, nl=False)
        return
    Path(output).write_text(text, encoding="utf-8")
    click.echo(f"wrote {output}", err=True)


def plain(text: object) -> str:
    """Return a text as a terminal may show it: what others wrote moves no cursor and hides nothing.

    Only lines and tabulators are kept of what is not printable.
    """
    shown = (
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in str(text)
    )
    return "".join(shown)


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], object]]:
    """Turn a spinner on standard error while a command waits, where that is a terminal.

    Yields what says how far it is.
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield lambda far: status.update(f"{what}: {far}" if far else what)
