"""The overview of a run's hosts, before its changes and at its end, in place of pyinfra's own tables."""

import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from click import unstyle
from pyinfra import logger
from pyinfra.api import Host, State
from pyinfra.api.exceptions import ConnectError
from pyinfra.api.state import BaseStateCallback, StateStage

from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.lib.unfinished import Unfinished
from numaforge.report.fleet import (
    CHANGES,
    EVERY_HOST,
    FAILED,
    HostSummary,
    diff_lines,
    fleet_document,
    fleet_lines,
)
from numaforge.report.terminal import echo, progress, screen
from numaforge.run.hosts.errors import connect_error
from numaforge.run.hosts.patches import command_line
from numaforge.run.hosts.processes import hosts_of

DIFF = "diff"  # host data on the command line: hosts whose diffs are shown, comma-separated, or `all`
REPORT = "report"  # host data on the command line: the file that gets every host's result as JSON
MAINTENANCE = "Carry out the maintenance"
FORGET = "Forget the plan and the backups"
"""The operations that the overview shows completely; others keep pyinfra's table."""
_STATES = {
    ExitCode.BLOCKED: "blocked",
    ExitCode.UNREACHABLE: "unreachable",
    ExitCode.ROLLED_BACK: "rolled back",
    ExitCode.HELD: "held",
}
"""States by the exit code of the error; others were refused, or have failed since."""
_ABOVE = "see the messages above"
_NO_MESSAGE = "it failed without a message: run it again with -v"
_ERROR_OF_HOST = re.compile(r"\[([^]]+)\]")
_EVERY_HOST_SAYS = re.compile(r"\] (\x1b\[[\d;]*m)*(Connected|Ready:)")


class Overview:
    """The known state of each host of a run, by name."""

    def __init__(self) -> None:
        self._known: dict[str, HostSummary] = {}
        self._begun: dict[str, float] = {}
        self._stages: dict[str, StateStage] = {}
        self._started = time.monotonic()
        self._roles_called = False
        self._shown: StateStage | None = None
        self._under_way: dict[str, tuple[float, Unfinished]] = {}
        self._show_far: Callable[[str], object] = str
        self._with_message: set[str] = set()

    def note(self, host: Host, **facts: Any) -> None:
        """Record facts of a host; later ones win."""
        self._roles_called = True
        self._known[host.name] = replace(self._of(host), **facts)

    def change(self, host: Host, summary: HostSummary) -> None:
        """Record what a maintenance of a host changes, with others' changes of the same stage."""
        earlier, stage = self._of(host), host.state.current_stage
        if self._stages.get(host.name) == stage:
            summary = summary.merged(earlier)
        self._stages[host.name] = stage
        self.note(host, **{name: getattr(summary, name) for name in CHANGES})

    def heard(self, record: logging.LogRecord) -> bool:
        """Record the host that an error of pyinfra names; a filter of its log that keeps every record."""
        if record.levelno >= logging.ERROR and (named := _ERROR_OF_HOST.match(unstyle(record.getMessage()))):
            self._with_message.add(named[1])
        return True

    def _unexplained(self, host: Host) -> str:
        return _ABOVE if host.name in self._with_message else _NO_MESSAGE

    def fail(self, host: Host, error: NumaforgeError) -> None:
        """Keep why a host leaves the run."""
        self._under_way.pop(host.name, None)
        executing = host.state.current_stage == StateStage.Execute
        state = _STATES.get(error.exit_code, "failed" if executing else "refused")
        self.note(host, state=state, reason=str(error))

    def unconnected(self, host: Host, error: NumaforgeError) -> None:
        """Record why a host cannot be connected to, unless it has left the run."""
        if (summary := self._of(host)).state not in FAILED:
            state = _STATES.get(error.exit_code, "refused")
            self._known[host.name] = replace(summary, state=state, reason=str(error))

    def begin(self, host: Host) -> None:
        """Start a host's clock."""
        self._begun.setdefault(host.name, time.monotonic())

    def end_host(self, host: Host, *, well: bool) -> None:
        """End a host that had something to change."""
        summary = self._of(host)
        if summary.state == "to change" or (not well and host.name in self._known):
            seconds = time.monotonic() - self._begun.get(host.name, self._started)
            state = "changed" if well else "failed" if summary.state not in FAILED else summary.state
            reason = summary.reason if well or summary.state in FAILED else self._unexplained(host)
            self._known[host.name] = replace(summary, state=state, reason=reason, seconds=seconds)

    def goes_on(self, host: Host, change: Unfinished | None) -> None:
        """Record the state of the change in progress on a host; None once it has ended."""
        if change is None:
            self._under_way.pop(host.name, None)
        else:
            self._under_way[host.name] = time.monotonic(), change
        self._show_far(", ".join(f"{name} {change.state}" for name, (_, change) in self._under_way.items()))

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Show on a terminal what each host does while hosts are changed."""
        with progress("changing the hosts") as self._show_far:
            yield

    @property
    def under_way(self) -> dict[str, Unfinished]:
        """The changes in progress by host, as they were when last heard of; seconds count from now."""
        moment = time.monotonic()
        return {name: change.aged(moment - heard) for name, (heard, change) in self._under_way.items()}

    def leave(self, state: State) -> None:
        """Record the state of each host that a run leaves in the middle of its change, or has not begun."""
        for host in hosts_of(state):
            summary = self._of(host)
            if (change := self.under_way.get(host.name)) is not None:
                self._known[host.name] = replace(summary, state="in progress", reason=change.when_left)
            elif summary.state == "to change":
                self._known[host.name] = replace(summary, state="blocked", reason="it was not begun")

    def _of(self, host: Host) -> HostSummary:
        return self._known.get(host.name, HostSummary(host.name))

    def hosts(self, state: State) -> list[HostSummary]:
        """Return every host of the run in the inventory's order."""
        summaries = []
        for host in hosts_of(state):
            summary = self._of(host)
            if host in state.failed_hosts and summary.state not in FAILED:
                summary = replace(summary, state="failed", reason=self._unexplained(host))
            summaries.append(summary)
        return summaries

    def show(self, state: State) -> None:
        """Print the fleet once for each stage, and the diffs that were asked for below it."""
        stage = StateStage.Execute if state.current_stage >= StateStage.Execute else StateStage.Prepare
        if self._shown == stage or not self._roles_called:
            return
        self._shown = stage
        hosts = self.hosts(state)
        chosen = _chosen(state)
        changes = any(summary.changed for summary in hosts)
        ask = f"every change as a diff: --diff, or --data {DIFF}=HOST for one host"
        for line in fleet_lines(hosts, screen(), hints=[ask] if changes and not chosen else ()):
            echo(line, err=True)
        if not (stage == StateStage.Execute and state.check_for_changes):  # they have been shown before
            for line in diff_lines(hosts, chosen):
                echo(line, err=True)

    def end(self, state: State) -> None:
        """Print what was not printed because the run broke off, and write the report."""
        self.show(state)
        file = _of_run(state, REPORT)
        if not file or not self._roles_called:
            return
        dry = state.current_stage < StateStage.Execute
        document = fleet_document(self.hosts(state), dry=dry, seconds=time.monotonic() - self._started)
        try:
            Path(str(file)).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
            echo(f"each host: {file}", err=True)
        except OSError as error:
            logger.error("%s: the report cannot be written: %s", file, error.strerror)


class _Follower(BaseStateCallback):
    """Forwards pyinfra's callbacks about a host to the overview."""

    def __init__(self, mine: Overview) -> None:
        self._mine = mine

    def host_connect_error(self, state: State, host: Host, error: ConnectError) -> None:  # type: ignore[override]
        if state.current_stage == StateStage.Connect:
            self._mine.unconnected(host, connect_error(error))

    def operation_host_start(self, _: State, host: Host, *_more: Any) -> None:  # type: ignore[override]
        self._mine.begin(host)

    def operation_host_success(self, _: State, host: Host, *_more: Any) -> None:  # type: ignore[override]
        self._mine.end_host(host, well=True)

    def operation_host_error(self, _: State, host: Host, *_more: Any) -> None:  # type: ignore[override]
        self._mine.end_host(host, well=False)


_overviews: list[Overview] = []


def overview() -> Overview | None:
    """Return the overview of this run; None where every host reports for itself."""
    return _overviews[-1] if _overviews else None


def collect() -> Overview:
    """Begin the overview of this run's hosts."""
    _overviews.append(Overview())
    return _overviews[-1]


def show_overview() -> None:
    """Have pyinfra's command line print an overview in the place of its tables."""
    if overview() is not None:
        return
    mine = collect()

    def in_its_place(table: Callable[[State], None]) -> Callable[[State], None]:
        def show(state: State) -> None:
            mine.show(state)
            names = [name for op in state.op_meta for name in state.op_meta[op].names]
            if not all(name.endswith((MAINTENANCE, FORGET)) for name in names) or not names:
                table(state)

        return show

    def at_the_end(disconnect_all: Callable[[State], None]) -> Callable[[State], None]:
        def end(state: State) -> None:
            try:
                mine.end(state)
            finally:
                disconnect_all(state)

        return end

    def on_one_line(run_ops: Callable[..., None]) -> Callable[..., None]:
        def change(*arguments: Any, **options: Any) -> None:
            os.environ["PYINFRA_PROGRESS"] = "off"
            with mine.changing():
                run_ops(*arguments, **options)

        return change

    command_line(
        print_meta=in_its_place, print_results=in_its_place, run_ops=on_one_line, disconnect_all=at_the_end
    )


def follow(state: State) -> None:
    """Follow a run's hosts; raises NumaforgeError for no host of it, and a report without its folder."""
    mine = overview()
    if mine is None:
        return
    state.add_callback_handler(_Follower(mine))  # type: ignore[no-untyped-call]
    logger.addFilter(mine.heard)
    if not state.print_fact_info:  # -v
        logger.addFilter(lambda record: not _EVERY_HOST_SAYS.search(record.getMessage()))
    names = {host.name for host in hosts_of(state)}
    if unknown := sorted(_chosen(state) - names - {EVERY_HOST}):
        raise NumaforgeError(
            f"{', '.join(unknown)} is not a host of this run",
            where=f"--data {DIFF}",
            remedy=f"name hosts of the inventory with commas between, or {EVERY_HOST}",
        )
    file = _of_run(state, REPORT)
    if file and not Path(str(file)).absolute().parent.is_dir():
        raise NumaforgeError(
            f"there is no folder {Path(str(file)).parent}", where=f"--data {REPORT}", remedy="make it first"
        )


def _chosen(state: State) -> set[str]:
    chosen = EVERY_HOST if state.config.DIFF else _of_run(state, DIFF)
    return {name for name in str(chosen or "").split(",") if name}


def _of_run(state: State, key: str) -> object:
    """Return the command line's value for all hosts."""
    return state.inventory.override_data.get(key)
