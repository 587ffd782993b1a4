"""Printing for commands, and the spinner while they wait."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from numaforge.errors import NumaforgeError

# Functions that print with rich import it themselves: `--help` answers at once.
if TYPE_CHECKING:
    from rich.console import Console, RenderableType

COLOUR = "numaforge.colour"
QUIET = "numaforge.quiet"
VERBOSE = "numaforge.verbose"
AS_YAML = "numaforge.yaml"
"""The names under which a command's context keeps the options for printing."""


@dataclass(frozen=True)
class Screen:
    """The size of a terminal in characters."""

    width: int = 80
    height: int = 24


def screen() -> Screen:
    """Return the size of this terminal; without a terminal, 80 columns and 24 lines."""
    size = shutil.get_terminal_size((Screen.width, Screen.height))
    return Screen(size.columns, size.lines)


def show(renderable: RenderableType, *, wrapped: bool = False) -> None:
    """Print tables and text for people; `wrapped` text is broken for the screen already.

    Tables are for 80 columns or more: a narrower terminal wraps their lines, as cells would be cut otherwise.
    No line ends in blanks.
    """
    out = console()
    out.width = max(out.width, Screen.width)
    with out.capture() as captured:
        out.print(renderable, soft_wrap=wrapped)
    out.file.write(re.sub(" +$", "", captured.get(), flags=re.MULTILINE))


def console(*, stderr: bool = False) -> Console:
    """Return the console for tables and progress, with the colours of the command line."""
    from rich.console import Console

    colour = _said(COLOUR)
    if colour == "always":
        return Console(stderr=stderr, highlight=False, force_terminal=True, no_color=False)
    return Console(stderr=stderr, highlight=False, color_system=None if colour == "never" else "auto")


def echo(line: str, *, err: bool = False) -> None:
    """Print a styled line, with the colours of the command line."""
    colour = {"always": True, "never": False}.get(str(_said(COLOUR)))
    if colour is None and os.environ.get("NO_COLOR"):
        colour = False
    click.echo(line, color=colour, err=err)


def echo_text(text: str, *, err: bool = False) -> None:
    """Print styled lines: wrapped on a terminal, whole in a file or a pipe."""
    width = _width(sys.stderr if err else sys.stdout)
    for line in text.split("\n"):
        for part in (line,) if width is None else folded(line, width):
            echo(part, err=err)


def _width(stream: TextIO) -> int | None:
    """Return the width of a terminal in characters; None for a file or a pipe."""
    if not stream.isatty():
        return None
    said = os.environ.get("COLUMNS", "")
    return int(said) if said.isdecimal() and int(said) else os.get_terminal_size(stream.fileno()).columns


def folded(line: str, width: int) -> list[str]:
    """Return a styled line wrapped to `width`, with later lines indented by two more.

    A style continues over the end of a line; names and paths stay whole.
    """
    shown = click.unstyle(line)
    if len(shown) <= width:
        return [line]
    indent = " " * (len(shown) - len(shown.lstrip()) + 2)
    first, *words = re.split(r"(?<=\S) (?! )", line)
    lines = [first]
    for word in words:
        longer = f"{lines[-1]} {word}"
        if len(click.unstyle(longer)) <= width:
            lines[-1] = longer
        else:
            lines.append(indent + word)
    return lines


def show_json(document: object) -> None:
    """Print a document for programs: JSON, or YAML where the command line asks for it."""
    if _said(AS_YAML):
        import yaml

        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
    else:
        shows_all = "utf" in (sys.stdout.encoding or "").lower()
        click.echo(json.dumps(document, indent=2, ensure_ascii=not shows_all))


def save(content: str | bytes, output: str | None) -> None:
    """Write text or bytes to a file, make its folders, and remark on it; for None and `-`, print it.

    Raises NumaforgeError where the file cannot be written, and leaves an existing one as it was.
    """
    if output is None or output == "-":
        click.echo(content, nl=False)
        return
    try:
        _write(Path(output).resolve(), content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise NumaforgeError(error.strerror or str(error), where=output) from error
    remark(f"wrote {output}")


def remark(text: str) -> None:
    """Print on standard error what is neither the answer nor an error; -q leaves it out."""
    if not _said(QUIET):
        complain(text)


def complain(text: str) -> None:
    """Print on standard error what is wrong, without control characters."""
    echo_text(plain(text), err=True)


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; a pipe or a device is written directly."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        staged.write_bytes(content)
        if path.exists():
            shutil.copymode(path, staged)
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)


def plain(text: object) -> str:
    """Return a text that a terminal may show: it moves no cursor and hides nothing.

    Of unprintable characters, only newlines and tabs are kept.
    """
    shown = (
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in str(text)
    )
    return "".join(shown)


def verbosity() -> int:
    """Return the verbosity of the command line: 0, 1 for -v, 2 for -vv."""
    said = _said(VERBOSE)
    return said if isinstance(said, int) else 0


def detail(text: str) -> None:
    """Print on standard error what is done, where -v was given."""
    if verbosity():
        click.echo(plain(text), err=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Time a step; -v prints how long it took."""
    began = time.monotonic()
    try:
        yield
    finally:
        detail(f"{what}: {time.monotonic() - began:.2f} s")


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], object]]:
    """Show a spinner on standard error while a command waits, where that is a terminal.

    Yields a function that shows the progress; -v prints how long it took.
    """
    screen = console(stderr=True)
    with step(what):
        if _said(QUIET) or not screen.is_terminal:
            yield lambda _: None
            return
        with screen.status(what) as status:
            yield lambda far: status.update(f"{what}: {far}" if far else what)


def _said(name: str) -> object:
    """Return an option for printing by its name; None outside of a command."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(name)
