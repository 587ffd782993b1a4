"""pyinfra's command line without a terminal: `python -m numaforge.pyinfra_cli ARGUMENTS`.

A host that cannot be reached fails alone, as any host that fails does, and the program that started the run
learns which hosts there are before any of them is asked. With `debug-inventory` none of them is.

A run that begins no roll-out may use every core (NUMAFORGE_PROCESSES): its hosts are divided between
processes, which write to the same log and the same events. One that begins any counts failures in one.
"""

from __future__ import annotations

import os
import sys

from pyinfra.api import Host, State
from pyinfra.api.connect import connect_all as connect_to_all
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.state import BaseStateCallback
from pyinfra_cli import cli  # type: ignore[import-untyped]
from pyinfra_cli.main import main  # type: ignore[import-untyped]

from numaforge.hosts import go_on_without_failed, inspect_once
from numaforge.hosts.processes import divide, end_with_others, hosts_of
from numaforge.rollout import events
from numaforge.rollout.options import PLACE


class _Unreachable(BaseStateCallback):
    """Says why a host cannot be connected to."""

    @staticmethod
    def host_connect_error(state: State, host: Host, error: ConnectError) -> None:  # noqa: ARG004 (pyinfra's)
        events.record("unreachable", host.name, message=str(error))


def connect_all(state: State) -> None:
    """Connect to all hosts, and go on with those that answer; takes the place of pyinfra's own."""
    introduce(state)
    divide(state, int(os.environ.get(events.PROCESSES, 1)))
    go_on_without_failed(state)
    inspect_once()
    state.add_callback_handler(_Unreachable())  # type: ignore[no-untyped-call]
    connect_to_all(state)


def introduce(state: State) -> None:
    """Say which hosts there are, with what their inventory says of roll-outs."""
    events.record("inventory", "", hosts={host.name: host.data.get(PLACE) for host in hosts_of(state)})


def run() -> int:
    """Run pyinfra with the program's arguments, and return its exit code."""
    cli.connect_all = connect_all
    cli.print_inventory = introduce
    try:
        main()
    except SystemExit as end:
        return end_with_others(end.code if isinstance(end.code, int) else int(end.code is not None))
    return end_with_others(0)


if __name__ == "__main__":
    sys.exit(run())
