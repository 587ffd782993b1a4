"""All replacements within pyinfra, which has no hook for them: each states its reason and its end.

The replacing functions are where they belong; nothing else assigns to pyinfra's names.
"""

import inspect
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple

from pyinfra import logger
from pyinfra.api import Host, State, facts, operations, util
from pyinfra.api.exceptions import ConnectError, PyinfraError
from pyinfra.connectors import ssh
from pyinfra.connectors import util as connectors

# What is replaced; to mypy a module or a class has the names alone that its types declare.
_connectors: Any = connectors
_ssh: Any = ssh
_printers: tuple[Any, ...] = (facts, operations)
_util: Any = util


def command_line(**replacements: Callable[[Any], Any]) -> None:
    """Replace functions of pyinfra's command line; each of `ours` receives the one that it replaces.

    `make_inventory` takes no folder, `connect_all` ends the run for all hosts where one has bad data, and
    a run of many hosts is shown at `print_inventory`, `print_meta`, `run_ops`, `print_results` and
    `disconnect_all`.
    Until pyinfra's command line takes these functions as arguments, or has a plugin for them.
    """
    from pyinfra_cli import cli  # type: ignore[import-untyped]

    for name, replacement in replacements.items():
        setattr(cli, name, replacement(getattr(cli, name)))


def inventory_groups(replacement: Callable[[Any], Any]) -> None:
    """Replace once pyinfra's test for lists of hosts; `replacement` gets the original.

    Until pyinfra names the lists that it ignores, and refuses entries that are not hosts.
    """
    from pyinfra_cli import inventory

    current = inventory._is_inventory_group
    if current.__module__ == inventory.__name__:
        inventory._is_inventory_group = replacement(current)


def guard_output() -> None:
    """Limit how much of a host's output this process reads, and show it as text.

    pyinfra keeps every line of a command, and prints those of a failed one with control sequences for the
    admin's terminal. Until pyinfra limits what it reads, and prints control characters visibly.
    """
    from numaforge.run.hosts import output

    if _connectors.read_output_buffers is output.read_output:
        return
    _connectors.read_output_buffers = _ssh.read_output_buffers = output.read_output
    for module in _printers:
        module.print_host_combined_output = output.as_text(module.print_host_combined_output)
    logger.addFilter(output.steers_nothing)


def read_frames_once() -> None:
    """Read the frames of a stack without their source.

    pyinfra orders operations by the lines that called them, and for that reads the source of every frame, for
    every operation of every host: a third of the time of a run of 300 hosts. A pyinfra that calls something
    else is left alone. Until pyinfra reads frames without their source (`inspect.stack(0)`).
    """
    if _util.stack is inspect.stack and _util.getframeinfo is inspect.getframeinfo:
        _util.stack = _stack
        _util.getframeinfo = lambda frame: _Frame(frame.f_code.co_filename, frame.f_lineno)


class _Frame(NamedTuple):
    """The attributes of a frame that `pyinfra.api.util` reads."""

    filename: str
    lineno: int


def _stack() -> list[tuple[FrameType]]:
    """Return the frames of the caller and of its callers, the innermost first, as `inspect.stack` does."""
    frames = []
    frame: FrameType | None = sys._getframe(1)
    while frame:
        frames.append((frame,))
        frame = frame.f_back
    return frames


def go_on_without_failed(state: State) -> None:
    """Continue a run without the failed hosts, where there is no terminal for pyinfra's "continue?".

    pyinfra asks all the same, and ends the run for every host without an answer. Until pyinfra asks a
    terminal only, or its command line has a flag for it.
    """
    if state.should_raise_failed_hosts and not sys.stdin.isatty():
        state.should_raise_failed_hosts = lambda _state: False


def stay_away(host: Host) -> None:
    """Leave a host unconnected, out of the run. Until pyinfra lets one be taken out with a reason."""

    def connect(*_: object, **__: object) -> None:
        """Do nothing."""

    host.connect = connect  # type: ignore[method-assign]


def fail_alone(host: Host) -> None:
    """Turn errors of pyinfra's connectors about a host's data into errors of this host, not of the run.

    Ours does so itself. Until pyinfra's connectors raise ConnectError for it.
    """
    connect = host.connector.connect

    def connect_alone() -> None:
        try:
            connect()
        except ConnectError:
            raise
        except (PyinfraError, TypeError, ValueError) as error:
            raise ConnectError(f"cannot be connected to with its data: {error}") from error

    host.connector.connect = connect_alone  # type: ignore[method-assign]
