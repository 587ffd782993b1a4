"""Ask all hosts of an inventory at once, in a run of pyinfra that changes nothing on them."""

import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click

from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import detail, progress, remark, verbosity
from numaforge.rollout.program import Command, ProgramRun, every_core, inventory_file, start

_POLL_SECONDS = 0.2
_NOTICES = "numaforge.notices"  # where a command's context keeps the printed notices


class Answers(NamedTuple):
    """Each host's data for roll-outs, its answer, or why there is none; `unreachable` are silent ones."""

    settings: Mapping[str, object]
    events: Mapping[str, Mapping[str, Any]]
    failed: Mapping[str, str]
    unreachable: frozenset[str] = frozenset()

    @property
    def exit_code(self) -> ExitCode:
        """0 when every host answered, 1 when some are refused, else 6: the others cannot be reached."""
        if not self.failed:
            return ExitCode.YES
        return ExitCode.UNREACHABLE if self.failed.keys() <= self.unreachable else ExitCode.NO

    def documents(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the documents of the events by host, and why the others have none."""
        refused = {name: event["refused"] for name, event in self.events.items() if "refused" in event}
        documents = {
            name: event.get("document") for name, event in self.events.items() if name not in refused
        }
        return documents, {**self.failed, **refused}


class Connections(NamedTuple):
    """How each host is reached, and why others are refused."""

    reached: Mapping[str, Mapping[str, Any]]
    refused: Mapping[str, str]


def ask_all(
    inventory: str,
    limits: Sequence[str],
    function: str,
    kind: str,
    activity: str,
    arguments: Sequence[str] = (),
) -> Answers:
    """Run `MODULE.FUNCTION` on every host, and return the events of `kind`. Raises HostError for no host."""
    command = Command(inventory_file(inventory), function, limits, ["--dry", *arguments], every_core())
    with _ended(command, activity) as run:
        hosts, answers, failures = run.hosts(), run.said(kind), run.failures()
        failed = {**failures["refused"], **failures["unreachable"]}
        if hosts and not (answers or failed):
            raise run.broken_off("no host could be asked")
    silent = {name: "it gave no answer" for name in hosts if name not in {*answers, *failed}}
    return Answers(hosts, answers, {**failed, **silent}, frozenset(failures["unreachable"]) | silent.keys())


def connections(inventory: str, limits: Sequence[str]) -> Connections:
    """Return how each host of an inventory is reached; no host is asked. Raises HostError."""
    command = Command(inventory_file(inventory), "debug-inventory", limits, connections=True)
    with _ended(command, "reading the inventory") as run:
        run.hosts()
        hosts = run.said("connections")[""]["hosts"]
        refused = run.failures()["refused"]
    return Connections({name: how for name, how in hosts.items() if name not in refused}, refused)


@contextmanager
def _ended(command: Command, activity: str) -> Iterator[ProgramRun]:
    """Yield a finished run of pyinfra, with its log; a terminal shows its progress."""
    if verbosity() > 1:  # -vv shows pyinfra's own output
        command = replace(command, arguments=["-v", *command.arguments])
    with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
        run = start(command, Path(folder, "run.log"), outlives_us=False)
        try:
            with progress(activity) as show_far:
                while not run.has_ended():
                    show_far(run.answered)
                    time.sleep(_POLL_SECONDS)
        finally:
            run.process.kill()
            say_how(run)
        say_notices(run)
        yield run


def say_notices(run: ProgramRun) -> None:
    """Print the notices about the inventory, each once per command."""
    context = click.get_current_context(silent=True)
    shown_notices: list[str] = [] if context is None else context.meta.setdefault(_NOTICES, [])
    for notice in run.notices:
        if notice not in shown_notices:
            shown_notices.append(notice)
            remark(notice)


def say_how(run: ProgramRun) -> None:
    """Print with -v what was run and when each host answered, with -vv pyinfra's output, too."""
    if not verbosity():
        return
    detail(f"ran: pyinfra {shlex.join(run.command.words)}")
    for host, seconds in run.answered_after().items():
        detail(f"{host}: answered after {seconds:.1f} s")
    if verbosity() > 1:
        detail(click.unstyle(run.log.read_text(encoding="utf-8", errors="replace")).rstrip())
