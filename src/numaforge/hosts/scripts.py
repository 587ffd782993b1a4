"""Scripts on a host that may be unreachable: a script that was cut off is not one that failed."""

from __future__ import annotations

from paramiko import SSHException
from pyinfra.api import Host, StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.util import CommandOutput

from numaforge import shell
from numaforge.errors import HostError, HostUnreachableError
from numaforge.framing import Answer
from numaforge.hosts.connection import CUT, hang_up, is_open, new_connection, within


def reached(host: Host, script_text: str, seconds: int = 120) -> Answer:
    """Run a script on a host, retrying while it is unreachable, and return its answer.

    A connection that broke is made anew. The limit is for all of it: to connect, to open a channel, which
    paramiko would await for an hour, to write the script and to read the answer. Raises HostUnreachableError
    where the host does not answer to the end, HostError with what the script complains of where it fails.
    """
    try:
        with within(host, seconds):
            if not host.connected:
                host.connect(show_errors=False, raise_exceptions=True)
            output = _run(host, host.connector, script_text)
    except (ConnectError, SSHException, OSError, EOFError) as error:
        hang_up(host)
        raise _unreachable(host, _why(host, error)) from error
    try:
        return _answer(host, output)
    except HostUnreachableError:
        hang_up(host)
        raise


def reached_anew(host: Host, script_text: str, seconds: int = 60) -> Answer:
    """Run a script as `reached` does, over a new SSH connection of its own.

    It shows that the host lets a runner in now. The connection that there is stays as it is.
    """
    try:
        with within(host, seconds), new_connection(host) as connector:
            output = _run(host, connector, script_text)
    except (ConnectError, SSHException, OSError, EOFError) as error:
        raise _unreachable(host, str(error) or type(error).__name__) from error
    return _answer(host, output)


def _run(host: Host, connector: BaseConnector, script_text: str) -> CommandOutput:
    _, output = connector.run_shell_command(
        StringCommand("exec", "sh", "-s"),
        print_output=False,
        print_input=False,
        _stdin=shell.on_stdin(script_text),
        _sudo=bool(host.data.get("_sudo")),
    )
    return output


def _answer(host: Host, output: CommandOutput) -> Answer:
    said = output.stderr.strip()
    try:
        answer = Answer.of(output.stdout_lines)
    except (
        HostUnreachableError
    ) as error:  # to pyinfra this is a script that failed; one that fails says so itself
        raise _unreachable(host, f"{CUT}{said and f' ({said})'}") from error
    if answer.status != 0:
        raise HostError(said or f"the script failed with {answer.status}", where=host.name)
    return answer


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
