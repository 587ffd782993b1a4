"""Undo a roll-out through the cluster alone: its runners undo their nodes; find the nodes left to resume."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from numaforge.rollout.cluster import Cluster, ClusterNode, Lease
from numaforge.rollout.lead import ROLLOUT, end_lead, stop_lead
from numaforge.rollout.outcome import Outcome
from numaforge.rollout.patience import patiently
from numaforge.rollout.record import (
    Ending,
    Phase,
    Record,
    UnreadableError,
    ask_to_abort,
    node_leases,
    read_ended,
    read_unfinished,
    unfinished,
)
from numaforge.rollout.shards import is_part_of
from numaforge.rollout.slots import LeaseWatch, held_slots
from numaforge.rollout.steps import Clock, Steps

T = TypeVar("T")

_LOOK_AGAIN_SECONDS = 2.0


@dataclass
class Abort:
    """The abort of a roll-out, requested by `who`; `leader` leads that, "" once no process does.

    `asked` are the nodes to undo, with their records at the request, `outcomes` those of nodes that have
    ended.
    """

    cluster: Cluster
    rollout: str
    who: str
    clock: Clock
    unreachable_timeout: float = 900.0
    leader: str = field(default="", init=False)
    asked: dict[str, Record] = field(default_factory=dict, init=False)
    outcomes: dict[str, Outcome] = field(default_factory=dict, init=False)
    _at_work: dict[str, str] = field(default_factory=dict, init=False)
    _versions: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._watch = LeaseWatch(self.clock)

    def tell(self) -> Steps[None]:
        """Tell the leader to begin nothing new, and request the undo of each unfinished node."""
        self.leader = yield from self._ask(lambda: stop_lead(self.cluster, self.rollout, self.who))
        yield from self._ask(lambda: self._ask_nodes(self.cluster.leases()))

    def undone(self, seconds: float) -> Steps[list[str]]:
        """Wait for the undo of every node; return those that no process works on, none in the end.

        A node that is still in progress after `seconds` counts as held, and its outcome names the runner.
        """
        deadline = self.clock() + seconds
        while True:
            unattended = yield from self._ask(self._look)
            if unattended is not None:
                return unattended
            if self.clock() >= deadline:
                for name in list(self.asked):
                    runner = self._at_work.get(name) or self.asked[name].runner
                    reason = f"{runner} is still at work on it after {seconds:.0f} s"
                    self.end(name, Outcome(Ending.HELD, f"{reason}: wait for it, or stop it and abort again"))
                return []
            yield _LOOK_AGAIN_SECONDS

    def end(self, name: str, outcome: Outcome) -> None:
        """Store the outcome of a node."""
        del self.asked[name]
        self.outcomes[name] = outcome

    def _look(self) -> list[str] | None:
        """Return the nodes that are left, none where the roll-out has ended; None while that is uncertain."""
        nodes = {node.name: node for node in self.cluster.nodes()}
        leases = self.cluster.leases(ended=True)
        if self.leader:  # it may have cordoned a further node since
            self._ask_nodes(leases)
        records = node_leases(leases)
        slots = {(slot.node, slot.node_uid): slot for slot in held_slots(leases)}
        uncertain, unattended = False, []
        for name in list(self.asked):
            node = nodes.get(name)
            if (outcome := self._outcome(name, node, records.get(name))) is not None:
                self.end(name, outcome)
                continue
            slot = slots.get((name, node.uid)) if node else None
            if slot is None or self._watch.tells_dead(slot.lease):
                unattended.append(name)
                continue
            self._at_work[name] = slot.runner
            version = slot.lease.resource_version
            uncertain |= self._versions.setdefault(slot.lease.name, version) == version
        for lease in leases:
            if lease.name.startswith(ROLLOUT) and is_part_of(lease.name.removeprefix(ROLLOUT), self.rollout):
                self._watch.of(lease)
        if self.asked:
            return unattended if unattended and not uncertain else None
        self.leader = end_lead(self.cluster, self.rollout, "aborted", self._watch)
        return None if self.leader else []

    def _ask_nodes(self, leases: Iterable[Lease]) -> None:
        for name in sorted(unfinished(leases).keys() - {*self.asked, *self.outcomes}):
            try:
                if record := ask_to_abort(self.cluster, name, self.rollout, self.who):
                    self.asked[name] = record
            except UnreadableError as error:
                self.outcomes[name] = Outcome(Ending.HELD, str(error))

    def _outcome(self, name: str, node: ClusterNode | None, lease: Lease | None) -> Outcome | None:
        if node is None:
            return Outcome(Ending.BLOCKED, "the node has left the cluster")
        try:
            record = read_unfinished(lease)
        except UnreadableError as error:
            return Outcome(Ending.HELD, str(error))
        if record is None:
            ended = read_ended(lease, node)
            if ended is None or ended.ending is None:
                return Outcome(Ending.HELD, "its record was deleted, and nothing says how far it was")
            return Outcome(ended.ending, ended.reason)
        if not record.belongs_to(self.rollout):
            return Outcome(Ending.BLOCKED, f"{record.runner} rolls it out as {record.rollout} by now")
        if record.phase is Phase.HELD and self.asked[name].phase is not Phase.HELD:
            return Outcome(Ending.HELD, record.reason)
        return None

    def _ask(self, call: Callable[[], T]) -> Steps[T]:
        return patiently(call, tell=lambda _: None, patience_seconds=self.unreachable_timeout)
