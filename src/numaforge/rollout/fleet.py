"""Roll out over many nodes: in a fixed order, within a budget, canaries first, and no further than is safe.

The fleet decides which is next; each node then takes its own slot, so that other roll-outs in the same
cluster at the same time, with this program or a shard of the same inventory, share the budget.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from numaforge.errors import ExitCode, NumaforgeError
from numaforge.ordering import natural
from numaforge.rollout.budget import Budget, CachedPool, Usage
from numaforge.rollout.cluster import ApiUnreachableError, Cluster, ClusterNode, Lease
from numaforge.rollout.lead import Lead, states
from numaforge.rollout.node import Outcome
from numaforge.rollout.patience import patiently
from numaforge.rollout.record import RECORD, Ending
from numaforge.rollout.shards import FAR, ShardProgress, Shards
from numaforge.rollout.slots import held_slots, live_slots
from numaforge.rollout.steps import Clock, Steps

_TICK_SECONDS = 2.0
_LOOK_SECONDS = 30.0
_UNREACHABLE_SECONDS = 900.0

_EXIT_CODES = {
    Ending.HELD: ExitCode.HELD,
    Ending.ROLLED_BACK: ExitCode.ROLLED_BACK,
    Ending.BLOCKED: ExitCode.BLOCKED,
    Ending.ABORTED: ExitCode.BLOCKED,
}


@dataclass(frozen=True)
class Member:
    """A host of the inventory and its name in the cluster."""

    host: str
    node: str


@dataclass(frozen=True)
class FleetSettings:
    """How to go through a fleet.

    `canaries` hosts go first (the first ones in order, or those named); after them, and after each failure
    domain, nothing new is begun for `soak_seconds`. Nothing new is begun any more once more than
    `max_failures` nodes were rolled back or held, or more than `max_blocked` (None: any number) blocked, or
    when the budget has had no room for any for `slot_seconds`.
    """

    budget: Budget = field(default_factory=Budget)
    canaries: int = 1
    canary_hosts: tuple[str, ...] = ()
    soak_seconds: float = 0.0
    max_failures: int = 0
    max_blocked: int | None = None
    slot_seconds: float = 3600.0


class Running(Protocol):
    """A node's roll-out under way."""

    def outcome(self) -> Outcome | None:
        """Return how it ended, None while it is in progress."""


Launch = Callable[[Member], Running]


@dataclass(frozen=True)
class FleetReport:
    """How a roll-out ended: the outcome of each host that was begun, the reason for each that was not.

    `under_way` are hosts that were begun and have not ended, and why nothing waits for them any more.
    `unreachable` did not answer when they were asked what they need. Of the hosts that need no restart,
    `without_restart` were changed or were as planned, and `failed` could not be changed, with the reason.
    """

    outcomes: Mapping[str, Outcome]
    not_begun: Mapping[str, str]
    stopped: str | None = None
    under_way: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    unreachable: Mapping[str, str] = field(default_factory=dict)
    without_restart: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """The gravest of all: held (or left in progress), rolled back, blocked (or not begun), done."""
        if self.under_way:
            return ExitCode.HELD
        endings = {outcome.ending for outcome in self.outcomes.values()}
        found = next((code for ending, code in _EXIT_CODES.items() if ending in endings), ExitCode.YES)
        left = self.not_begun or self.failed or self.unreachable
        return ExitCode.BLOCKED if found is ExitCode.YES and left else found


def in_order(members: Iterable[Member]) -> list[Member]:
    """Return members by name, with numbers as numbers: gpu-2 before gpu-10."""
    return sorted(members, key=lambda member: natural(member.host))


@dataclass
class Fleet:
    """The roll-out of a fleet; `lead` is None where no other process could run it.

    `tell` hears why nothing new is begun. `shards` says which part of a roll-out this is, None where it is
    the whole. The nodes' own roll-outs share `cached_pool`.
    """

    cluster: Cluster
    members: Sequence[Member]
    settings: FleetSettings
    launch: Launch
    clock: Clock
    tell: Callable[[str], object]
    lead: Lead | None = None
    cached_pool: CachedPool | None = None
    shards: Shards | None = None
    running: dict[str, Running] = field(default_factory=dict, init=False)
    outcomes: dict[str, Outcome] = field(default_factory=dict, init=False)
    stopped: str | None = field(default=None, init=False)
    waits_for: str = field(default="", init=False)

    def __post_init__(self) -> None:
        named = self.settings.canary_hosts
        ordered = in_order(self.members)
        first = [member for member in ordered if member.host in named]
        ordered = first + [member for member in ordered if member.host not in named]
        self.waiting = {member.host: member for member in ordered}
        self._node_of = {member.host: member.node for member in ordered}
        self._canaries_left = len(first) or self.settings.canaries
        self._count: Counter[Ending] = Counter()
        if self.shards and self.lead and (before := ShardProgress.read(self.lead.state)):
            self._canaries_left = min(self._canaries_left, before.canaries_left)
            self._count.update({Ending.ROLLED_BACK: before.failed, Ending.BLOCKED: before.blocked})
        self._domain_of: dict[str, str] = {}
        self._in_domain: Counter[str] = Counter()
        self._look_at = self._soak_until = self._last_begun = self.clock()
        self._cached_pool = self.cached_pool or CachedPool(self.cluster, self.settings.budget, self.clock)

    def stop(self, reason: str) -> None:
        """Begin nothing new; what has begun continues to its end."""
        self.stopped = self.stopped or reason

    def run(self) -> Steps[FleetReport]:
        """Roll out, and report."""
        try:
            yield from self._go_on_with_unfinished()
        except NumaforgeError as error:
            self.stop(str(error))
        while True:
            self._collect()
            self._tell_shards()
            try:
                if self.lead is not None and (reason := self.lead.keep()):
                    self.stop(reason)
                if not self.stopped and self.waiting:
                    self._begin_some()
            except ApiUnreachableError as unreachable:
                self._wait_for(unreachable.message)
            except NumaforgeError as error:  # those that have begun continue, and meet it themselves
                self.stop(str(error))
            if not self.running and (self.stopped or not self.waiting):
                return self.report()
            yield _TICK_SECONDS

    def report(self) -> FleetReport:
        """Return how far it is."""
        reason = self.stopped or self.waits_for
        return FleetReport(
            outcomes=dict(self.outcomes),
            not_begun=dict.fromkeys(self.waiting, reason),
            stopped=self.stopped,
            under_way=dict.fromkeys(self.running, "left to itself, and it ends by itself"),
        )

    def _go_on_with_unfinished(self) -> Steps[None]:
        """Begin with the nodes whose roll-out was left unfinished; they hold their slots already."""

        def unfinished() -> dict[str, ClusterNode]:
            slots = {slot.node for slot in held_slots(self.cluster.leases())}
            nodes = self.cluster.nodes()
            return {node.name: node for node in nodes if RECORD in node.annotations or node.name in slots}

        left = yield from patiently(unfinished, tell=self._wait_for, patience_seconds=_UNREACHABLE_SECONDS)
        for member in [member for member in self.waiting.values() if member.node in left]:
            self._start(member, left[member.node])

    def _start(self, member: Member, node: ClusterNode | None) -> None:
        self.running[member.host] = self.launch(member)
        del self.waiting[member.host]
        domain = self.settings.budget.domain_of(node) if node else ""
        self._domain_of[member.host] = domain
        self._in_domain[domain] += 1
        self._last_begun = self.clock()

    def _collect(self) -> None:
        for host, running in list(self.running.items()):
            outcome = running.outcome()
            if outcome is None:
                continue
            del self.running[host]
            self.outcomes[host] = outcome
            self._look_at = self._last_begun = self.clock()
            self._soak_until = max(self._soak_until, self.clock() + self._soak(host, outcome.ending))
            self._judge(host, outcome.ending)

    def _soak(self, host: str, ending: Ending) -> float:
        """Return for how long to watch before anything new is begun."""
        domain = self._domain_of[host]
        self._in_domain[domain] -= 1
        if self._canaries_left:
            self._canaries_left -= ending is Ending.DONE
            return 0.0 if self._canaries_left else self.settings.soak_seconds
        if not self.settings.soak_seconds or self._in_domain[domain]:
            return 0.0
        more = any(self._domain_of.get(other) == domain for other in self.waiting)
        return 0.0 if more else self.settings.soak_seconds

    def _judge(self, host: str, ending: Ending) -> None:
        """Decide what an ending means for those that have not begun."""
        self._count[ending] += 1
        if self._failed > self.settings.max_failures:
            self.stop(f"{host} is {ending}, and no more than {self.settings.max_failures} may fail")
        blocked, limit = self._count[Ending.BLOCKED], self.settings.max_blocked
        if limit is not None and blocked > limit:
            self.stop(f"{blocked} nodes are blocked, and no more than {limit} may be")

    @property
    def _failed(self) -> int:
        return self._count[Ending.ROLLED_BACK] + self._count[Ending.HELD]

    def _tell_shards(self) -> None:
        """Say on the Lease how far this shard is."""
        if self.shards is None or self.lead is None:
            return
        left = len(self.waiting) + len(self.running)
        far = ShardProgress(self._canaries_left, left, self._failed, self._count[Ending.BLOCKED])
        self.lead.note({FAR: far.document()})

    def _may_begin(self, shards: Shards, leases: Iterable[Lease]) -> bool:
        """Say whether this shard may begin a node now, by what the others say; stop where they failed."""
        others = shards.others(states(leases))
        failed = self._failed + sum(far.failed for far in others.values())
        blocked = self._count[Ending.BLOCKED] + sum(far.blocked for far in others.values())
        if failed > self.settings.max_failures:
            most = self.settings.max_failures
            self.stop(
                f"{failed} nodes of all shards were rolled back or held, and no more than {most} may fail"
            )
            return False
        limit = self.settings.max_blocked
        if limit is not None and blocked > limit:
            self.stop(f"{blocked} nodes of all shards are blocked, and no more than {limit} may be")
            return False
        canaries = shards.canaries_left(self._canaries_left, others)
        if isinstance(canaries, str):
            self._wait_for(canaries)
            return False
        self._canaries_left = canaries
        return True

    def _begin_some(self) -> None:
        """Begin as many nodes as the budget has room for, when it is time to look."""
        if self.clock() < max(self._look_at, self._soak_until):
            return
        self._look_at = self.clock() + _LOOK_SECONDS
        pool = self._cached_pool.pool()
        nodes = pool.nodes
        leases = self.cluster.leases()
        slots = live_slots(self.cluster, pool, leases)
        if lost := self._lost(nodes):
            self.stop(f"{lost}, which was changed before, is not Ready any more")
            return
        if self.shards is None or self._may_begin(self.shards, leases):
            out = {slot.node for slot in slots} | {self._node_of[host] for host in self.running}
            self._begin_within(pool.usage(out), nodes)
        if not self.running and self.clock() - self._last_begun >= self.settings.slot_seconds:
            self.stop(f"no room in the budget for {self.settings.slot_seconds:.0f} s: {self.waits_for}")

    def _begin_within(self, usage: Usage, nodes: Mapping[str, ClusterNode]) -> None:
        for queue in self._queues(nodes).values():
            for member in queue:
                node = nodes.get(member.node)
                if node is None:  # not of the pool, or unknown: its own roll-out says which
                    self._start(member, None)
                    continue
                reason = usage.refusal(node)
                if reason is not None:
                    self._wait_for(reason)
                    break
                self._start(member, node)
                usage = usage.taking(node)

    def _queues(self, nodes: Mapping[str, ClusterNode]) -> dict[str, list[Member]]:
        """Return which may be next, by failure domain; the canaries first, and none beside them."""
        members = list(self.waiting.values())
        if self._canaries_left:
            return {"": members[: max(0, self._canaries_left - len(self.running))]}
        queues: dict[str, list[Member]] = {}
        for member in members:
            node = nodes.get(member.node)
            domain = self.settings.budget.domain_of(node) if node else ""
            self._domain_of[member.host] = domain
            queues.setdefault(domain, []).append(member)
        return dict(sorted(queues.items(), key=lambda item: natural(item[0])))

    def _lost(self, nodes: Mapping[str, ClusterNode]) -> str | None:
        """Return a host that was changed and has stopped being Ready since."""
        return next(
            (
                host
                for host, outcome in self.outcomes.items()
                if outcome.ending is Ending.DONE
                and (node := nodes.get(self._node_of[host])) is not None
                and not node.ready
            ),
            None,
        )

    def _wait_for(self, reason: str) -> None:
        if reason != self.waits_for:
            self.waits_for = reason
            self.tell(reason)
