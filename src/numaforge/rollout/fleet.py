"""Roll out over many hosts: in a fixed order, within a budget, canaries first, and no further than is safe.

The fleet decides which host is next. A node that is drained then takes its own slot, so that concurrent
roll-outs in the same cluster, of this program or of a shard of the same inventory, share the budget. A host
that is changed without a drain takes no slot: at most as many change together as the budget allows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.lib.ordering import natural
from numaforge.lib.quantity import counted
from numaforge.rollout.budget import Budget, CachedPool, Pool, Usage
from numaforge.rollout.cluster import ApiUnreachableError, Cluster, ClusterNode, Lease
from numaforge.rollout.lead import Lead, states
from numaforge.rollout.node import Outcome
from numaforge.rollout.options import RolloutOptions
from numaforge.rollout.patience import patiently
from numaforge.rollout.record import Ending, unfinished
from numaforge.rollout.shards import FAR, ShardProgress, Shards, Stage, StageProgress
from numaforge.rollout.slots import Slot, held_slots, in_progress, live_slots
from numaforge.rollout.steps import Clock, Steps

_TICK_SECONDS = 2.0
_LOOK_SECONDS = 30.0
_UNREACHABLE_SECONDS = 900.0

EXIT_CODES = {
    Ending.HELD: ExitCode.HELD,
    Ending.ROLLED_BACK: ExitCode.ROLLED_BACK,
    Ending.REFUSED_BY_KUBELET: ExitCode.BLOCKED,
    Ending.BLOCKED: ExitCode.BLOCKED,
    Ending.ABORTED: ExitCode.BLOCKED,
}
"""The exit code of a node that is not as planned, the gravest first."""
FAILED = (Ending.ROLLED_BACK, Ending.HELD, Ending.REFUSED_BY_KUBELET)
"""The endings that the limit of failures counts."""
GOOD = (Ending.DONE, Ending.UNCHANGED)


@dataclass(frozen=True)
class Member:
    """A host that changes, and its Node (None: outside the cluster); `drains`: its pods have to leave.

    `unfinished`: an earlier change has not ended. Without `counts`, it is not counted against
    `max_unavailable`.
    """

    host: str
    node: str | None
    drains: bool = True
    unfinished: bool = False
    control_plane: bool = False
    counts: bool = True

    @property
    def stage(self) -> Stage:
        if self.node is None:
            return Stage.OUTSIDE
        if self.control_plane:
            return Stage.CONTROL_PLANE
        return Stage.DRAINED if self.drains else Stage.IN_PLACE

    @property
    def is_drained(self) -> bool:
        return self.node is not None and self.drains

    @property
    def name(self) -> str:
        """The Node's name, or the host's where there is no Node."""
        return self.node or self.host


@dataclass(frozen=True)
class FleetSettings:
    """How to go through a fleet: a stage's `canaries` go first (the first in order, or the named ones).

    After them, each failure domain and each control-plane node, nothing new begins for `soak_seconds`. The
    fleet stops after more than `max_failures` hosts that are rolled back, held or refused by their kubelets,
    more than `max_blocked` (None: any number) that are blocked, and `slot_timeout` without room in the
    budget.
    """

    budget: Budget = field(default_factory=Budget)
    canaries: int = 1
    canary_hosts: tuple[str, ...] = ()
    soak_seconds: float = 0.0
    max_failures: int = 0
    max_blocked: int | None = None
    slot_timeout: float = 3600.0

    @classmethod
    def of(cls, options: RolloutOptions) -> "FleetSettings":
        return cls(
            budget=options.budget(),
            canaries=options.canaries,
            canary_hosts=options.canary_hosts,
            soak_seconds=options.soak_seconds,
            max_failures=options.max_failures,
            max_blocked=options.max_blocked,
            slot_timeout=options.slot_timeout,
        )


class Running(Protocol):
    """A host's roll-out in progress."""

    def outcome(self) -> Outcome | None:
        """Return how it ended, None while it is in progress."""


Launch = Callable[[Member], Running]


@dataclass(frozen=True)
class FleetReport:
    """The result of a roll-out: the outcome of each host that was begun, the reason for each that was not.

    `under_way` are hosts still in progress. `unreachable` did not answer the survey, `refused` cannot be
    changed as they are. `as_planned` need no change. The pods of `undrained` ones stay.
    """

    outcomes: Mapping[str, Outcome]
    not_begun: Mapping[str, str]
    stopped: str | None = None
    under_way: Mapping[str, str] = field(default_factory=dict)
    unreachable: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    as_planned: tuple[str, ...] = ()
    undrained: frozenset[str] = frozenset()

    @property
    def failed(self) -> dict[str, str]:
        """Why hosts that are changed without a drain are not as planned, by host."""
        undrained = {host: self.outcomes[host] for host in self.outcomes if host in self.undrained}
        return {host: outcome.reason for host, outcome in undrained.items() if outcome.ending not in GOOD}

    @property
    def without_restart(self) -> tuple[str, ...]:
        """The hosts that are as planned without a drain, whether changed or not."""
        changed = (host for host in self.outcomes if host in self.undrained and host not in self.failed)
        return (*changed, *self.as_planned)

    @property
    def exit_code(self) -> ExitCode:
        """The gravest of: held (or in progress), rolled back, blocked (or not begun), unreachable, done."""
        if self.under_way:
            return ExitCode.HELD
        endings = {outcome.ending for outcome in self.outcomes.values()}
        gravest = next((code for ending, code in EXIT_CODES.items() if ending in endings), ExitCode.YES)
        if gravest is not ExitCode.YES:
            return gravest
        if self.not_begun or self.refused:
            return ExitCode.BLOCKED
        return ExitCode.UNREACHABLE if self.unreachable else ExitCode.YES


def in_order(members: Iterable[Member]) -> list[Member]:
    """Return members by stage, then by name, with numbers as numbers: gpu-2 before gpu-10."""
    return sorted(members, key=lambda member: (member.stage.turn, natural(member.host)))


@dataclass
class Fleet:
    """The roll-out of a fleet; `lead` is None where no other process could run it.

    `cluster` is None where no member is a Node, `shards` where this is the whole. `tell` receives the reason
    why nothing new begins. `outside` counts the inventory's hosts that are no Node (None: those that change),
    `refused` the hosts refused beforehand.
    """

    cluster: Cluster | None
    members: Sequence[Member]
    settings: FleetSettings
    launch: Launch
    clock: Clock
    tell: Callable[[str], object]
    lead: Lead | None = None
    cached_pool: CachedPool | None = None
    shards: Shards | None = None
    outside: int | None = None
    refused: int = 0
    running: dict[str, Running] = field(default_factory=dict, init=False)
    outcomes: dict[str, Outcome] = field(default_factory=dict, init=False)
    stopped: str | None = field(default=None, init=False)
    waits_for: str = field(default="", init=False)

    def __post_init__(self) -> None:
        canaries = self.settings.canary_hosts
        ordered = sorted(
            in_order(self.members),
            key=lambda member: (member.stage.turn, member.host not in canaries, not member.unfinished),
        )
        self.waiting = {member.host: member for member in ordered}
        self._member_of = {member.host: member for member in ordered}
        first = Counter(member.stage for member in ordered if member.host in canaries)
        self._canaries_left = {stage: first[stage] or self.settings.canaries for stage in Stage}
        self._hosts = Counter(member.stage for member in ordered)
        if self.outside is not None:
            self._hosts[Stage.OUTSIDE] = self.outside
        self._count: Counter[Ending] = Counter()
        if self.shards and self.lead and (progress := ShardProgress.read(self.lead.state)):
            for stage, far in progress.stages.items():
                self._canaries_left[stage] = min(self._canaries_left[stage], far.canaries_left)
            self._count.update({Ending.ROLLED_BACK: progress.failed, Ending.BLOCKED: progress.blocked})
        self._domain_of: dict[str, tuple[Stage, str]] = {}
        self._in_domain: Counter[tuple[Stage, str]] = Counter()
        self._others_were: Mapping[int, ShardProgress] = {}
        self._look_at = self._soak_until = self._last_begun = self.clock()
        if self.cached_pool is None and self.cluster is not None:
            self.cached_pool = CachedPool(self.cluster, self.settings.budget, self.clock)

    def add(self, member: Member) -> None:
        """Add a host that is ready only now; it is last of its stage."""
        self._member_of[member.host] = self.waiting[member.host] = member
        self._look_at = self.clock()

    def stop(self, reason: str) -> None:
        """Begin nothing new; hosts in progress continue to their end."""
        self.stopped = self.stopped or reason

    def run(self) -> Steps[FleetReport]:
        self._judge_blocked()
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
            except NumaforgeError as error:  # hosts in progress continue, and handle it themselves
                self.stop(str(error))
            if not self.running and (self.stopped or not self.waiting):
                return self.report()
            yield _TICK_SECONDS

    def report(self) -> FleetReport:
        reason = self.stopped or self.waits_for
        undrained = (host for host, member in self._member_of.items() if not member.is_drained)
        return FleetReport(
            outcomes=dict(self.outcomes),
            not_begun=dict.fromkeys(self.waiting, reason),
            stopped=self.stopped,
            under_way=dict.fromkeys(self.running, "left to itself, and it ends by itself"),
            undrained=frozenset(undrained),
        )

    def _go_on_with_unfinished(self) -> Steps[None]:
        """Begin with the nodes whose roll-out was left unfinished; they hold their slots already."""

        if (cluster := self.cluster) is None:
            return

        def in_the_middle() -> dict[str, ClusterNode]:
            leases = cluster.leases()
            names = unfinished(leases).keys() | {slot.node for slot in held_slots(leases)}
            return {node.name: node for node in cluster.nodes() if node.name in names}

        resumable = yield from patiently(
            in_the_middle, tell=self._wait_for, patience_seconds=_UNREACHABLE_SECONDS
        )
        for member in list(self.waiting.values()):
            if member.node is not None and member.node in resumable:
                self._start(member, resumable[member.node])

    def _start(self, member: Member, node: ClusterNode | None) -> None:
        self.running[member.host] = self.launch(member)
        del self.waiting[member.host]
        domain = member.stage, self.settings.budget.domain_of(node) if node else ""
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
        """Return how many seconds to wait before anything new begins."""
        domain, stage = self._domain_of[host], self._member_of[host].stage
        self._in_domain[domain] -= 1
        if stage is Stage.CONTROL_PLANE:
            return self.settings.soak_seconds
        if self._canaries_left[stage]:
            self._canaries_left[stage] -= ending is Ending.DONE
            return 0.0 if self._canaries_left[stage] else self.settings.soak_seconds
        if not self.settings.soak_seconds or self._in_domain[domain]:
            return 0.0
        more = any(self._domain_of.get(host) == domain for host in self.waiting)
        return 0.0 if more else self.settings.soak_seconds

    def _judge(self, host: str, ending: Ending) -> None:
        """Stop the fleet where this ending exceeds a limit."""
        self._count[ending] += 1
        if self._failed > self.settings.max_failures:
            self.stop(f"{host} is {ending}, and no more than {self.settings.max_failures} may fail")
        self._judge_blocked()

    def _judge_blocked(self) -> None:
        blocked, limit = self._blocked, self.settings.max_blocked
        if limit is not None and blocked > limit:
            refused = f", {self.refused} of them refused" if self.refused else ""
            nodes = counted(blocked, "node is", "nodes are")
            self.stop(f"{nodes} blocked{refused}, and no more than {limit} may be")

    @property
    def _failed(self) -> int:
        return sum(self._count[ending] for ending in FAILED)

    @property
    def _blocked(self) -> int:
        return self._count[Ending.BLOCKED] + self.refused

    def _tell_shards(self) -> None:
        if self.shards is None or self.lead is None:
            return
        hosts_left = Counter(self._member_of[host].stage for host in (*self.waiting, *self.running))
        stages = {
            stage: StageProgress(self._canaries_left[stage], hosts_left[stage], self._hosts[stage])
            for stage in Stage
        }
        far = ShardProgress(stages, self._failed, self._count[Ending.BLOCKED], self.refused)
        self.lead.note({FAR: far.document()})

    def _may_begin(self, stage: Stage, shards: Shards, progress: Mapping[int, ShardProgress]) -> bool:
        """Whether this shard may begin a host now, given the others' progress; stop where too many failed."""
        failed = self._failed + sum(far.failed for far in progress.values())
        blocked = self._blocked + sum(far.blocked + far.refused for far in progress.values())
        if failed > self.settings.max_failures:
            most = self.settings.max_failures
            self.stop(f"{failed} nodes of all shards have failed, and no more than {most} may")
            return False
        limit = self.settings.max_blocked
        if limit is not None and blocked > limit:
            self.stop(f"{blocked} nodes of all shards are blocked, and no more than {limit} may be")
            return False
        if early := shards.earlier_stage(stage, progress):
            self._see(progress)
            self._wait_for(early)
            return False
        canaries = shards.canaries_left(self._canaries_left[stage], stage, progress)
        if isinstance(canaries, str):
            self._wait_for(canaries)
            return False
        self._canaries_left[stage] = canaries
        return True

    def _begin_some(self) -> None:
        """Begin as many hosts as there is room for, when the next look is due."""
        if self.clock() < max(self._look_at, self._soak_until):
            return
        stage = next(iter(self.waiting.values())).stage
        if any(self._member_of[host].stage.turn < stage.turn for host in self.running):
            return  # a stage begins when the earlier ones have ended
        self._look_at = self.clock() + _LOOK_SECONDS
        pool, leases, slots = self._in_cluster(stage)
        nodes = {**pool.control_plane, **pool.nodes}
        if lost := self._lost(nodes):
            self.stop(f"{lost}, which was changed before, is not Ready any more")
            return
        progress = self.shards.others(states(leases)) if self.shards else {}
        if self.shards is None or self._may_begin(stage, self.shards, progress):
            out = in_progress(pool, slots, leases) | {self._member_of[host].name for host in self.running}
            if stage is Stage.DRAINED:
                self._begin_within(pool.usage(out), nodes)
            elif stage is Stage.CONTROL_PLANE:
                self._begin_one(pool.usage(out), nodes, progress)
            else:
                self._begin_together(stage, pool, progress)
        if not self.running and self.clock() - self._last_begun >= self.settings.slot_timeout:
            self.stop(f"no room in the budget for {self.settings.slot_timeout:.0f} s: {self.waits_for}")

    def _in_cluster(self, stage: Stage) -> tuple[Pool, list[Lease], list[Slot]]:
        """Return the pool, our Leases, and the slots that count; empty without a cluster."""
        if self.cluster is None or self.cached_pool is None:
            return Pool.of(self.settings.budget, ()), [], []
        pool = self.cached_pool.pool(control_plane=stage is Stage.CONTROL_PLANE)
        leases = self.cluster.leases()
        return pool, leases, live_slots(self.cluster, pool, leases)

    def _begin_within(self, usage: Usage, nodes: Mapping[str, ClusterNode]) -> None:
        """Begin nodes that are drained: each takes a slot of the budget itself."""
        for queue in self._queues(Stage.DRAINED, nodes).values():
            for member in queue:
                node = nodes.get(member.name)
                if node is None:  # outside the pool, or unknown: its own roll-out reports which
                    self._start(member, None)
                    continue
                reason = usage.refusal(node)
                if reason is None:
                    self._start(member, node)
                    usage = usage.taking(node)
                    continue
                self._wait_for(reason)
                if reason != usage.ended_with(node):  # this node's own reason does not hold the next
                    break

    def _begin_one(
        self, usage: Usage, nodes: Mapping[str, ClusterNode], progress: Mapping[int, ShardProgress]
    ) -> None:
        """Begin the next control-plane node; its own roll-out waits until the control plane is healthy."""
        member = next(iter(self.waiting.values()))
        node = nodes.get(member.name)
        reason = usage.refusal(node) if node else None
        if self.shards and not self.shards.part_of(1, Stage.CONTROL_PLANE, progress):
            reason = "one node of the control plane at a time, and an earlier shard has some left"
            self._see(progress)
        if reason is not None or self.running:
            self._wait_for(reason or "one node of the control plane at a time")
            return
        self._start(member, node)

    def _see(self, progress: Mapping[int, ShardProgress]) -> None:
        if progress != self._others_were:  # the other shards make progress: slot_timeout starts again
            self._others_were, self._last_begun = progress, self.clock()

    def _begin_together(self, stage: Stage, pool: Pool, progress: Mapping[int, ShardProgress]) -> None:
        """Begin hosts whose pods stay: they take no slot, and are limited by number and failure domain."""
        running = [host for host in self._running_in(stage) if self._member_of[host].counts]
        most = self._together(stage, pool, progress)
        room = most - len(running)
        keeps_pods = replace(pool, budget=replace(pool.budget, ends_compute_domains=True), out=frozenset())
        usage = Usage(keeps_pods, frozenset(self._member_of[host].name for host in running))
        for queue in self._queues(stage, pool.nodes).values():
            for member in queue:
                if room <= 0 and member.counts:
                    self._wait_for(f"no more than {most} of the hosts may change together")
                    continue
                node = pool.nodes.get(member.name) if member.node else None
                if node is not None and (reason := usage.refusal(node)) is not None:
                    self._wait_for(reason)
                    break
                self._start(member, node)
                room -= member.counts
                usage = usage.taking(node) if node else usage

    def _together(self, stage: Stage, pool: Pool, progress: Mapping[int, ShardProgress]) -> int:
        """Return how many hosts of a stage may change together: max_unavailable, or this shard's part."""
        total = len(pool.nodes)
        if stage is Stage.OUTSIDE:
            hosts = (far.stages[stage].hosts for far in progress.values() if stage in far.stages)
            total = self._hosts[stage] + sum(hosts)
        limit = self.settings.budget.max_unavailable.of(total)
        return self.shards.part_of(limit, stage, progress) if self.shards else limit

    def _running_in(self, stage: Stage) -> list[str]:
        return [host for host in self.running if self._member_of[host].stage is stage]

    def _queues(self, stage: Stage, nodes: Mapping[str, ClusterNode]) -> dict[str, list[Member]]:
        """Return the members of a stage that may be next, by failure domain; first the canaries alone."""
        members = [member for member in self.waiting.values() if member.stage is stage]
        if self._canaries_left[stage]:
            return {"": members[: max(0, self._canaries_left[stage] - len(self._running_in(stage)))]}
        queues: dict[str, list[Member]] = {}
        for member in members:
            node = nodes.get(member.name) if member.node else None
            domain = self.settings.budget.domain_of(node) if node else ""
            self._domain_of[member.host] = stage, domain
            queues.setdefault(domain, []).append(member)
        return dict(sorted(queues.items(), key=lambda item: natural(item[0])))

    def _lost(self, nodes: Mapping[str, ClusterNode]) -> str | None:
        return next(
            (
                host
                for host, outcome in self.outcomes.items()
                if outcome.ending is Ending.DONE
                and (name := self._member_of[host].node) is not None
                and (node := nodes.get(name)) is not None
                and not node.ready
            ),
            None,
        )

    def _wait_for(self, reason: str) -> None:
        if reason != self.waits_for:
            self.waits_for = reason
            self.tell(reason)
