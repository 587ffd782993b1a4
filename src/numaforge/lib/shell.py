"""Scripts for hosts: `.sh` files of this package, concatenated, with values as variables and arguments."""

import re
import shlex
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from numaforge.lib.errors import HostError

_PACKAGE = Path(__file__).parents[1]
# The builtin is checked, too: a login may export the variable to another shell, which reads ahead and would
# lose a part.
_AT_ONCE = 'if [ -n "${BASH_VERSION-}" ] && command -v shopt > /dev/null 2>&1; then eval "$(cat)"; exit; fi\n'


@cache
def library(*names: str) -> str:
    """Return the text of `.sh` files, named by their paths below this package without the suffix."""
    return "".join((_PACKAGE / f"{name}.sh").read_text(encoding="utf-8") for name in names)


def exists(name: str) -> bool:
    """Whether there is a `.sh` file of this name, as `library` takes it."""
    return (_PACKAGE / f"{name}.sh").is_file()


def assignments(variables: dict[str, str]) -> str:
    """Return the shell's assignments of values, which may contain any text."""
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in variables.items())


def call(function: str, arguments: Sequence[str] = (), data: str = "") -> str:
    """Return a call that does nothing when it arrives truncated; `data`, plain lines, is its stdin."""
    heredoc = f" <<'END_OF_DATA'\n{data}END_OF_DATA\n" if data else "\n"
    return f"numaforge_main() {{\n{shlex.join([function, *arguments])}{heredoc}}}\nnumaforge_main || exit 1\n"


def on_stdin(script: str) -> str:
    """Return a script for `sh -s`, which bash would read byte by byte; its programs find an empty stdin."""
    return _AT_ONCE + script


def line(text: str) -> str:
    """Return a text that is one line of a data file; raises HostError for one that is not."""
    if re.search(r"[\n\r\0]", text):
        raise HostError(f"{text!r} is more than one line")
    return text
