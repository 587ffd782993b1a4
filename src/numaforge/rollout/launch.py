"""The runs of pyinfra that a roll-out of a fleet starts: one that changes nothing, then one for each host.

Each is a process with its own log, and events in a file, which continues when the process that started it
dies: a node that was begun is carried to its end.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from numaforge.machine.topology.trays import Tray
from numaforge.rollout.cluster import Cluster, ClusterError, ClusterNode, Lease
from numaforge.rollout.fleet import Member
from numaforge.rollout.in_place import CHANGING
from numaforge.rollout.labels import Labels, to_set
from numaforge.rollout.names import ENDED, PLACE
from numaforge.rollout.options import RunRole
from numaforge.rollout.outcome import Outcome, Progress
from numaforge.rollout.program import FAILURES, Command, ProgramRun, every_core, start, tail
from numaforge.rollout.record import Ending, labels_set, lease_name, unfinished
from numaforge.rollout.same_machine import Access
from numaforge.rollout.shards import Shard
from numaforge.rollout.steps import Steps

_POLL_SECONDS = 0.3


@dataclass(frozen=True)
class HostNeeds:
    """What a host needs, by its own account; `sentences` are empty where its kubelet need not restart.

    `does` has a line per change. `unfinished`: an earlier change has not ended, or is not proved. `labels`
    None leaves them open. `said` are the names of the `options` that are set. `unreadable` is why the host
    may not read its kubelet's running configuration. `devices` are those that it sets by itself, `ended_work`
    is why the change has to wait for work that no drain moves; with `unpins` the kubelet's static CPU policy
    ends. `tray` is the host in its rack, `tray_planned` after the change.
    """

    host: str
    node: str
    joined: bool
    restarts: bool
    sentences: tuple[str, ...]
    allocatable: Mapping[str, str]
    options: Mapping[str, Any]
    unreadable: str = ""
    labels: Labels | None = None
    devices: frozenset[str] = frozenset()
    ended_work: str = ""
    unpins: bool = False
    access: Access | None = None
    changes: bool = True
    reboots: bool = False
    does: tuple[str, ...] = ()
    unfinished: bool = False
    said: frozenset[str] = frozenset()
    tray: Tray | None = None
    tray_planned: Tray | None = None

    def drains(self, node: ClusterNode, lease: Lease | None) -> bool:
        """Whether its node has to be taken out of service, or is in a roll-out already, by its Lease."""
        if self.restarts or (lease is not None and ENDED not in lease.labels):
            return True
        return bool(to_set(node, self.labels, labels_set(lease, node)))


@dataclass(frozen=True)
class Survey:
    """The survey of an inventory: what each host needs, or why that is unknown."""

    needs: tuple[HostNeeds, ...]
    without_kubelet: tuple[str, ...]
    refused: Mapping[str, str]  # a host that cannot be planned or configured, and the message
    silent: Mapping[str, str]  # a host that did not answer, and the failure
    log: Path
    shards: frozenset[int] = frozenset()  # the shards that have hosts, where the inventory is divided

    @property
    def is_empty(self) -> bool:
        """Whether there was no host to ask, as in a shard without hosts."""
        return not (self.needs or self.without_kubelet or self.refused or self.silent)


@dataclass
class HostRun:
    """A host's run in progress; implements numaforge.rollout.fleet.Running."""

    member: Member
    program: ProgramRun
    cluster: Cluster
    progress: Progress
    _read: int = 0
    _said: Outcome | None = None
    _refused: str = ""
    _begun: bool = False

    def outcome(self) -> Outcome | None:
        """Return its outcome, None while it is in progress."""
        ended = self.program.has_ended()
        events, self._read = self.program.told[self._read :], len(self.program.told)
        for event in events:
            match event["kind"]:
                case "progress":
                    self.progress = Progress(self.member.name, event["phase"], tuple(event["waits_for"]))
                    self._begun = self._begun or event["phase"] == CHANGING
                case "outcome":
                    reported = Outcome(Ending(event["ending"]), event["reason"], tuple(event["details"]))
                    if self._said is None or reported.ending is not Ending.UNCHANGED:
                        self._said = reported  # of several maintenances, one that changed something wins
                case kind if kind in FAILURES:
                    self._refused = event["message"]
        if not ended:
            return None
        reported = self._said or self._without_a_word()
        failed = self.program.process.returncode != 0
        if failed and reported.ending in (Ending.DONE, Ending.UNCHANGED) and not self.member.drains:
            return Outcome(Ending.HELD, f"{reported.reason}; {self._how_it_ended()}", tail(self.program.log))
        return reported

    def _how_it_ended(self) -> str:
        return f"its run ended with {self.program.process.returncode}: see {self.program.log}"

    def _without_a_word(self) -> Outcome:
        """Return the outcome of a run that reported none, by the record that a drained node has."""
        reason = self._refused or self._how_it_ended()
        details = () if self._refused else tail(self.program.log)
        changed = not self.member.drains and (self._begun or not self._refused)
        try:
            if self.member.node is not None:
                changed |= bool(unfinished([self.cluster.lease(lease_name(self.member.node))]))
        except ClusterError as error:
            return Outcome(Ending.HELD, reason, (*details, str(error)))
        return Outcome(Ending.HELD if changed else Ending.BLOCKED, reason, details)


@dataclass
class Pyinfra:
    """How to run pyinfra: inventory, deploy, pyinfra's --limit, and the options of our command line.

    `folder` holds a log and an event file per run. With `shard`, only its hosts are considered. `answered`
    counts the hosts that have answered a survey in progress; `last_asked` is the run that read the inventory
    last.
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
    last_asked: ProgramRun | None = None
    verbose: bool = False

    def settings(self) -> Steps[dict[str, object]]:
        """Return each host's roll-out settings, without asking a host; raises HostError without hosts."""
        self.last_asked = run = self._start("inventory", "debug-inventory", self.limits)
        while not run.has_ended():
            yield _POLL_SECONDS
        return run.hosts()

    def survey(self) -> Steps[Survey]:
        """Ask every host what it needs, and change nothing; raises HostError where pyinfra broke off."""
        arguments = ["--dry", *self._options()]
        self.last_asked = run = self._start("survey", self.deploy, self.limits, arguments, every_core())
        while not run.has_ended():
            self.answered = run.answered
            yield _POLL_SECONDS
        names, failures = run.hosts(), run.failures()
        undrained = run.said("beside")
        needs = {
            host: _needs(events, undrained.get(host, {}).get("does", ()))
            for host, events in run.all_said("outlook").items()
            if host not in failures["refused"]
        }
        without = tuple(run.said("without-kubelet"))
        refused, unreachable = failures["refused"], failures["unreachable"]
        heard_of = {*needs, *refused}
        if not heard_of and unreachable.keys() != names.keys():
            raise run.broken_off("no host could be asked what it needs")
        silent = {
            name: unreachable.get(name, f"it reported no needs: see {run.log}")
            for name in names
            if name not in heard_of
        }
        return Survey(tuple(needs.values()), without, refused, silent, run.log, run.shards)

    def launch(self, member: Member, cluster: Cluster) -> HostRun:
        """Begin a host's run; raises NumaforgeError where it cannot be started."""
        arguments = ["-y", *self._options(), "--data", f"{PLACE}_run={json.dumps(asdict(self.role))}"]
        begun = self._start(member.host, self.deploy, [member.host], arguments)
        run = HostRun(member, begun, cluster, Progress(member.name, "connects"))
        self.runs[member.host] = run
        return run

    def _options(self) -> list[str]:
        return ["--data", f"{PLACE}_options={json.dumps(dict(self.options))}"]

    def _start(
        self, name: str, deploy: str, limits: Sequence[str], arguments: Sequence[str] = (), processes: int = 1
    ) -> ProgramRun:
        options = ["-v", *arguments] if self.verbose else arguments
        command = Command(self.inventory, deploy, limits, options, processes, self.shard)
        return start(command, self.folder / f"{name.replace('/', '_')}.log", outlives_us=True)


_NEEDS = TypeAdapter(HostNeeds)


def _needs(events: Sequence[Mapping[str, Any]], undrained: Sequence[str]) -> HostNeeds:
    """Return what a host needs, from an event of each maintenance, and other changes (`undrained`)."""
    last = {"changes": True, **events[-1]}
    for flag in ("restarts", "unpins", "changes", "reboots", "unfinished"):
        last[flag] = any(event.get(flag, flag == "changes") for event in events)
    for lines in ("sentences", "does"):
        last[lines] = [line for event in events for line in event.get(lines, ())]
    last |= {"changes": last["changes"] or bool(undrained), "does": [*last["does"], *undrained]}
    return _NEEDS.validate_python(last)
