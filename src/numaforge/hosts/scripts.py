"""Scripts on a host, each with its end marked: one that was cut off is not taken for one that failed."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Sequence

from paramiko import SSHException
from pyinfra.api import Host, StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.util import CommandOutput

from numaforge.errors import HostError, HostUnreachableError
from numaforge.hosts.connection import CUT, hang_up, is_open, new_connection, send_at_once, within


def new_mark() -> str:
    """Return a line that no script prints by chance."""
    return f"--- {secrets.token_hex(8)} "


def marked(script_text: str, mark: str) -> str:
    """Have a script run in a shell of its own, and its end said.

    The shell reads to the closing bracket before it runs anything: half a script does nothing.
    """
    return f"(\n{script_text}\n)\necho {shlex.quote(mark)}$?\n"


def ended(output: Sequence[str], mark: str) -> list[tuple[int, list[str]]]:
    """Return the exit status and the lines of each marked script that has ended."""
    answers: list[tuple[int, list[str]]] = []
    lines: list[str] = []
    for line in output:
        before, _, status = line.partition(mark)  # a script's last line may have no end of its own
        if before or not status:
            lines.append(before)
        if status:
            answers.append((int(status), lines))
            lines = []
    return answers


def reached(host: Host, script_text: str, seconds: int = 120) -> list[str]:
    """Run a script on a host that may be unreachable for a while, and return the lines it prints.

    A connection that broke is made anew. The limit is for all of it: to connect, to open a channel, which
    paramiko would await for an hour, to write the script and to read the answer. Raises HostUnreachableError
    where the host does not answer to the end, HostError with what the script complains of where it fails.
    """
    mark = new_mark()
    try:
        with within(host, seconds):
            if not host.connected:
                host.connect(show_errors=False, raise_exceptions=True)
                send_at_once(host)
            output = _run(host, host.connector, script_text, mark)
    except (ConnectError, SSHException, OSError, EOFError) as error:
        hang_up(host)
        raise _unreachable(host, _why(host, error)) from error
    try:
        return _lines(host, output, mark)
    except HostUnreachableError:
        hang_up(host)
        raise


def reached_anew(host: Host, script_text: str, seconds: int = 60) -> list[str]:
    """Run a script as `reached` does, over an SSH connection that is made for it alone.

    It shows that the host lets a runner in now. The connection that there is stays as it is.
    """
    mark = new_mark()
    try:
        with within(host, seconds), new_connection(host) as connector:
            output = _run(host, connector, script_text, mark)
    except (ConnectError, SSHException, OSError, EOFError) as error:
        raise _unreachable(host, str(error) or type(error).__name__) from error
    return _lines(host, output, mark)


def _run(host: Host, connector: BaseConnector, script_text: str, mark: str) -> CommandOutput:
    _, output = connector.run_shell_command(
        StringCommand("exec", "sh", "-s"),
        print_output=False,
        print_input=False,
        _stdin=marked(script_text, mark),
        _sudo=bool(host.data.get("_sudo")),
    )
    return output


def _lines(host: Host, output: CommandOutput, mark: str) -> list[str]:
    answers = ended(output.stdout_lines, mark)
    if not answers:  # to pyinfra this is a script that failed; one that fails says so itself
        said = output.stderr.strip()
        raise _unreachable(host, f"{CUT}{said and f' ({said})'}")
    ((status, lines),) = answers
    if status != 0:
        raise HostError(output.stderr.strip() or f"the script failed with {status}", where=host.name)
    return lines


def _why(host: Host, error: Exception) -> str:
    """Say why a call failed: how paramiko notices a cut depends on what it was doing at that moment.

    A write may fail before the thread that reads has noticed anything.
    """
    while_connecting = isinstance(error, ConnectError)
    noticed_by_socket = isinstance(error, OSError | EOFError)
    if not while_connecting and (noticed_by_socket or not is_open(host)):
        return CUT
    return str(error) or type(error).__name__


def _unreachable(host: Host, why: str) -> HostUnreachableError:
    return HostUnreachableError(f"the host does not answer: {why}", where=host.name)
