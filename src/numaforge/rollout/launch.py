"""The runs of pyinfra that a roll-out of a fleet starts: one that changes nothing, then one for each host.

Each is a process of its own with its own log. It continues when the process that started it dies, and what it
says stands in a file: a node that has been begun is ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from numaforge.rollout.cluster import Cluster, ClusterError, ClusterNode
from numaforge.rollout.fleet import Member
from numaforge.rollout.labels import Labels, to_set
from numaforge.rollout.options import PLACE, RunRole
from numaforge.rollout.outcome import Outcome, Progress
from numaforge.rollout.program import FAILURES, Command, ProgramRun, every_core, start, tail
from numaforge.rollout.record import RECORD, Ending
from numaforge.rollout.same_machine import Access
from numaforge.rollout.shards import Shard
from numaforge.rollout.steps import Steps

_POLL_SECONDS = 0.3


@dataclass(frozen=True)
class HostNeeds:
    """What a host needs, as it said itself; `sentences` are empty where its kubelet need not restart.

    `allocatable` is what its node is to offer afterwards, `labels` are those that it is to have (None says
    nothing of them), `options` those of its inventory. `unreadable` says why the host may not read what its
    kubelet runs with; "" where it may, or need not. With `fixed_mig` its GPUs are to be cut in one way for
    good.
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
    fixed_mig: bool = False
    access: Access | None = None

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
    program: ProgramRun
    cluster: Cluster
    progress: Progress
    _read: int = 0
    _said: Outcome | None = None
    _refused: str = ""

    def outcome(self) -> Outcome | None:
        """Return how it ended, None while it is in progress."""
        ended = self.program.has_ended()
        events, self._read = self.program.told[self._read :], len(self.program.told)
        for event in events:
            match event["kind"]:
                case "progress":
                    self.progress = Progress(self.member.node, event["phase"], tuple(event["waits_for"]))
                case "outcome":
                    self._said = Outcome(Ending(event["ending"]), event["reason"], tuple(event["details"]))
                case kind if kind in FAILURES:
                    self._refused = event["message"]
        if not ended:
            return None
        return self._said or self._without_a_word()

    def _without_a_word(self) -> Outcome:
        """Say what it means that a run ended without an outcome, by what it left on the node."""
        code, log = self.program.process.returncode, self.program.log
        reason = self._refused or f"its run ended with {code}: see {log}"
        details = () if self._refused else tail(log)
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
    answered a survey in progress: `120 of 300`, `surveyed` is that survey. `verbose` has pyinfra say what it
    does in its logs.
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
    surveyed: ProgramRun | None = None
    verbose: bool = False

    def settings(self) -> Steps[dict[str, object]]:
        """Return what the inventory says of roll-outs for each host; no host is asked.

        Raises HostError where the inventory names none.
        """
        run = self._start("inventory", "debug-inventory", self.limits)
        while not run.has_ended():
            yield _POLL_SECONDS
        return run.hosts()

    def survey(self) -> Steps[Survey]:
        """Ask every host what it needs, and change nothing.

        Raises HostError where the inventory names no host, and where pyinfra itself broke off.
        """
        arguments = ["--dry", *self._options()]
        self.surveyed = run = self._start("survey", self.deploy, self.limits, arguments, every_core())
        while not run.has_ended():
            self.answered = run.answered
            yield _POLL_SECONDS
        names, failures = run.hosts(), run.failures()
        needs = {host: _needs(event) for host, event in run.said("outlook").items()}
        without = tuple(run.said("without-kubelet"))
        refused, unreachable = failures["refused"], failures["unreachable"]
        heard_of = {*needs, *refused, *without}
        if not heard_of and unreachable.keys() != names.keys():
            raise run.broken_off("no host could be asked what it needs")
        silent = {
            name: unreachable.get(name, f"it said nothing of its kubelet: see {run.log}")
            for name in names
            if name not in heard_of
        }
        return Survey(tuple(needs.values()), without, refused, silent, run.log, run.shards)

    def apply(self, hosts: Sequence[str]) -> Steps[dict[str, str]]:
        """Run the deploy on hosts that need no restart, together; return why it failed on which.

        Raises NumaforgeError where it cannot be started.
        """
        begins_none = self._role(replace(self.role, begins=False))
        run = self._start("others", self.deploy, hosts, ["-y", *begins_none], every_core())
        while not run.has_ended():
            yield _POLL_SECONDS
        if run.process.returncode == 0:
            return {}
        failed = {event["host"]: event["message"] for event in run.told if "message" in event}
        return failed or dict.fromkeys(hosts, "; ".join((*tail(run.log), f"the whole log is {run.log}")))

    def launch(self, member: Member, cluster: Cluster) -> HostRun:
        """Begin a host's run.

        Raises NumaforgeError where it cannot be started.
        """
        arguments = ["-y", *self._options(), *self._role(self.role)]
        begun = self._start(member.host, self.deploy, [member.host], arguments)
        run = HostRun(member, begun, cluster, Progress(member.node, "connects"))
        self.runs[member.host] = run
        return run

    def _options(self) -> list[str]:
        return ["--data", f"{PLACE}_options={json.dumps(dict(self.options))}"]

    def _role(self, role: RunRole) -> list[str]:
        return ["--data", f"{PLACE}_run={json.dumps(asdict(role))}"]

    def _start(
        self,
        name: str,
        what: str,
        limits: Sequence[str],
        arguments: Sequence[str] = (),
        processes: int = 1,
    ) -> ProgramRun:
        said = ["-v", *arguments] if self.verbose else arguments
        command = Command(self.inventory, what, limits, said, processes, self.shard)
        return start(command, self.folder / f"{name.replace('/', '_')}.log", outlives_us=True)


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
        labels=event.get("labels"),
        fixed_mig=event.get("fixed_mig", False),
        access=_access(event.get("access")),
    )


def _access(said: Mapping[str, Any] | None) -> Access | None:
    if said is None:
        return None
    lists = {name: tuple(said[name]) for name in ("addresses", "names")}
    return Access(**{**said, **lists})
