"""The runs of pyinfra that a roll-out of a fleet starts: one that changes nothing, then one for each host.

Each is a process of its own with its own log. It continues when the process that started it dies, and what it
says stands in a file: a node that has been begun is ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from numaforge.errors import HostError, NumaforgeError
from numaforge.rollout import events
from numaforge.rollout.cluster import Cluster, ClusterError, ClusterNode
from numaforge.rollout.fleet import Member
from numaforge.rollout.labels import to_set
from numaforge.rollout.options import PLACE, RunRole
from numaforge.rollout.outcome import Outcome, Progress
from numaforge.rollout.record import RECORD, Ending
from numaforge.rollout.shards import SHARD, Shard
from numaforge.rollout.steps import Steps

_POLL_SECONDS = 0.3
_LAST_LINES = 5


@dataclass(frozen=True)
class HostNeeds:
    """What a host needs, as it said itself; `sentences` are empty where its kubelet need not restart.

    `allocatable` is what its node is to offer afterwards, `labels` are those that it is to have, `options`
    those of its inventory. `unreadable` says why the host may not read what its kubelet runs with; "" where
    it may, or need not.
    """

    host: str
    node: str
    joined: bool
    restarts: bool
    sentences: tuple[str, ...]
    allocatable: Mapping[str, str]
    options: Mapping[str, Any]
    unreadable: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def is_member(self, node: ClusterNode) -> bool:
        """Say whether its node is to be taken out of service, or is in the middle of it."""
        return self.restarts or RECORD in node.annotations or bool(to_set(node, self.labels))


@dataclass(frozen=True)
class Survey:
    """What was found out of an inventory: what each host needs, or why there is none."""

    needs: tuple[HostNeeds, ...]
    without_kubelet: tuple[str, ...]
    refused: Mapping[str, str]  # a host that cannot be planned or configured, and the message
    silent: Mapping[str, str]  # a host that did not answer, and how it did not
    log: Path
    shards: frozenset[int] = frozenset()  # those that have hosts, where the inventory is divided

    @property
    def is_empty(self) -> bool:
        """Say whether there was no host to ask, as in a shard that no host belongs to."""
        return not (self.needs or self.without_kubelet or self.refused or self.silent)


@dataclass
class HostRun:
    """A host's run under way; implements numaforge.rollout.fleet.Running."""

    member: Member
    process: subprocess.Popen[bytes]
    log: Path
    cluster: Cluster
    reader: events.Reader
    progress: Progress
    _said: Outcome | None = None
    _refused: str = ""

    def outcome(self) -> Outcome | None:
        """Return how it ended, None while it is in progress."""
        ended = self.process.poll() is not None
        for event in self.reader.new():
            match event["kind"]:
                case "progress":
                    self.progress = Progress(self.member.node, event["phase"], tuple(event["waits_for"]))
                case "outcome":
                    self._said = Outcome(Ending(event["ending"]), event["reason"], tuple(event["details"]))
                case "refused" | "unreachable":
                    self._refused = event["message"]
        if not ended:
            return None
        return self._said or self._without_a_word()

    def _without_a_word(self) -> Outcome:
        """Say what it means that a run ended without an outcome, by what it left on the node."""
        reason = self._refused or f"its run ended with {self.process.returncode}: see {self.log}"
        details = () if self._refused else tail(self.log)
        try:
            left = RECORD in self.cluster.node(self.member.node).annotations
        except ClusterError as error:
            return Outcome(Ending.HELD, reason, (*details, str(error)))
        return Outcome(Ending.HELD if left else Ending.BLOCKED, reason, details)


@dataclass
class Pyinfra:
    """How to run pyinfra: inventory, deploy, pyinfra's --limit, and what was said on our command line.

    `folder` takes logs and events, one of each for every run. `role` is what the hosts' runs are to a
    roll-out. Only the hosts of `shard` are looked at, where one is given. `answered` says how many hosts have
    answered a survey in progress: `120 of 300`.
    """

    inventory: str
    deploy: str
    limits: Sequence[str]
    options: Mapping[str, Any]
    folder: Path
    role: RunRole = field(default_factory=RunRole)
    shard: Shard | None = None
    runs: dict[str, HostRun] = field(default_factory=dict)
    answered: str = ""

    def settings(self) -> Steps[dict[str, object]]:
        """Return what the inventory says of roll-outs for each host; no host is asked.

        Raises HostError where the inventory names none.
        """
        process, log, heard = self._start("inventory", [], self.limits, ["debug-inventory"])
        while process.poll() is None:
            yield _POLL_SECONDS
        return self._hosts(events.Reader(heard).new(), log)

    def survey(self) -> Steps[Survey]:
        """Ask every host what it needs, and change nothing.

        Raises HostError where the inventory names no host, and where pyinfra itself broke off.
        """
        arguments = ["--dry", *self._options()]
        process, log, heard = self._start("survey", arguments, self.limits, [self.deploy], _every_core())
        reader, told = events.Reader(heard), list[dict[str, Any]]()
        while process.poll() is None:
            told += reader.new()
            self.answered = _answered(told)
            yield _POLL_SECONDS
        told += reader.new()
        names = self._hosts(told, log)
        messages: dict[str, dict[str, str]] = {"refused": {}, "unreachable": {}}
        for event in told:
            if event["kind"] in messages:
                messages[event["kind"]][event["host"]] = event["message"]
        refused, unreachable = messages["refused"], messages["unreachable"]
        needs = {event["host"]: _needs(event) for event in told if event["kind"] == "outlook"}
        without = tuple(event["host"] for event in told if event["kind"] == "without-kubelet")
        heard_of = {*needs, *refused, *without}
        if not heard_of and unreachable.keys() != names.keys():
            raise self._broken_off("no host could be asked what it needs", log)
        silent = {
            name: unreachable.get(name, f"it said nothing of its kubelet: see {log}")
            for name in names
            if name not in heard_of
        }
        return Survey(tuple(needs.values()), without, refused, silent, log, _shards(told))

    def apply(self, hosts: Sequence[str]) -> Steps[dict[str, str]]:
        """Run the deploy on hosts that need no restart, together; return why it failed on which.

        Raises NumaforgeError where it cannot be started.
        """
        begins_none = self._role(replace(self.role, begins=False))
        arguments = ["-y", *begins_none]
        process, log, heard = self._start("others", arguments, hosts, [self.deploy], _every_core())
        while (code := process.poll()) is None:
            yield _POLL_SECONDS
        if code == 0:
            return {}
        told = events.Reader(heard).new()
        failed = {event["host"]: event["message"] for event in told if "message" in event}
        return failed or dict.fromkeys(hosts, "; ".join((*tail(log), f"the whole log is {log}")))

    def launch(self, member: Member, cluster: Cluster) -> HostRun:
        """Begin a host's run.

        Raises NumaforgeError where it cannot be started.
        """
        data = [*self._options(), *self._role(self.role)]
        process, log, heard = self._start(member.host, ["-y", *data], [member.host], [self.deploy])
        run = HostRun(member, process, log, cluster, events.Reader(heard), Progress(member.node, "connects"))
        self.runs[member.host] = run
        return run

    def _hosts(self, told: Sequence[Mapping[str, Any]], log: Path) -> dict[str, object]:
        hosts = next((event["hosts"] for event in told if event["kind"] == "inventory"), None)
        if not hosts and not _shards(told):
            raise self._broken_off("the inventory names no host", log)
        return dict(hosts or {})

    def _broken_off(self, what: str, log: Path) -> HostError:
        lines = "\n  ".join([f"{what}:", *tail(log)])
        return HostError(lines, where=self.inventory, remedy=f"the whole log is {log}")

    def _options(self) -> list[str]:
        return ["--data", f"{PLACE}_options={json.dumps(dict(self.options))}"]

    def _role(self, role: RunRole) -> list[str]:
        return ["--data", f"{PLACE}_run={json.dumps(asdict(role))}"]

    def _environment(self, heard: Path) -> dict[str, str]:
        own = {events.EVENTS: str(heard), "PYINFRA_PROGRESS": "off", SHARD: str(self.shard or "")}
        return {**os.environ, **own}

    def _start(
        self,
        name: str,
        arguments: Sequence[str],
        limits: Sequence[str],
        what: Sequence[str],
        processes: int = 1,
    ) -> tuple[subprocess.Popen[bytes], Path, Path]:
        stem = name.replace("/", "_")
        log, heard = self.folder / f"{stem}.log", self.folder / f"{stem}.events"
        command = [
            *(sys.executable, "-m", "numaforge.pyinfra_cli", *arguments),
            *(part for limit in limits for part in ("--limit", limit)),
            *(self.inventory, *what),
        ]
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with log.open("ab") as output:
                process = subprocess.Popen(
                    command,
                    env=self._environment(heard) | {events.PROCESSES: str(processes)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            raise NumaforgeError(f"pyinfra cannot be started: {error}", where=name) from error
        return process, log, heard


def _answered(told: Sequence[Mapping[str, Any]]) -> str:
    """Return how many hosts have answered, or cannot be reached: `120 of 300`."""
    hosts = next((event["hosts"] for event in told if event["kind"] == "inventory"), None)
    if hosts is None:
        return ""
    return f"{len({event['host'] for event in told if event['host']})} of {len(hosts)}"


def _shards(told: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Return the shards that have hosts."""
    return frozenset(next((event["shards"] for event in told if event["kind"] == "inventory"), ()))


def _every_core() -> int:
    return len(os.sched_getaffinity(0))


def tail(log: Path, lines: int = _LAST_LINES) -> tuple[str, ...]:
    """Return the last lines of a log."""
    said = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return tuple(line for line in said if line.strip())[-lines:]


def _needs(event: Mapping[str, Any]) -> HostNeeds:
    return HostNeeds(
        host=event["host"],
        node=event["node"],
        joined=event["joined"],
        restarts=event["restarts"],
        sentences=tuple(event["sentences"]),
        allocatable=event["allocatable"],
        options=event["options"],
        unreadable=event["unreadable"],
        labels=event.get("labels", {}),
    )
