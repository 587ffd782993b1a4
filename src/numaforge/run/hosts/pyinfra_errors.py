"""pyinfra's errors that end a run, as one message instead of a traceback (NUMAFORGE_TRACEBACK=1 keeps it)."""

import os
import traceback
from collections.abc import Callable
from typing import Any

from pyinfra_cli import exceptions  # type: ignore[import-untyped]

NO_HOST_LEFT = "no host is left; the reason for each is above"
_PYINFRAS_WORDS = "No hosts remaining!"


def say_in_one_line() -> None:
    """Make pyinfra's command line print what ended it as one message."""
    for error, words in (
        (exceptions.WrappedError, _of_pyinfra),
        (exceptions.UnexpectedExternalError, of_file),
        (exceptions.UnexpectedInternalError, _of_internal),
    ):
        if not getattr(error.show, "in_one_line", False):
            error.show = _showing(error.show, words)


def of_file(error: Any) -> str:
    """Return what is wrong in a file that pyinfra runs, with its line."""
    mistake, name = error.exception, error.filename
    frames = traceback.walk_tb(mistake.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == name]
    where = f"{name}, line {lines[-1]}" if lines else name
    return f"{where}: {type(mistake).__name__}: {mistake}"


def _of_pyinfra(error: Any) -> str | None:
    message = str(error.exception)
    return NO_HOST_LEFT if message == _PYINFRAS_WORDS else message


def _of_internal(error: Any) -> str | None:
    """Return the message for a mistake of the admin's; None for a fault of pyinfra's own."""
    mistake = error.exception
    if isinstance(mistake, SyntaxError):
        return f"{mistake.filename}, line {mistake.lineno}: {mistake.msg}"
    if isinstance(mistake, OSError | UnicodeDecodeError):
        return str(mistake)
    places = {frame.f_code.co_name for frame, _ in traceback.walk_tb(mistake.__traceback__)}
    return "--data is KEY=VALUE" if "_set_override_data" in places else None


def _showing(show: Callable[..., None], words: Callable[[Any], str | None]) -> Callable[..., None]:
    def shown(error: Any, file: Any = None) -> None:
        message = None if os.environ.get("NUMAFORGE_TRACEBACK") else words(error)
        if message is None:
            show(error, file)
        else:
            exceptions.CliError(message).show(file)

    shown.in_one_line = True  # type: ignore[attr-defined]
    return shown
