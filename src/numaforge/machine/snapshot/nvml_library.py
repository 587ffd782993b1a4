"""pynvml, cut down to what the probe uses: 8 KB on the wire instead of 67, and quick to compile."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from itertools import takewhile
from pathlib import Path
from types import ModuleType

import numaforge.machine.snapshot.nvml_probe as nvml_probe
from numaforge.lib.errors import SnapshotError


def probe_source() -> str:
    """Return the probe's own source, as it is sent."""
    return sent(nvml_probe)


def sent(probe: ModuleType) -> str:
    """Return the source of a module as it is sent to hosts."""
    return _without_words(Path(str(probe.__file__)).read_text(encoding="utf-8"))


@cache
def library_source(user: str | None = None) -> str:
    """Return the installed pynvml without what `user`, by default the probe, never reaches."""
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise SnapshotError("pynvml is not installed", remedy="install the package nvidia-ml-py")
    source = Path(spec.origin).read_text(encoding="utf-8")
    licence = takewhile(lambda line: line.startswith("#"), source.splitlines())
    used = _without_words(user) if user else probe_source()
    return "\n".join((*licence, reduced(_without_words(source), used)))


# Where a pattern begins with a newline, it is looked for as a letter is, and not tried at each one.
_WORDS = re.compile(r"\n[ \t]*(?:#.*|(\"\"\"|''')[\s\S]*?\1[ \t]*|)(?=\n)")


def _without_words(source: str) -> str:
    """Return a program without comments, docstrings and blank lines, which are a third of it."""
    return _WORDS.sub("", f"\n{source}")[1:]


# Statements begin at the left margin, and so may their later lines: brackets and quotes that close, the other
# branches of `if` and `try`. A decorator has the name of what it stands before.
_STATEMENT = re.compile(
    r"\n(?=[^\s)\]}\"'#])(?!(?:else|elif|except|finally)\b)"
    r"(?=(?:@.*\n)*(?:(?:def|class)\s+(\w+)|(?!NVML_ERROR_)(\w+)\s*=(?!=))|)"
)
_NAME = re.compile(r"[A-Za-z_]\w*")


def reduced(library: str, user: str) -> str:
    """Return `library` without the functions, classes and constants that neither it nor `user` needs.

    Every word of a statement counts as a name that it needs. Error codes stay: pynvml makes its exception
    classes from their names when it is imported.
    """
    _, *parts = _STATEMENT.split("\n" + library.rstrip("\n"))
    statements = [
        (statement, name or constant)
        for name, constant, statement in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]
    defined: dict[str, list[str]] = {}
    needed = set(_NAME.findall(user))
    for statement, name in statements:
        if name is None:
            needed.update(_NAME.findall(statement))
        else:
            defined.setdefault(name, []).append(statement)
    waiting = list(needed)
    while waiting:
        for statement in defined.get(waiting.pop(), []):
            reached = set(_NAME.findall(statement)) - needed
            needed |= reached
            waiting.extend(reached)
    return "".join(f"{statement}\n" for statement, name in statements if name is None or name in needed)
