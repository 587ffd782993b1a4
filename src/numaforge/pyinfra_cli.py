"""pyinfra's command line where nobody sits at a terminal: `python -m numaforge.pyinfra_cli ARGUMENTS`.

A host that cannot be reached fails alone, as any host that fails does, and who started the run learns which
hosts there are before any of them is asked. With `debug-inventory` none of them is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyinfra.api import Host, State
from pyinfra.api.connect import connect_all as connect_to_all
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.state import BaseStateCallback
from pyinfra_cli import cli  # type: ignore[import-untyped]
from pyinfra_cli.exceptions import CliError  # type: ignore[import-untyped]
from pyinfra_cli.main import main  # type: ignore[import-untyped]

from numaforge.errors import NumaforgeError
from numaforge.hosts import go_on_without_failed
from numaforge.rollout import events
from numaforge.rollout.options import PLACE
from numaforge.rollout.shards import Shard, shard_here


class _Unreachable(BaseStateCallback):
    """Says why a host cannot be connected to."""

    @staticmethod
    def host_connect_error(state: State, host: Host, error: ConnectError) -> None:  # noqa: ARG004 (pyinfra's)
        events.record("unreachable", host.name, message=str(error))


def connect_all(state: State) -> None:
    """Connect to all hosts, and go on with those that answer; takes the place of pyinfra's own."""
    introduce(state)
    go_on_without_failed(state)
    state.add_callback_handler(_Unreachable())  # type: ignore[no-untyped-call]
    connect_to_all(state)


def introduce(state: State) -> None:
    """Say which hosts there are, with what their inventory says of roll-outs; keep those of this shard."""
    hosts = [host for host in state.inventory if state.is_host_in_limit(host)]
    shard, present = _shard(), []
    if shard is not None:
        canaries = {name for host in hosts for name in _canaries(host)}
        present = sorted({shard.of(host.name, canaries) for host in hosts})
        hosts = [host for host in hosts if shard.of(host.name, canaries) == shard.index]
        state.limit_hosts = hosts
    found = {host.name: host.data.get(PLACE) for host in hosts}
    events.record("inventory", "", hosts=found, shards=present)


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


if __name__ == "__main__":
    cli.connect_all = connect_all
    cli.print_inventory = introduce
    main()
