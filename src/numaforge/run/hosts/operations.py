"""Operations on a host whose errors fail that host alone."""

from collections.abc import Callable, Generator
from functools import wraps
from typing import Concatenate, ParamSpec

from pyinfra import host as current_host
from pyinfra.api import Host, State, StringCommand, operation
from pyinfra.api.arguments_typed import PyinfraOperation
from pyinfra.api.command import FunctionCommand

from numaforge.lib import shell
from numaforge.lib.errors import NumaforgeError
from numaforge.run.hosts.errors import fault
from numaforge.run.hosts.failures import print_error

Commands = Generator[StringCommand | FunctionCommand, None, None]
P = ParamSpec("P")

COMMAND_SECONDS = 3600  # time limit of a host's command; the longest ends a change that fills huge pages


def host_operation(function: Callable[P, Commands]) -> PyinfraOperation[P]:
    """Make an operation whose errors fail their own host only, while preparing and executing."""

    @wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> Commands:
        try:
            yield from function(*args, **kwargs)
        except Exception as error:
            refused = error if isinstance(error, NumaforgeError) else fault(error)
            if not current_host.state.is_executing:
                raise refused from refused.__cause__
            # pyinfra breaks off the whole run for an exception here; a command that fails stops this host
            # alone.
            yield FunctionCommand(_refuse, (refused,), {})

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
        except Exception as error:
            print_error(host, fault(error))
            return False
        return True

    return FunctionCommand(run, (), {})


def script_command(script_text: str) -> StringCommand:
    """Make an operation's command that runs a script; a host that does not end it in time fails alone."""
    return StringCommand("exec", "sh", "-s", _stdin=shell.on_stdin(script_text), _timeout=COMMAND_SECONDS)
