"""pyinfra's command line without a terminal: `python -m numaforge.pyinfra_cli ARGUMENTS`.

A host that cannot be reached fails alone, as any host that fails does, and the program that started the run
learns which hosts there are before any of them is asked. With `debug-inventory` none of them is.

A run that begins no roll-out may use every core (NUMAFORGE_PROCESSES): its hosts are divided between
processes, which write to the same log and the same events. One that begins any counts failures in one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gevent.os import fork  # type: ignore[import-untyped]
from pyinfra.api import Host, State
from pyinfra.api.connect import connect_all as connect_to_all
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.state import BaseStateCallback
from pyinfra_cli import cli  # type: ignore[import-untyped]
from pyinfra_cli.main import main  # type: ignore[import-untyped]

from numaforge.hosts import go_on_without_failed, inspect_once
from numaforge.rollout import events
from numaforge.rollout.options import PLACE

_HOSTS_OF_PROCESS = 40  # a process of its own takes as long to begin as so many hosts


class _Unreachable(BaseStateCallback):
    """Says why a host cannot be connected to."""

    @staticmethod
    def host_connect_error(state: State, host: Host, error: ConnectError) -> None:  # noqa: ARG004 (pyinfra's)
        events.record("unreachable", host.name, message=str(error))


def connect_all(state: State) -> None:
    """Connect to all hosts, and go on with those that answer; takes the place of pyinfra's own."""
    introduce(state)
    _divide(state)
    go_on_without_failed(state)
    inspect_once()
    state.add_callback_handler(_Unreachable())  # type: ignore[no-untyped-call]
    connect_to_all(state)


def introduce(state: State) -> None:
    """Say which hosts there are, with what their inventory says of roll-outs."""
    events.record("inventory", "", hosts={host.name: host.data.get(PLACE) for host in _hosts(state)})


def _hosts(state: State) -> list[Host]:
    return [host for host in state.inventory if state.is_host_in_limit(host)]


_others: list[int] = []  # the processes that have the other hosts


def _divide(state: State) -> None:
    """Fork, where there are hosts for more processes than this one, and keep this process's share of them."""
    hosts = _hosts(state)
    shares = shared(hosts, int(os.environ.get(events.PROCESSES, 1)))
    for share in shares[1:]:
        process = fork()
        if process == 0:
            _others.clear()
            state.limit_hosts = share
            return
        _others.append(process)
    if _others:
        state.limit_hosts = shares[0]


def shared(hosts: Sequence[Host], processes: int) -> list[list[Host]]:
    """Return the hosts of each process, of `processes` at most; neighbours in the inventory are parted."""
    count = max(1, min(processes, len(hosts) // _HOSTS_OF_PROCESS))
    return [list(hosts[first::count]) for first in range(count)]


def _end_with_others(code: int) -> int:
    """Wait for the other processes, and return the exit code of all together."""
    ended = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in _others]
    return next((each for each in (code, *ended) if each), 0)


def _run() -> int:
    cli.connect_all = connect_all
    cli.print_inventory = introduce
    try:
        main()
    except SystemExit as end:
        return _end_with_others(end.code if isinstance(end.code, int) else int(end.code is not None))
    return _end_with_others(0)


if __name__ == "__main__":
    sys.exit(_run())
