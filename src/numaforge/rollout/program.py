"""A run of pyinfra that numaforge starts: its process, its log, and its events."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from numaforge.lib.ansible import READ, is_inventory, read_once
from numaforge.lib.errors import HostError, NumaforgeError
from numaforge.lib.ordering import grouped
from numaforge.rollout import events
from numaforge.rollout.forks import Fork, forks
from numaforge.rollout.shards import SHARD, Shard

FAILURES = ("refused", "unreachable")  # the kinds of events about a host that fails or does not answer
_LAST_LINES = 5
_PYINFRAS_OWN = "pyinfra error: "


@dataclass(frozen=True)
class Command:
    """What pyinfra runs: an inventory, its hosts, a deploy or a function; `arguments` are pyinfra's.

    Hosts are divided between `processes`, without other shards'. With `connections`, passwords are told.
    """

    inventory: str
    what: str
    limits: Sequence[str] = ()
    arguments: Sequence[str] = ()
    processes: int = 1
    shard: Shard | None = None
    connections: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The command line after `pyinfra`."""
        limits = (part for limit in self.limits for part in ("--limit", limit))
        return (*self.arguments, *limits, self.inventory, self.what)


@dataclass
class ProgramRun:
    """A run with its events so far; with `outlives_us` it continues, and its log stays, when we end."""

    command: Command
    process: subprocess.Popen[bytes] | Fork
    log: Path
    reader: events.Reader
    outlives_us: bool
    told: list[dict[str, Any]] = field(default_factory=list)

    def has_ended(self) -> bool:
        """Read the new events, and return whether the run has ended."""
        ended = self.process.poll() is not None
        self.told += self.reader.new()
        return ended

    def said(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return the last event of a kind for each host."""
        return {event["host"]: event for event in self.told if event["kind"] == kind}

    def all_said(self, kind: str) -> dict[str, list[dict[str, Any]]]:
        """Return all events of a kind for each host, in their order."""
        return grouped((event["host"], event) for event in self.told if event["kind"] == kind)

    def answered_after(self) -> dict[str, float]:
        """Return the time of each host's last event, in seconds after the first event, by host."""
        times = [(event["host"], datetime.fromisoformat(event["time"])) for event in self.told]
        return {host: (time - times[0][1]).total_seconds() for host, time in times if host}

    def failures(self) -> dict[str, dict[str, str]]:
        """Return why hosts failed, by kind of failure and then by host."""
        return {
            kind: {host: event["message"] for host, event in self.said(kind).items()} for kind in FAILURES
        }

    @property
    def answered(self) -> str:
        """How many hosts have answered or are unreachable: `120 of 300`; "" while that is unknown."""
        hosts = self._introduced("hosts") or ()
        heard_of = {event["host"] for event in self.told if event["host"]}
        return f"{len(heard_of)} of {len(hosts)}" if hosts else ""

    @property
    def shards(self) -> frozenset[int]:
        """The shards that have hosts, where the inventory is divided."""
        return frozenset(self._introduced("shards") or ())

    @property
    def notices(self) -> list[str]:
        """The notices about the inventory."""
        return list(self._introduced("notices") or ())

    def hosts(self) -> dict[str, object]:
        """Return each host's roll-out settings; raises HostError without hosts, unless a shard is empty."""
        hosts = self._introduced("hosts")
        if hosts is None:
            raise self.broken_off("the inventory cannot be read")
        if not hosts and not self.shards:
            if self.command.limits:
                raise none_chosen(self.command.inventory, self.command.limits)
            if why := self._introduced("why"):
                raise HostError(why)
            raise HostError("the inventory contains no hosts", where=self.command.inventory)
        return dict(hosts)

    def broken_off(self, failure: str) -> HostError:
        """Return the error of a run that pyinfra broke off: pyinfra's message, else the end of its log."""
        why = [line.partition(_PYINFRAS_OWN)[2] for line in _lines(self.log) if _PYINFRAS_OWN in line]
        code = self.process.returncode
        lines = tail(self.log) or [
            f"pyinfra ended with {code} and printed nothing; is there room for its log?"
        ]
        message = f"{failure}: {why[-1]}" if why else "\n  ".join([f"{failure}:", *lines])
        remedy = f"the whole log is {self.log}" if self.outlives_us else None
        return HostError(message, where=self.command.inventory, remedy=remedy)

    def _introduced(self, key: str) -> Any:
        return next((event.get(key) for event in self.told if event["kind"] == "inventory"), None)


def none_chosen(inventory: str, limits: Sequence[str]) -> HostError:
    """Return the error that `--limit` leaves no host."""
    return HostError(
        f"the inventory contains no host that --limit {' '.join(limits)} chooses",
        where=inventory,
        remedy="give --limit once for each host, group or pattern, such as 'gpu-0*'",
    )


def start(command: Command, log: Path, *, outlives_us: bool) -> ProgramRun:
    """Start pyinfra, with its log and its events beside it; raises NumaforgeError where it cannot start."""
    heard = log.with_suffix(".events")
    variables = {
        events.EVENTS: str(heard),
        events.PROCESSES: str(command.processes),
        "PYINFRA_PROGRESS": "off",
        **({SHARD: str(command.shard)} if command.shard else {}),
        **({events.CONNECTIONS: "1"} if command.connections else {}),
        **({READ: read_once(command.inventory)} if is_inventory(Path(command.inventory)) else {}),
    }
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        log.open("ab").close()
    except OSError as error:
        raise NumaforgeError(
            f"the log of pyinfra cannot be written: {error.strerror}",
            where=str(log.parent),
            remedy="logs are kept below XDG_STATE_HOME, else ~/.local/state" if outlives_us else None,
        ) from error
    environment = {**os.environ, **variables}
    try:
        process = (
            forks().start(command.words, environment, Path(), log)
            if outlives_us
            else _with_us(command.words, environment, log)
        )
    except OSError as error:
        raise NumaforgeError(f"pyinfra cannot be started: {error}", where=log.stem) from error
    return ProgramRun(command, process, log, events.Reader(heard), outlives_us)


def _with_us(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a run that an interrupt from the terminal also ends."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "numaforge.run", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def every_core() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def tail(log: Path, lines: int = _LAST_LINES) -> tuple[str, ...]:
    return tuple(_lines(log))[-lines:]


def inventory_file(inventory: str) -> str:
    """Return an inventory as a run takes it (a folder's inventory.py); raises NumaforgeError without one."""
    path = Path(inventory)
    if path.is_dir() and not is_inventory(path):
        path = path / "inventory.py"
    if path.suffix == ".py" and not path.is_file():
        raise NumaforgeError(
            "the inventory does not exist", where=str(path), remedy="`numaforge init DIR` writes one"
        )
    return str(path) if path.suffix == ".py" else inventory


def _lines(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if line.strip()]
