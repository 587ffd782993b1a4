"""What a command prints, and its sign of life while it waits."""

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

# rich is imported by who prints with it: `--help` answers at once.
if TYPE_CHECKING:
    from rich.console import Console, RenderableType

COLOUR = "numaforge.colour"
QUIET = "numaforge.quiet"
VERBOSE = "numaforge.verbose"
AS_YAML = "numaforge.yaml"
"""What the command line says about printing, by the name under which a command's context keeps it."""


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
    """Print tables and text for people; `wrapped` is what has the lines of the screen already.

    Tables are for 80 columns or more: a narrower terminal wraps their lines, where cells would be cut. No
    line ends in blanks.
    """
    out = console()
    out.width = max(out.width, Screen.width)
    with out.capture() as captured:
        out.print(renderable, soft_wrap=wrapped)
    out.file.write(re.sub(" +$", "", captured.get(), flags=re.MULTILINE))


def console(*, stderr: bool = False) -> Console:
    """Return where tables and progress are printed, with colours as the command line says."""
    from rich.console import Console

    colour = _said(COLOUR)
    if colour == "always":
        return Console(stderr=stderr, highlight=False, force_terminal=True, no_color=False)
    return Console(stderr=stderr, highlight=False, color_system=None if colour == "never" else "auto")


def echo(line: str, *, err: bool = False) -> None:
    """Print a line that is styled already, with colours as the command line says."""
    colour = {"always": True, "never": False}.get(str(_said(COLOUR)))
    if colour is None and os.environ.get("NO_COLOR"):
        colour = False
    click.echo(line, color=colour, err=err)


def echo_text(text: str, *, err: bool = False) -> None:
    """Print styled lines: those that are too long for a terminal wrapped, in a file or a pipe whole."""
    width = _width(sys.stderr if err else sys.stdout)
    for line in text.split("\n"):
        for part in (line,) if width is None else folded(line, width):
            echo(part, err=err)


def _width(stream: TextIO) -> int | None:
    """Return how many characters a line of a terminal has; None of what is none."""
    if not stream.isatty():
        return None
    said = os.environ.get("COLUMNS", "")
    return int(said) if said.isdecimal() and int(said) else os.get_terminal_size(stream.fileno()).columns


def folded(line: str, width: int) -> list[str]:
    """Return a line that is styled already in lines of a screen, the later ones indented by two more.

    A style goes on over the end of a line; names and paths stay whole.
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
    """Print the twin for programs of what people see: JSON, or YAML where the command line says so."""
    if _said(AS_YAML):
        import yaml

        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
    else:
        shows_all = "utf" in (sys.stdout.encoding or "").lower()
        click.echo(json.dumps(document, indent=2, ensure_ascii=not shows_all))


def save(content: str | bytes, output: str | None) -> None:
    """Write a text, or bytes, to a file, with its folders, and say so; without one, or for `-`, print it.

    Raises NumaforgeError where the file cannot be written, and leaves what was there.
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
    """Say on standard error what is neither the answer nor an error; -q leaves it out."""
    if not _said(QUIET):
        complain(text)


def complain(text: str) -> None:
    """Say on standard error what is wrong, as text that steers no terminal."""
    echo_text(plain(text), err=True)


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; a pipe or a device is written into."""
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
    """Return a text as a terminal may show it: what others wrote moves no cursor and hides nothing.

    Only lines and tabulators are kept of what is not printable.
    """
    shown = (
        char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in str(text)
    )
    return "".join(shown)


def verbosity() -> int:
    """Return how much the command line wants to be told of what is done: 0, 1 for -v, 2 for -vv."""
    said = _said(VERBOSE)
    return said if isinstance(said, int) else 0


def detail(text: str) -> None:
    """Say on standard error what is done, where -v asks for it."""
    if verbosity():
        click.echo(plain(text), err=True)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Do what takes a moment; -v says how long it took."""
    began = time.monotonic()
    try:
        yield
    finally:
        detail(f"{what}: {time.monotonic() - began:.2f} s")


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], object]]:
    """Turn a spinner on standard error while a command waits, where that is a terminal.

    Yields what says how far it is; -v says how long it took.
    """
    screen = console(stderr=True)
    with step(what):
        if _said(QUIET) or not screen.is_terminal:
            yield lambda _: None
            return
        with screen.status(what) as status:
            yield lambda far: status.update(f"{what}: {far}" if far else what)


def _said(name: str) -> object:
    """What the command line says about printing; None outside of a command."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(name)
