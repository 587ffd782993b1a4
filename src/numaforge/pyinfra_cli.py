"""pyinfra's command line where nobody sits at a terminal: `python -m numaforge.pyinfra_cli ARGUMENTS`.

A host that cannot be reached fails alone, as any host that fails does, and who started the run learns which
hosts there are before any of them is asked. With `debug-inventory` none of them is.
"""

from __future__ import annotations

from pyinfra.api import Host, State
from pyinfra.api.connect import connect_all as connect_to_all
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.state import BaseStateCallback
from pyinfra_cli import cli  # type: ignore[import-untyped]
from pyinfra_cli.main import main  # type: ignore[import-untyped]

from numaforge.hosts import go_on_without_failed, inspect_once
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
    go_on_without_failed(state)
    inspect_once()
    state.add_callback_handler(_Unreachable())  # type: ignore[no-untyped-call]
    connect_to_all(state)


def introduce(state: State) -> None:
    """Say which hosts there are, with what their inventory says of roll-outs."""
    hosts = [host for host in state.inventory if state.is_host_in_limit(host)]
    events.record("inventory", "", hosts={host.name: host.data.get(PLACE) for host in hosts})


if __name__ == "__main__":
    cli.connect_all = connect_all
    cli.print_inventory = introduce
    main()
