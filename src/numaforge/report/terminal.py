"""Printing for commands, and the spinner while they wait: the one place where text reaches a terminal.

Text from a host, a kubelet or a file is a `str`, printed without control characters. Coloured lines are
`Styled`, made by `style` and `line_of`; so no foreign text brings a control sequence along.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TextIO

import click

from numaforge.lib.errors import NumaforgeError
from numaforge.report.printable import in_one_line, plain, spaced, with_whole_commands

# Functions import rich, json, shutil and pathlib themselves: `--version` and `--help` answer at once.
if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console, RenderableType

COLOUR = "numaforge.colour"
QUIET = "numaforge.quiet"
VERBOSE = "numaforge.verbose"
AS_YAML = "numaforge.yaml"
"""The names under which a command's context keeps the options for printing."""


class Styled(str):
    """A line of printable characters with our colours, made by `style` and `line_of`."""

    __slots__ = ()


def style(text: str, *, fg: str | None = None, bold: bool | None = None, dim: bool | None = None) -> str:
    """Return a text as one line in a style."""
    return Styled(click.style(in_one_line(text), fg=fg, bold=bold, dim=dim))


def line_of(*parts: str) -> str:
    """Return one line of texts and styled texts."""
    return Styled("".join(part if isinstance(part, Styled) else in_one_line(part) for part in parts))


class Screen(NamedTuple):
    """The size of a terminal in characters."""

    width: int = 80
    height: int = 24


def screen() -> Screen:
    """Return the size of this terminal; without a terminal, 80 columns and 24 lines."""
    from shutil import get_terminal_size

    size = get_terminal_size(Screen())
    return Screen(size.columns, size.lines)


def show(renderable: RenderableType, *, wrapped: bool = False) -> None:
    """Print tables and text for people, for 80 columns or more; `wrapped` text is broken already."""
    out = console()
    out.width = max(out.width, Screen().width)
    with out.capture() as captured:
        out.print(renderable, soft_wrap=wrapped)
    out.file.write(re.sub(" +$", "", captured.get(), flags=re.MULTILINE))


def console(*, stderr: bool = False) -> Console:
    """Return the console for tables and progress, with the colours of the command line."""
    from numaforge.report.columns import CleanConsole

    wanted = _coloured()
    if wanted:
        return CleanConsole(stderr=stderr, highlight=False, force_terminal=True, no_color=False)
    return CleanConsole(stderr=stderr, highlight=False, color_system="auto" if wanted is None else None)


def _coloured() -> bool | None:
    """Return whether output has colours, by --color, NO_COLOR or FORCE_COLOR; None: on a terminal."""
    colour = {"always": True, "never": False}.get(str(_option(COLOUR)))
    if colour is None and (os.environ.get("NO_COLOR") or os.environ.get("FORCE_COLOR")):
        return not os.environ.get("NO_COLOR")
    return colour


def echo(line: str, *, err: bool = False) -> None:
    """Print one line, with the colours of the command line."""
    click.echo(line_of(line), color=_coloured(), err=err)


def echo_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print lines: wrapped on a terminal, whole in a file or a pipe."""
    width = _width(sys.stderr if err else sys.stdout)
    for line in lines:
        for part in (line,) if width is None else folded(line, width):
            echo(part, err=err)


def _width(stream: TextIO) -> int | None:
    """Return the width of a terminal in characters; None for a file or a pipe."""
    if not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    return os.get_terminal_size(stream.fileno()).columns or Screen().width  # a serial console has 0


def folded(line: str, width: int) -> list[str]:
    """Return a line wrapped to `width`; styles go on, names and commands between backticks stay whole."""
    line = line_of(line)
    shown = click.unstyle(line)
    if len(shown) <= width:
        return [line]
    indent = " " * (len(shown) - len(shown.lstrip()) + 2)
    first, *words = re.split(r"(?<=\S)(?= +\S)", with_whole_commands(line))
    lines = [first]
    for word in words:
        if len(click.unstyle(longer := lines[-1] + word)) <= width:
            lines[-1] = longer
        else:
            lines.append(indent + word.lstrip())
    return [Styled(spaced(line)) for line in lines]


def show_json(document: object) -> None:
    """Print a document for programs: JSON, or YAML where the command line asks for it."""
    if _option(AS_YAML):
        import json

        import yaml

        text = json.dumps(document, ensure_ascii=False)
        shown = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=text.isprintable())
        click.echo(shown, nl=False)
    else:
        click.echo(_json(document, indent=2))


def show_answer(
    output: str, document: Callable[[], object], answer: Callable[[], RenderableType | list[str]]
) -> None:
    """Print an answer by `--output`: a document for programs, else tables, or lines, for people."""
    if output == "json":
        show_json(document())
    elif isinstance(shown := answer(), list):
        echo_lines(shown)
    else:
        show(shown)


def show_json_line(document: object) -> None:
    """Print a document for programs in one line, at once."""
    click.echo(_json(document, indent=None))


def _json(document: object, *, indent: int | None) -> str:
    """Return a document as JSON, with escapes for what a terminal must not show or its encoding lacks."""
    import json

    shows_all = "utf" in (sys.stdout.encoding or "").lower()
    text = json.dumps(document, indent=indent, ensure_ascii=not shows_all)
    return re.sub(
        r"[^\n -~]", lambda char: char[0] if char[0].isprintable() else json.dumps(char[0])[1:-1], text
    )


def print_data(text: str) -> None:
    """Print a file's text: exactly into a file or a pipe, without control characters on a terminal."""
    click.echo(plain(text) if sys.stdout.isatty() else text, nl=False)


def save(content: str | bytes, output: str | None, *, private: bool = False) -> None:
    """Write a file whole and remark on it, or print it for None and `-`; a `private` one is its owner's."""
    if output is None or output == "-":
        if isinstance(content, str):
            print_data(content)
        else:
            click.echo(content, nl=False)
        return
    from pathlib import Path

    data = content if isinstance(content, bytes) else content.encode()
    try:
        _write(Path(output).resolve(), data, private=private)
    except OSError as error:
        raise NumaforgeError(error.strerror or str(error), where=output) from error
    remark(f"wrote {output}")


def remark(text: str) -> None:
    """Print a remark on standard error, neither answer nor error; -q omits it."""
    if not _option(QUIET):
        complain(text)


def complain(text: str) -> None:
    """Print an error on standard error, with text from hosts indented."""
    first, *further = text.split("\n")
    echo_lines([first, *(line if line.startswith("  ") else f"  {line}" for line in further)], err=True)


def _write(path: Path, content: bytes, *, private: bool) -> None:
    """Write a file and its folders; a pipe or a device is written directly."""
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        staged.touch(0o600 if private else 0o666)
        staged.write_bytes(content)
        if path.exists() and not private:
            import shutil

            shutil.copymode(path, staged)
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)


def verbosity() -> int:
    """Return the verbosity of the command line: 0, 1 for -v, 2 for -vv."""
    count = _option(VERBOSE)
    return count if isinstance(count, int) else 0


def detail(text: str) -> None:
    """Print a step on standard error, with -v."""
    if verbosity():
        echo_lines(text.split("\n"), err=True)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Time a step; -v prints how long it took."""
    began = time.monotonic()
    try:
        yield
    finally:
        detail(f"{title}: {time.monotonic() - began:.2f} s")


@contextmanager
def progress(title: str) -> Iterator[Callable[[str], object]]:
    """Show on standard error what a command waits for, since when, and what the yielded function is given."""
    far, began = [""], time.monotonic()
    with step(title):
        if _option(QUIET) or (screen := rewritable()) is None:
            yield lambda _: None
            return
        from rich.live import Live
        from rich.text import Text

        def line() -> Text:
            text = in_one_line(
                ": ".join(filter(None, (f"{title}, {time.monotonic() - began:.0f} s", far[0])))
            )
            return Text(text, no_wrap=True, overflow="ellipsis")

        def show_far(words: str) -> None:
            far[0] = words

        with Live(console=screen, get_renderable=line, transient=True, redirect_stdout=False):
            yield show_far


def rewritable() -> Console | None:
    """Return the console of standard error where its lines can be rewritten; None for a file or a log."""
    if not sys.stderr.isatty():
        return None
    screen = console(stderr=True)
    return screen if screen.is_terminal and not screen.is_dumb_terminal else None


def _option(name: str) -> object:
    """Return an option for printing by its name; None outside of a command."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(name)
