"""Operations on a host whose errors fail that host alone."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from pyinfra import host as current_host
from pyinfra.api import Host, State, StringCommand, operation
from pyinfra.api.arguments_typed import PyinfraOperation
from pyinfra.api.command import FunctionCommand

from numaforge.errors import NumaforgeError
from numaforge.hosts.display import show_changes
from numaforge.hosts.failures import print_error
from numaforge.hosts.read_ahead import forget_what_was_read, script_output, will_read
from numaforge.node import bundle
from numaforge.node.bundle import FileContent, FileState

Commands = Generator[StringCommand | FunctionCommand, None, None]
P = ParamSpec("P")

COMMAND_SECONDS = 3600
"""How long a host may take for what it is told; the longest is to end a change that fills huge pages."""


def host_operation(function: Callable[P, Commands]) -> PyinfraOperation[P]:
    """Make an operation whose errors fail their own host only, while preparing as while executing."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Commands:
        try:
            for command in function(*args, **kwargs):
                forget_what_was_read(current_host)  # what was read before this change is old now
                yield command
        except NumaforgeError as error:
            if not current_host.state.is_executing:
                raise
            # pyinfra breaks off the whole run for an exception here; a command that fails stops this host
            # alone.
            yield FunctionCommand(_refuse, (error,), {})

    return operation()(guarded)


def _refuse(state: State, host: Host, error: NumaforgeError) -> bool:  # noqa: ARG001 (pyinfra's signature)
    print_error(host, error)
    return False


def host_command(
    function: Callable[Concatenate[Host, P], None], *args: P.args, **kwargs: P.kwargs
) -> FunctionCommand:
    """Make an operation's command that calls a function with the host; its errors fail this host alone."""

    def run(state: State, host: Host) -> bool:  # noqa: ARG001 (pyinfra's signature)
        try:
            function(host, *args, **kwargs)
        except NumaforgeError as error:
            print_error(host, error)
            return False
        return True

    return FunctionCommand(run, (), {})


def script_command(script_text: str) -> StringCommand:
    """Make an operation's command that runs a script; a host that does not end it in time fails alone."""
    return StringCommand("sh", "-s", _stdin=script_text, _timeout=COMMAND_SECONDS)


def file_bundle(
    *, name: str, files: Sequence[FileContent], absent: Sequence[str] = (), **options: Any
) -> None:
    """Write many files atomically: one round trip to compare, one to change all that differ or none.

    + files: text, mode, owner and group of each
    + absent: paths that must not exist
    """
    paths, texts = _asked_of(files, absent)
    will_read(current_host, bundle.read_script(paths, texts))
    _bundle(name=name, files=files, absent=absent, **options)


def _asked_of(files: Sequence[FileContent], absent: Sequence[str]) -> tuple[list[str], list[str]]:
    return [*(file.path for file in files), *absent], [file.text for file in files]


@host_operation
def _bundle(files: Sequence[FileContent], absent: Sequence[str]) -> Commands:
    """Compare, and write what differs."""
    host = current_host
    paths, texts = _asked_of(files, absent)
    changed = bundle.changes(files, absent, file_states(host, paths, texts))
    if not changed:
        host.noop(f"{', '.join(paths)} {'is' if len(paths) == 1 else 'are'} already as planned")
        return
    show_changes(host, changed)
    yield script_command(bundle.write_script(changed))


def file_states(host: Host, paths: Sequence[str], known: Sequence[str]) -> dict[str, FileState]:
    """Return the files that exist among `paths`, in one round trip; `known` texts are not sent.

    Raises HostError when the host does not answer or a path is not a regular file.
    """
    return bundle.parse_states(script_output(host, bundle.read_script(paths, known)), known)
