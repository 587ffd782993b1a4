"""A deploy in this process for `numaforge apply`, in the steps of `pyinfra_cli.cli`."""

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import click
import pyinfra
from pyinfra.api import Config, Host, Inventory, State
from pyinfra.api.connect import disconnect_all
from pyinfra.api.exceptions import NoGroupError, PyinfraError
from pyinfra.api.operations import run_ops
from pyinfra.api.output import set_echo, set_formatter
from pyinfra.api.state import StateStage
from pyinfra.context import ctx_config, ctx_inventory, ctx_state
from pyinfra_cli.exceptions import CliError, UnexpectedExternalError  # type: ignore[import-untyped]
from pyinfra_cli.log import LogFormatter, LogHandler  # type: ignore[import-untyped]
from pyinfra_cli.util import exec_file, load_deploy_file  # type: ignore[import-untyped]

from numaforge.lib.errors import ExitCode, HostError, NumaforgeError
from numaforge.lib.quantity import counted
from numaforge.report.fleet import HostSummary
from numaforge.report.terminal import complain, progress
from numaforge.run.hosts.interrupts import INTERRUPTED, changes, interrupts
from numaforge.run.hosts.overview import FORGET, MAINTENANCE, Overview, collect
from numaforge.run.hosts.pyinfra_errors import of_file
from numaforge.run.pyinfra_cli import adapt, connect_all, read_inventory

_NO_INVENTORY = "is neither an inventory file"  # for an argument that names no host, as in pyinfra's error
_SHOWN_HOSTS = 12
_NOTHING_LEFT = "No hosts remaining"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PYINFRAS_OWN = re.compile(r"-->|\[[^]]*\] (nested)? *(Connected|Ready:|Success|No changes|noop:)|Loading: ")


@dataclass(frozen=True)
class Run:
    """What to run on the hosts of `limits`, with host `data`; `verbosity` None shows only errors."""

    inventory: str
    deploy: str
    limits: Sequence[str] = ()
    verbosity: int | None = 0
    data: Mapping[str, object] = field(default_factory=dict)


class InterruptedBeforeError(NumaforgeError):
    """A run was interrupted before it changed a host."""

    exit_code = ExitCode.INTERRUPTED


class SiteRun:
    """One run over an inventory; `hosts` has the known state of each host."""

    def __init__(self, state: State, overview: Overview) -> None:
        self._state = state
        self._overview = overview
        self._left = False

    @property
    def hosts(self) -> list[HostSummary]:
        """Return every host in the inventory's order."""
        return self._overview.hosts(self._state)

    @property
    def has_changed(self) -> bool:
        """Return whether hosts may have been changed."""
        return bool(self._state.current_stage >= StateStage.Execute)

    @property
    def changes(self) -> bool:
        """Return whether any host has a change, by its maintenance or by another operation."""
        return any(
            data.operation_meta._maybe_is_change
            for host in self._state.inventory.get_active_hosts()
            for data in self._state.ops[host].values()
        )

    @property
    def other_operations(self) -> list[str]:
        """Return the names of operations other than maintenances, which `hosts` do not cover."""
        names = (name for operation in self._state.op_meta for name in self._state.op_meta[operation].names)
        return [name for name in names if not name.endswith((MAINTENANCE, FORGET))]

    def show_others(self) -> None:
        """Print pyinfra's own table of the operations of a deploy, on standard error."""
        from pyinfra_cli.prints import print_meta, print_results  # type: ignore[import-untyped]

        (print_results if self._state.is_executing else print_meta)(self._state)

    def change(self) -> None:
        """Execute the prepared operations; a second interrupt leaves the hosts as `hosts` describes."""
        self._state.set_stage(StateStage.Execute)
        try:
            with changes(self._tell_interrupted), _what_is_left(), self._overview.changing():
                run_ops(self._state)
        except KeyboardInterrupt:
            self._overview.leave(self._state)
            self.leave()
            return
        self._state.set_stage(StateStage.Disconnect)

    def leave(self) -> None:
        """Leave the connections to the end of this process: closing one waits for its host's command."""
        self._left = True

    def disconnect(self) -> None:
        """Close the connections."""
        if self._state.initialised and not self._left:
            disconnect_all(self._state)

    def _tell_interrupted(self) -> None:
        lines = [f"{name}: {change}" for name, change in self._overview.under_way.items()]
        waits = f"waits for {counted(len(lines), 'host')}" if lines else "ends what it is doing"
        more = [f"and {len(lines) - _SHOWN_HOSTS} more"] if len(lines) > _SHOWN_HOSTS else []
        notice = f"{INTERRUPTED}: no further host is begun; {waits}; interrupt again to leave"
        complain("\n".join([notice, *lines[:_SHOWN_HOSTS], *more]))


@contextmanager
def prepared(run: Run, *, looks: bool) -> Iterator[SiteRun]:
    """Connect to the hosts of a run, plan each, and yield the changes; disconnect at the end.

    Without `looks` the changes are determined only while they are made, in half the time. Raises HostError.
    """
    pyinfra.is_cli = True  # operations are in the order of the deploy's lines
    set_formatter(click.style)  # noqa: TID251 (pyinfra's own lines; of hosts' output: hosts/output.py)
    set_echo(click.echo)  # noqa: TID251
    sys.path += [str(Path.cwd()), "."]
    state = State(check_for_changes=looks)
    state.cwd = str(Path.cwd())
    if run.verbosity is not None:
        state.print_fact_info = state.print_noop_info = run.verbosity > 0
        state.print_input = state.print_fact_input = run.verbosity > 1
        state.print_output = state.print_fact_output = run.verbosity > 2
    ctx_state.set(state)  # type: ignore[no-untyped-call]
    _log(run, state)
    site = SiteRun(state, collect())
    try:
        with interrupts():
            with _in_our_words(run), progress("looking at the hosts"):
                _prepare(state, run)
            yield site
    except (KeyboardInterrupt, click.Abort) as interrupt:  # click's own, at a question
        site.leave()
        if site.has_changed:
            raise
        raise InterruptedBeforeError(f"{INTERRUPTED}: nothing was changed") from interrupt
    finally:
        site.disconnect()


def _prepare(state: State, run: Run) -> None:
    config = Config()  # type: ignore[no-untyped-call]
    ctx_config.set(config)  # type: ignore[no-untyped-call]
    adapt()
    if (own := Path("config.py")).exists():
        exec_file(str(own.absolute()))
    config.lock_current_state()
    inventory: Inventory = read_inventory(
        run.inventory, cwd=state.cwd, override_data=dict(run.data), group_data_directories=()
    )
    ctx_inventory.set(inventory)  # type: ignore[no-untyped-call]
    chosen = _chosen(inventory, run.limits) if run.limits else None
    if chosen == []:
        from numaforge.rollout.program import none_chosen  # a run in this process starts no further run

        raise none_chosen(run.inventory, run.limits)
    state.init(inventory, config, initial_limit=chosen)
    state.set_stage(StateStage.Connect)
    with _what_is_left():
        connect_all(state)
        state.set_stage(StateStage.Prepare)
        state.current_op_file_number = 0
        load_deploy_file(state, run.deploy)
    config.reset_locked_state()


def _chosen(inventory: Inventory, limits: Sequence[str]) -> list[Host]:
    """Return the hosts of groups and patterns in the inventory's order, chosen as by pyinfra's --limit."""
    limited: set[Host] = set()
    for limit in limits:
        try:
            limited.update(inventory.get_group(limit))
        except NoGroupError:
            limited.update(host for host in inventory if fnmatch(host.name, limit))
    return [host for host in inventory if host in limited]


@contextmanager
def _what_is_left() -> Iterator[None]:
    """End a run where every host has failed: the result of each is known."""
    try:
        yield
    except PyinfraError as error:
        if _NOTHING_LEFT not in str(error):
            raise


@contextmanager
def _in_our_words(run: Run) -> Iterator[None]:
    """Turn pyinfra's errors about an inventory or a deploy into ours."""
    try:
        yield
    except UnexpectedExternalError as error:
        raise HostError(of_file(error), remedy="correct the file") from error
    except CliError as error:
        refused = HostError(error.message)
        if isinstance(error.__cause__, NumaforgeError):
            refused.exit_code = error.__cause__.exit_code
        raise refused from error
    except PyinfraError as error:
        raise HostError(str(error), where=run.inventory) from error


def _log(run: Run, state: State) -> None:
    """Print the lines of pyinfra's log about a host's change, with -v all of it."""
    handler: logging.Handler = LogHandler()
    handler.setFormatter(LogFormatter() if run.verbosity else logging.Formatter("%(message)s"))
    if not run.verbosity:
        handler.addFilter(_worth_reading(state, quiet=run.verbosity is None))
    pyinfra.logger.setLevel(logging.INFO)
    pyinfra.logger.addHandler(handler)
    pyinfra.logger.propagate = False


def _worth_reading(state: State, *, quiet: bool) -> Callable[[logging.LogRecord], bool]:
    """Return a log filter: before changes only problems, and connections in the overview alone."""

    def is_worth_reading(record: logging.LogRecord) -> bool:
        stage: Any = state.current_stage
        if stage == StateStage.Connect or _NO_INVENTORY in record.getMessage():
            return False
        if quiet or stage != StateStage.Execute:
            return record.levelno >= logging.WARNING
        return not _PYINFRAS_OWN.match(_COLOURS.sub("", record.getMessage()).strip())

    return is_worth_reading
