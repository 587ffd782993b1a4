"""Scripts on a host that may be unreachable: a script that was cut off is not one that failed."""

from paramiko import SSHException
from pyinfra.api import Host, StringCommand
from pyinfra.api.exceptions import ConnectError
from pyinfra.connectors.base import BaseConnector
from pyinfra.connectors.util import CommandOutput

from numaforge.lib import shell
from numaforge.lib.bounded import TooMuchOutputError
from numaforge.lib.errors import HostError, HostUnreachableError
from numaforge.lib.framing import Answer
from numaforge.run.hosts.connection import CUT, hang_up, is_open, new_connection, within

_SHELL = "exec sh -s"


def reached(host: Host, script_text: str, seconds: int = 120) -> Answer:
    """Run a script on a host, return its answer; raises as `answer_of`, HostError where the script fails."""
    return _successful(host, *_ask(host, script_text, seconds))


def answer_of(host: Host, script_text: str, seconds: int, command: str) -> Answer:
    """Return the answer to a script that a command reads as the login user, whatever its exit status.

    The limit covers all, also opening a channel (which paramiko would await for an hour). Raises
    HostUnreachableError for an incomplete answer.
    """
    return _ask(host, script_text, seconds, command, sudo=False)[0]


def reached_anew(host: Host, script_text: str, seconds: int = 60) -> Answer:
    """Run a script as `reached` does, over a new SSH connection: the host accepts a login."""
    try:
        with within(host, seconds), new_connection(host) as connector:
            output = _run(host, connector, script_text)
    except TooMuchOutputError as error:
        raise error.at(host.name) from error
    except (ConnectError, SSHException, OSError, EOFError) as error:
        raise _unreachable(host, str(error) or type(error).__name__) from error
    return _successful(host, *_read(host, output))


def _ask(
    host: Host, script_text: str, seconds: int, command: str = _SHELL, *, sudo: bool = True
) -> tuple[Answer, str]:
    try:
        with within(host, seconds):
            if not host.connected:
                host.connect(show_errors=False, raise_exceptions=True)
            output = _run(host, host.connector, script_text, command, sudo=sudo)
    except TooMuchOutputError as error:
        raise error.at(host.name) from error
    except (ConnectError, SSHException, OSError, EOFError) as error:
        hang_up(host)
        raise _unreachable(host, _why(host, error)) from error
    try:
        return _read(host, output)
    except HostUnreachableError:
        hang_up(host)
        raise


def _run(
    host: Host, connector: BaseConnector, script_text: str, command: str = _SHELL, *, sudo: bool = True
) -> CommandOutput:
    """Have a command read the script, with sudo where the host's commands need it and `sudo` allows it."""
    _, output = connector.run_shell_command(
        StringCommand(command),
        print_output=host.state.print_fact_output,
        print_input=host.state.print_fact_input,
        _stdin=shell.on_stdin(script_text),
        _sudo=sudo and bool(host.data.get("_sudo")),
    )
    return output


def _read(host: Host, output: CommandOutput) -> tuple[Answer, str]:
    complaint = output.stderr.strip()
    try:
        return Answer.of(output.stdout_lines), complaint
    except HostUnreachableError as error:  # to pyinfra a script that failed; one that fails says so itself
        if complaint and not output.stdout_lines:
            raise _unreachable(host, f"{error.message} ({complaint})", error.remedy) from error
        raise _unreachable(host, f"{CUT}{complaint and f' ({complaint})'}") from error


def _successful(host: Host, answer: Answer, complaint: str) -> Answer:
    if answer.status != 0:
        raise HostError(complaint or f"the script failed with {answer.status}", where=host.name)
    return answer


def _why(host: Host, error: Exception) -> str:
    """Return why a call failed: a write may fail before paramiko's reader has noticed the cut."""
    while_connecting = isinstance(error, ConnectError)
    noticed_by_socket = isinstance(error, OSError | EOFError)
    if not while_connecting and (noticed_by_socket or not is_open(host)):
        return CUT
    return str(error) or type(error).__name__


def _unreachable(host: Host, why: str, remedy: str | None = None) -> HostUnreachableError:
    return HostUnreachableError(f"the host does not answer: {why}", where=host.name, remedy=remedy)
