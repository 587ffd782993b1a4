"""Hosts that are changed without a drain: their turn, their canaries, how many together, and when to stop."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.errors import ExitCode
from numaforge.rollout.budget import Budget, Share
from numaforge.rollout.fleet import Fleet, FleetReport, FleetSettings, Member, in_order
from numaforge.rollout.in_place import InPlaceChange, NodeOfHost
from numaforge.rollout.lead import take_lead
from numaforge.rollout.record import Ending
from numaforge.rollout.shards import Shard, ShardProgress, Shards, Stage, StageProgress
from tests.fixtures.memory_cluster import ZONE
from tests.fixtures.memory_machine import Trouble
from tests.fixtures.rollout_world import SETTINGS, World
from tests.fixtures.virtual_time import Task

DRAINED, IN_PLACE, OUTSIDE, CONTROL_PLANE = Stage


def hosts(stage: Stage, count: int) -> list[Member]:
    """Return members of a stage; the nodes of the one that is drained come first by name."""
    first = {DRAINED: 0, IN_PLACE: 10, OUTSIDE: 0}[stage]
    numbers = range(first, first + count)
    if stage is OUTSIDE:
        return [Member(f"host-{number}", None) for number in numbers]
    names = [f"node-{number:04}" for number in numbers]
    return [Member(name, name, drains=stage is DRAINED) for name in names]


class Mixed(World):
    """A cluster of 20 nodes and hosts beside it, of which it is watched when each is changed."""

    def __init__(self, zones: int = 1) -> None:
        super().__init__(20, zones, pods=())
        self.tasks: dict[str, Task] = {}
        self.begun: dict[str, float] = {}
        self.most: Counter[Stage] = Counter()
        self.fleets = 0

    @property
    def order(self) -> list[str]:
        return list(self.begun)

    def fails(self, *names: str, **trouble: object) -> None:
        for name in names:
            self.machine_of(name).trouble = Trouble(**(trouble or {"does_not_start": True}))

    def launch(self, member: Member, budget: Budget) -> Task:
        self.begun[member.host] = self.time.now
        if member.stage is DRAINED:
            task = self.begin(
                f"{member.host}@x/b/1.1", member.name, settings=replace(SETTINGS, budget=budget)
            )
        else:
            machine = self.machine_of(member.name)
            machine.disturbs = False
            own = NodeOfHost(self.cluster, member.node) if member.node else None
            change = InPlaceChange(member.host, machine, own, SETTINGS, self.time, self.told.append)
            task = self.time.spawn(change.run())
        self.tasks[member.host] = task
        under_way = sum(not self.tasks[host].ended for host in self.tasks if stage_of(host) is member.stage)
        self.most[member.stage] = max(self.most[member.stage], under_way)
        return task

    def fleet(self, members: list[Member], together: int | str = 1, **settings: object) -> Fleet:
        budget = Budget(Share.parse(together), pool="", domain=settings.pop("domain", None))
        more = {name: settings.pop(name) for name in ("outside", "refused") if name in settings}
        cluster = settings.pop("cluster", self.cluster)
        options = FleetSettings(**{"budget": budget, "canaries": 0, **settings})
        self.fleets += 1
        return Fleet(
            cluster, members, options, lambda one: self.launch(one, budget), self.time, print, **more
        )

    def roll_out(self, members: list[Member], together: int | str = 1, **settings: object) -> FleetReport:
        task = self.time.spawn(self.fleet(members, together, **settings).run())
        self.time.finish(task)
        assert task.error is None
        report: FleetReport = task.result
        return report


def stage_of(host: str) -> Stage:
    if host.startswith("host"):
        return OUTSIDE
    return DRAINED if int(host[-4:]) < 10 else IN_PLACE


@pytest.fixture
def world() -> Mixed:
    return Mixed()


EVERY = [*hosts(OUTSIDE, 3), *hosts(IN_PLACE, 3), *hosts(DRAINED, 3)]
UNDRAINED = pytest.mark.parametrize("stage", [IN_PLACE, OUTSIDE], ids=str)
EVERY_STAGE = pytest.mark.parametrize("stage", [DRAINED, IN_PLACE, OUTSIDE], ids=str)
NODES = pytest.mark.parametrize("stage", [DRAINED, IN_PLACE], ids=str)


def test_stage_order_is_drained_then_in_place_then_outside():
    assert [member.stage for member in in_order(EVERY)] == [DRAINED] * 3 + [IN_PLACE] * 3 + [OUTSIDE] * 3
    world = Mixed()
    report = world.roll_out(EVERY, together=3)
    assert [stage_of(host) for host in world.order] == [DRAINED] * 3 + [IN_PLACE] * 3 + [OUTSIDE] * 3
    assert {outcome.ending for outcome in report.outcomes.values()} == {Ending.DONE}
    assert (report.exit_code, len(report.without_restart)) == (ExitCode.YES, 6)


def test_stage_begins_after_the_previous_stage_ends(world):
    world.roll_out(EVERY, together=3)
    for stage, before in ((IN_PLACE, DRAINED), (OUTSIDE, IN_PLACE)):
        ended = max(world.tasks[host].ended_at for host in world.order if stage_of(host) is before)
        assert min(world.begun[host] for host in world.order if stage_of(host) is stage) >= ended


@UNDRAINED
@pytest.mark.parametrize(("share", "most"), [(1, 1), (3, 3), ("50%", 4), ("1%", 1)])
def test_concurrent_changes_never_exceed_max_unavailable(world, stage, share, most):
    pool_size = {"outside": 8} if stage is OUTSIDE else {}
    expected = 10 if (stage, share) == (IN_PLACE, "50%") else most  # of the 20 nodes of the pool
    world.roll_out(hosts(stage, 8), share, **pool_size)
    assert world.most[stage] == min(expected, 8)


def test_share_of_hosts_outside_counts_hosts_that_need_no_change(world):
    world.roll_out(hosts(OUTSIDE, 4), "25%", outside=8)
    assert world.most[OUTSIDE] == 2


def test_hosts_outside_clusters_obey_the_same_limits(world):
    world.roll_out(hosts(OUTSIDE, 6), 2, canaries=1, cluster=None)
    assert (world.begun["host-1"] >= world.tasks["host-0"].ended_at, world.most[OUTSIDE]) == (True, 2)
    world = Mixed()
    world.fails("host-0")
    report = world.roll_out(hosts(OUTSIDE, 6), 2, canaries=1, cluster=None)
    assert (len(report.not_begun), report.exit_code) == (5, ExitCode.ROLLED_BACK)


def test_host_outside_budget_uses_no_room_but_waits_for_canary(world):
    members = [replace(member, counts=member.host in ("host-0", "host-1")) for member in hosts(OUTSIDE, 6)]
    world.roll_out(members, 1, canaries=1, cluster=None)
    assert world.begun["host-5"] >= world.tasks["host-0"].ended_at
    assert world.most[OUTSIDE] == 5


def test_late_ready_host_still_gets_its_turn(world):
    first, late = hosts(OUTSIDE, 2)
    fleet = world.fleet([first], cluster=None)
    task = world.time.spawn(fleet.run())
    fleet.add(late)
    world.time.finish(task)
    assert world.order == ["host-0", "host-1"]


@EVERY_STAGE
def test_stage_canaries_go_first_and_alone(world, stage):
    world.roll_out(hosts(stage, 6), 4, canaries=2, soak_seconds=500.0)
    times = sorted(world.begun.values())
    first = [world.tasks[host].ended_at for host in world.order[:2]]
    assert times[2] - max(first) >= 500.0
    assert world.begun[world.order[2]] == times[3]


@UNDRAINED
def test_each_stage_has_its_own_canaries(world, stage):
    world.fails(hosts(stage, 1)[0].name)
    report = world.roll_out([*hosts(DRAINED, 2), *hosts(stage, 6)], 4, canaries=1)
    assert [host for host in world.order if stage_of(host) is stage] == [hosts(stage, 1)[0].host]
    assert len(report.not_begun) == 5


@EVERY_STAGE
def test_named_canaries_go_first_in_their_stage(world, stage):
    before = [] if stage is DRAINED else hosts(DRAINED, 1)
    last = hosts(stage, 6)[-1].host
    world.roll_out([*before, *hosts(stage, 6)], 4, canary_hosts=(last,))
    of_stage = world.order[len(before) :]
    assert of_stage[0] == last
    assert world.begun[of_stage[1]] >= world.tasks[last].ended_at


@EVERY_STAGE
@pytest.mark.parametrize(("limit", "begun"), [(0, 1), (2, 3), (8, 8)])
def test_failed_hosts_never_exceed_limit(world, stage, limit, begun):
    members = hosts(stage, 8)
    world.fails(*(member.name for member in members))
    report = world.roll_out(members, max_failures=limit)
    assert (len(world.order), len(report.not_begun)) == (begun, 8 - begun)
    assert report.exit_code is ExitCode.ROLLED_BACK
    assert [outcome.ending for outcome in report.outcomes.values()] == [Ending.ROLLED_BACK] * begun


@pytest.mark.parametrize("trouble", [{"isolates": True}, {"deaf": True}], ids=["not Ready", "no SSH"])
def test_host_lost_after_its_change_counts_as_failure(world, trouble):
    world.fails("node-0010", **trouble)
    report = world.roll_out(hosts(IN_PLACE, 4))
    assert (len(world.order), len(report.not_begun)) == (1, 3)
    assert report.exit_code in (ExitCode.ROLLED_BACK, ExitCode.HELD)


def test_failed_drained_node_stops_later_stages(world):
    world.fails("node-0000")
    report = world.roll_out(EVERY, together=9)
    assert all(stage_of(host) is DRAINED for host in world.order)
    assert {stage_of(host) for host in report.not_begun} >= {IN_PLACE, OUTSIDE}


@NODES
def test_changed_node_lost_later_stops_rollout(world, stage):
    first = hosts(stage, 1)[0].host
    task = world.time.spawn(world.fleet(hosts(stage, 4)).run())
    world.time.run(lambda: len(world.order) == 2)
    world.cluster.change_node(first, ready=False)
    world.time.finish(task)
    assert task.result.stopped == f"{first}, which was changed before, is not Ready any more"
    assert len(world.order) == 2


@NODES
def test_failure_domains_go_one_after_the_other_with_a_pause(stage):
    world = Mixed(zones=2)
    world.roll_out(hosts(stage, 6), 6, domain=ZONE, soak_seconds=300.0)
    zones = [world.look(host).labels[ZONE] for host in world.order]
    assert zones == sorted(zones)
    assert world.begun[world.order[3]] - world.tasks[world.order[2]].ended_at >= 300.0


def test_unfinished_host_goes_first_in_its_stage(world):
    members = hosts(OUTSIDE, 3)
    world.roll_out([*members[:2], replace(members[2], unfinished=True)])
    assert world.order[0] == "host-2"


def test_refused_hosts_count_as_blocked_from_the_start(world):
    report = world.roll_out(hosts(OUTSIDE, 3), max_blocked=1, refused=2)
    assert (world.order, report.exit_code) == ([], ExitCode.BLOCKED)
    assert report.stopped == "2 nodes are blocked, 2 of them refused, and no more than 1 may be"


# ---- shards ----


def progress(**left: int) -> ShardProgress:
    stages = {stage: StageProgress(0, left.get(stage.name.lower(), 0), 4) for stage in Stage}
    return ShardProgress(stages)


@given(limit=st.integers(1, 30), ended=st.lists(st.booleans(), min_size=1, max_size=12))
def test_shard_shares_add_up_to_the_limit(limit, ended):
    present = frozenset(range(len(ended) + 1))
    at_work = [index for index in present if index == len(ended) or not ended[index]]
    found = {index: progress(outside=index in at_work) for index in present}
    parts = [
        Shards("x", Shard(index, len(present)), present).part_of(
            limit, OUTSIDE, {other: far for other, far in found.items() if other != index}
        )
        for index in at_work
    ]
    assert sum(parts) == limit
    assert min(parts) >= 0


@given(limit=st.integers(1, 30), ended=st.lists(st.booleans(), min_size=2, max_size=12))
def test_shard_with_less_knowledge_takes_no_larger_share(limit, ended):
    present = frozenset(range(len(ended)))
    shards = Shards("x", Shard(0, len(present)), present)
    known = {index: progress(outside=not over) for index, over in enumerate(ended) if index}
    nothing = {index: progress(outside=1) for index in known}
    assert shards.part_of(limit, OUTSIDE, nothing) <= shards.part_of(limit, OUTSIDE, known)
    assert shards.part_of(limit, OUTSIDE, {}) <= shards.part_of(limit, OUTSIDE, known)


def sharded(world: Mixed, index: int, members: list[Member], together: int, **settings: object) -> Task:
    def steps():
        shard = Shard(index, 2)
        lead = yield from take_lead(
            world.cluster, shard.name_of("gpu"), f"r{index}", {}, go_on=False, clock=world.time, once=True
        )
        fleet = world.fleet(members, together, **settings)
        return (yield from replace(fleet, lead=lead, shards=Shards("gpu", shard, frozenset({0, 1}))).run())

    return world.time.spawn(steps())


def test_two_shards_together_obey_the_limit_of_one(world):
    members = hosts(OUTSIDE, 8)
    tasks = [sharded(world, index, members[index::2], 3) for index in (0, 1)]
    world.time.finish(*tasks)
    assert len(world.order) == 8
    assert world.most[OUTSIDE] == 3


def test_shard_begins_stage_after_all_shards_end_earlier_ones(world):
    second = sharded(world, 1, hosts(OUTSIDE, 2), 4)
    world.time.run(100.0)
    assert world.order == []
    first = sharded(world, 0, hosts(DRAINED, 2), 4)
    world.time.finish(first, second)
    assert [stage_of(host) for host in world.order] == [DRAINED, DRAINED, OUTSIDE, OUTSIDE]


def test_stage_canaries_come_only_from_the_first_shard(world):
    members = hosts(OUTSIDE, 8)
    world.fails("host-0")
    tasks = [sharded(world, 0, members[:4], 8, canaries=1), sharded(world, 1, members[4:], 8, canaries=1)]
    world.time.finish(*tasks)
    assert world.order == ["host-0"]
    assert "of all shards have failed" in tasks[1].result.stopped
