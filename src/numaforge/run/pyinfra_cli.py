"""pyinfra's command line as numaforge uses it: an unreachable host fails alone, even without a terminal.

numaforge starts it as `python -m numaforge.run`, which records the hosts as `events` before it asks any (with
`debug-inventory`, none). Without a roll-out, its hosts may be divided between NUMAFORGE_PROCESSES processes
with one log.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from pyinfra.api import Host, State
from pyinfra.api.connect import connect_all as connect_to_all
from pyinfra.api.connectors import get_all_connectors
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.state import BaseStateCallback
from pyinfra_cli.exceptions import CliError, UnexpectedExternalError  # type: ignore[import-untyped]
from pyinfra_cli.inventory import make_inventory  # type: ignore[import-untyped]

from numaforge.lib.ansible import is_inventory
from numaforge.lib.errors import NumaforgeError
from numaforge.machine.snapshot.capture import script
from numaforge.report.terminal import remark
from numaforge.rollout import events
from numaforge.rollout.names import PLACE
from numaforge.rollout.shards import shard_here
from numaforge.run.hosts.connector import ask_for, use_own_connectors
from numaforge.run.hosts.errors import connect_error
from numaforge.run.hosts.failures import tell_refused
from numaforge.run.hosts.host_data import notices, refuse, say_refused, set_aside
from numaforge.run.hosts.inventories import (
    InventoryError,
    group_data_notices,
    no_host,
    noticing,
    of_ansible,
    passed_over_group_data,
    refuse_no_text,
    why_no_host,
)
from numaforge.run.hosts.overview import MAINTENANCE, follow, show_overview
from numaforge.run.hosts.patches import (
    command_line,
    go_on_without_failed,
    guard_output,
    inventory_groups,
    read_frames_once,
)
from numaforge.run.hosts.processes import divide, end_with_others, hosts_of
from numaforge.run.hosts.pyinfra_errors import of_file, say_in_one_line
from numaforge.ssh import DATA

_A_DEPLOY = "'State' object has no attribute"  # Python's error where a deploy's file is run as an inventory


class _Unreachable(BaseStateCallback):
    """Reports why a host cannot be connected to."""

    @staticmethod
    def host_connect_error(state: State, host: Host, error: ConnectError) -> None:  # noqa: ARG004 (pyinfra's)
        tell_refused(host, connect_error(error))


def adapt() -> None:
    """Adapt pyinfra in this process; a `config.py`, which pyinfra runs first, calls it."""
    guard_output()
    inventory_groups(noticing)
    say_in_one_line()
    if "pyinfra_cli.cli" not in sys.modules:  # `numaforge apply` reads this `config.py`
        return
    command_line(
        make_inventory=lambda _: read_inventory,
        connect_all=lambda _: connect_all,
        print_inventory=_and_who_is_refused,
    )
    if events.heard():  # who started the run shows all of its hosts itself
        command_line(print_meta=recorded)
    else:
        show_overview()


def read_inventory(inventory: str, *args: Any, **options: Any) -> Any:
    """Read a folder's file, or Ansible's inventory, as well; set hosts with invalid data aside."""
    file = Path(inventory, "inventory.py")
    is_path = not inventory.startswith("@") and ("/" in inventory or inventory.endswith(".py"))
    if is_path and "," not in inventory and not Path(inventory).exists():
        raise InventoryError(f"there is no inventory {inventory}; name a file, a folder or a host")
    source = str(file) if file.is_file() else inventory
    if is_inventory(Path(source)):
        made = of_ansible(source, options.get("override_data"), options.get("cwd"))
    else:
        refuse_no_text(source)
        with _mistakes_in_one_line(source):
            made = make_inventory(source, *args, **options)
        group_data_notices[:] = passed_over_group_data(source, options.get("cwd"), made)
    use_own_connectors(made)
    if not len(made):
        no_host.append(why_no_host(source))
    set_aside(made)
    return made


@contextmanager
def _mistakes_in_one_line(inventory: str) -> Iterator[None]:
    """Report a mistake in an inventory file with its place, in place of pyinfra's traceback."""
    try:
        yield
    except SyntaxError as error:
        name = error.filename or inventory
        where = f"{name}, line {error.lineno}" if error.lineno else name
        remedy = (
            ""
            if name.endswith(".py")
            else "; an inventory is Python, or one of Ansible: docs/from-ansible.md"
        )
        if "U+FEFF" in str(error.msg):
            remedy = "; save the file without a byte order mark"
        raise InventoryError(f"{where}: {error.msg}{remedy}") from error
    except SystemExit as error:
        raise InventoryError(f"{inventory}: ends the program, and names no host") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InventoryError(str(error)) from error
    except UnexpectedExternalError as error:
        message = of_file(error)
        if _A_DEPLOY in message:
            message = f"{error.filename} is a deploy: the inventory comes first, pyinfra INVENTORY DEPLOY"
        raise InventoryError(message) from error


def _and_who_is_refused(show: Callable[[State], None]) -> Callable[[State], None]:
    def show_all(state: State) -> None:
        show(state)
        say_refused(state)
        _say_notices(state)

    return show_all


def _say_notices(state: State) -> None:
    """Print the inventory's notices, unless the program that started the run prints them."""
    if not events.heard():
        for notice in (*group_data_notices, *notices(hosts_of(state))):
            remark(notice)


def connect_all(state: State) -> None:
    """Connect to all hosts, and continue with those that answer; replaces pyinfra's own."""
    nothing_left = len(state.inventory) > 0 and not hosts_of(state)  # a shard may have none, too
    introduce(state)
    _say_notices(state)
    if nothing_left:
        raise InventoryError("no host is left: --limit and --exclude leave none of the inventory's")
    if no_host:
        raise InventoryError(no_host[-1])
    with _without_traceback():
        follow(state)
    divide(state, int(os.environ.get(events.PROCESSES, 1)))
    go_on_without_failed(state)
    read_frames_once()
    state.add_callback_handler(_Unreachable())  # type: ignore[no-untyped-call]
    refuse(state)
    gc.freeze()  # what imports have made stays: collections would look at it again, 0.5 ms for each host
    ask_for(hosts_of(state))
    connect_to_all(state)


def introduce(state: State) -> None:
    """Record this shard's hosts, their inventory's roll-out data, and how each is reached."""
    hosts = hosts_of(state)
    with _without_traceback():
        shard = shard_here()
    present = []
    if shard is not None:
        canaries = {name for host in hosts for name in _canaries(host)}
        present = sorted({shard.of(host.name, canaries) for host in hosts})
        hosts = [host for host in hosts if shard.of(host.name, canaries) == shard.index]
        state.limit_hosts = hosts
    locations = {host.name: host.data.get(PLACE) for host in hosts}
    why = no_host[-1] if no_host else None
    odd = [*group_data_notices, *notices(hosts)] if events.heard() else []  # else this run says them itself
    events.record("inventory", "", hosts=locations, shards=present, why=why, notices=odd)
    if os.environ.get(events.CONNECTIONS):
        events.record("connections", "", hosts={host.name: _connection(host) for host in hosts})


@contextmanager
def _without_traceback() -> Iterator[None]:
    """Make pyinfra print our errors like its own, and exit with our code."""
    try:
        yield
    except NumaforgeError as error:
        refused = CliError(str(error))
        refused.exit_code = error.exit_code
        raise refused from error


def _canaries(host: Host) -> Iterable[str]:
    """Return the hosts that are named as canaries, by the inventory and on our command line."""
    for key in (PLACE, f"{PLACE}_options"):
        location = host.data.get(key)
        if isinstance(location, Mapping):
            yield from location.get("canary_hosts") or ()


def _connection(host: Host) -> dict[str, object]:
    data = {key: host.data.get(key) for key in DATA}
    return {"connector": host.connector_cls.__name__, "data": data}


def prepare() -> None:
    """Do the common work of forked runs: half the time of a run of one host."""
    import pyinfra_cli.main  # type: ignore[import-untyped]  # noqa: F401

    import numaforge.run.decide
    import numaforge.run.maintenance.operations
    import numaforge.run.maintenance.rollout
    import numaforge.run.maintenance.target
    import numaforge.run.roles
    import numaforge.run.topology  # noqa: F401
    from numaforge.planning.document import PLAN

    get_all_connectors()  # type: ignore[no-untyped-call]
    PLAN.prepare()
    script()


def run() -> int:
    """Run pyinfra with the program's arguments, and return its exit code."""
    from pyinfra_cli.main import main

    adapt()
    command_line(print_inventory=lambda _: _and_who_is_refused(introduce))
    try:
        main()
    except SystemExit as end:
        return end_with_others(end.code if isinstance(end.code, int) else int(end.code is not None))
    return end_with_others(0)


def recorded(show: Callable[[State], None]) -> Callable[[State], None]:
    """Make the display of a dry run's changes also record them, host by host."""

    @wraps(show)
    def show_and_record(state: State) -> None:
        show(state)
        for host in hosts_of(state):
            does = [
                name
                for operation, data in state.ops[host].items()
                if data.operation_meta._maybe_is_change
                for name in sorted(state.get_op_meta(operation).names)
                if not name.endswith(MAINTENANCE)
            ]
            if does:
                events.record("beside", host.name, does=does)

    return show_and_record
