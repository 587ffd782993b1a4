"""pyinfra's command line as numaforge uses it: without a terminal a host that cannot be reached fails alone.

`python -m numaforge.pyinfra_cli ARGUMENTS` is what numaforge starts itself: it tells by `events` which hosts
there are before any of them is asked. With `debug-inventory` none of them is.

A run that begins no roll-out may use every core (NUMAFORGE_PROCESSES): its hosts are divided between
processes, which write to the same log and the same events. One that begins any counts failures in one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyinfra.api import Host, State
from pyinfra.api.connect import connect_all as connect_to_all
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.state import BaseStateCallback
from pyinfra_cli import cli  # type: ignore[import-untyped]
from pyinfra_cli.exceptions import CliError  # type: ignore[import-untyped]
from pyinfra_cli.inventory import make_inventory  # type: ignore[import-untyped]
from pyinfra_cli.main import main  # type: ignore[import-untyped]

from numaforge.errors import NumaforgeError
from numaforge.hosts import go_on_without_failed, inspect_once
from numaforge.hosts.processes import divide, end_with_others, hosts_of
from numaforge.rollout import events
from numaforge.rollout.options import PLACE
from numaforge.rollout.shards import Shard, shard_here
from numaforge.verification.login import CONNECTION_DATA


class _Unreachable(BaseStateCallback):
    """Says why a host cannot be connected to."""

    @staticmethod
    def host_connect_error(state: State, host: Host, error: ConnectError) -> None:  # noqa: ARG004 (pyinfra's)
        events.record("unreachable", host.name, message=str(error))


def adapt() -> None:
    """Change what `pyinfra` does in this process; a `config.py` calls it, which pyinfra runs first.

    A folder stands for its `inventory.py`, and without a terminal a host that cannot be reached fails alone.
    """
    cli.make_inventory = _inventory_of_file_or_folder
    cli.connect_all = connect_all


def _inventory_of_file_or_folder(inventory: str, *args: Any, **options: Any) -> Any:
    """Take the file where a folder is named; pyinfra itself takes files only."""
    file = Path(inventory, "inventory.py")
    return make_inventory(str(file) if file.is_file() else inventory, *args, **options)


def connect_all(state: State) -> None:
    """Connect to all hosts, and go on with those that answer; takes the place of pyinfra's own."""
    introduce(state)
    divide(state, int(os.environ.get(events.PROCESSES, 1)))
    go_on_without_failed(state)
    inspect_once()
    state.add_callback_handler(_Unreachable())  # type: ignore[no-untyped-call]
    connect_to_all(state)


def introduce(state: State) -> None:
    """Tell which hosts there are, what their inventory says of roll-outs, and how each is reached.

    Those of other shards are left out.
    """
    hosts = hosts_of(state)
    shard, present = _shard(), []
    if shard is not None:
        canaries = {name for host in hosts for name in _canaries(host)}
        present = sorted({shard.of(host.name, canaries) for host in hosts})
        hosts = [host for host in hosts if shard.of(host.name, canaries) == shard.index]
        state.limit_hosts = hosts
    found = {host.name: host.data.get(PLACE) for host in hosts}
    events.record("inventory", "", hosts=found, shards=present)
    events.record("connections", "", hosts={host.name: _connection(host) for host in hosts})


def _shard() -> Shard | None:
    """Return the shard that the environment names; pyinfra prints a CliError without a traceback."""
    try:
        return shard_here()
    except NumaforgeError as error:
        refused = CliError(str(error))
        refused.exit_code = error.exit_code
        raise refused from error


def _canaries(host: Host) -> Iterable[str]:
    """Return the hosts that are named as canaries, by the inventory and on our command line."""
    for place in (PLACE, f"{PLACE}_options"):
        said = host.data.get(place)
        if isinstance(said, Mapping):
            yield from said.get("canary_hosts") or ()


def _connection(host: Host) -> dict[str, object]:
    data = {key: host.data.get(key) for key in CONNECTION_DATA}
    return {"connector": host.connector_cls.__name__, "data": data}


def run() -> int:
    """Run pyinfra with the program's arguments, and return its exit code."""
    adapt()
    cli.print_inventory = introduce
    try:
        main()
    except SystemExit as end:
        return end_with_others(end.code if isinstance(end.code, int) else int(end.code is not None))
    return end_with_others(0)


if __name__ == "__main__":
    sys.exit(run())
