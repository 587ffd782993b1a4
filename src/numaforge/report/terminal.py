"""What a command prints, and its sign of life while it waits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

# rich is imported by who prints with it: `--help` answers at once.
if TYPE_CHECKING:
    from rich.console import RenderableType


def show(renderable: RenderableType) -> None:
    """Print tables and text for people."""
    from rich.console import Console

    Console(highlight=False).print(renderable)


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
def progress(what: str) -> Iterator[None]:
    """Turn a spinner on standard error while a command waits, where that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield
