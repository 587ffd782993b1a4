"""Divide a run's hosts between processes, so that it uses every core."""

import os
from collections.abc import Sequence

from gevent.os import fork  # type: ignore[import-untyped]
from pyinfra.api import Host, State

HOSTS_OF_PROCESS = 40  # least hosts of a process: as many take as long as starting one

_others: list[int] = []  # the processes that have the other hosts


def divide(state: State, processes: int) -> None:
    """Fork for several processes' worth of hosts, and keep this process's share of them."""
    shares = shared(hosts_of(state), processes)
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
    count = max(1, min(processes, len(hosts) // HOSTS_OF_PROCESS))
    return [list(hosts[first::count]) for first in range(count)]


def end_with_others(code: int) -> int:
    """Wait for the other processes, and return the exit code of all together."""
    ended = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in _others]
    return next((status for status in (code, *ended) if status), 0)


def hosts_of(state: State) -> list[Host]:
    return [host for host in state.inventory if state.is_host_in_limit(host)]
