"""A host that fails, fails alone."""

from __future__ import annotations

import sys

from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.output import format_text

from numaforge.errors import HostUnreachableError, NumaforgeError
from numaforge.rollout import events


def fail_host(host: Host, error: NumaforgeError) -> None:
    """Print the error once and take the host out of the run; the rest continues; pyinfra exits with 1."""
    print_error(host, error)
    go_on_without_failed(host.state)
    host.state.fail_hosts({host})  # type: ignore[no-untyped-call]


def go_on_without_failed(state: State) -> None:
    """Have a run continue without the hosts that fail, where there is no terminal to ask "continue?" of.

    pyinfra asks all the same, and breaks off the run for every host when nothing answers.
    """
    if state.should_raise_failed_hosts and not sys.stdin.isatty():
        state.should_raise_failed_hosts = lambda _state: False


def print_error(host: Host, error: NumaforgeError) -> None:
    """Print why a host fails, and record it for the program that started the run."""
    kind = "unreachable" if isinstance(error, HostUnreachableError) else "refused"
    events.record(kind, host.name, message=str(error))
    for line in str(error).splitlines():
        logger.error("%s%s", host.print_prefix, format_text(line, "red"))
