"""Shards: each host is in exactly one, and several of them are one roll-out."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.errors import ExitCode, NumaforgeError
from numaforge.rollout.lead import ROLLOUT, LedError, read_state, stop_lead, take_lead
from numaforge.rollout.record import Phase, Record
from numaforge.rollout.shards import (
    SHARD,
    Shard,
    ShardProgress,
    Shards,
    Stage,
    StageProgress,
    is_part_of,
    shard_here,
    shard_of,
)
from tests.fixtures.memory_machine import Trouble
from tests.fixtures.rollout_world import Watched, out_at_once
from tests.fixtures.tables import cases

NAMES = st.sets(st.text(min_size=1, max_size=12), max_size=40)
COUNTS = st.integers(1, 20)


# ---- who takes which host ----


@given(names=NAMES, count=COUNTS)
def test_every_host_is_in_exactly_one_shard(names, count):
    shards = [Shard(index, count) for index in range(count)]
    for name in names:
        assert sum(shard.of(name) == shard.index for shard in shards) == 1


@given(names=NAMES, new=st.text(min_size=1), count=COUNTS)
def test_joining_host_moves_no_other_host(names, new, count):
    before = {name: shard_of(name, count) for name in names}
    after = {name: shard_of(name, count) for name in sorted(names | {new}, reverse=True)}
    assert before.items() <= after.items()


@given(names=NAMES, count=COUNTS)
def test_added_shard_moves_no_host_between_the_others(names, count):
    moved = [name for name in names if shard_of(name, count) != shard_of(name, count + 1)]
    assert all(shard_of(name, count + 1) == count for name in moved)


@pytest.mark.parametrize("count", [2, 4, 10])
def test_shards_have_about_equal_size(count):
    sizes = Counter(shard_of(f"gpu-{number:04}", count) for number in range(3000))
    assert all(abs(size - 3000 / count) < 0.15 * 3000 / count for size in sizes.values())


def test_named_canaries_are_in_the_first_shard():
    names = [f"gpu-{number}" for number in range(8)]
    assert {Shard(3, 4).of(name, names[:2]) for name in names[:2]} == {0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("0/4", Shard(0, 4), id="the first"),
        pytest.param("3/4", Shard(3, 4), id="the last"),
        pytest.param("0/1", Shard(0, 1), id="the only one"),
        pytest.param("$JOB_COMPLETION_INDEX/4", Shard(2, 4), id="a variable"),
        pytest.param("${JOB_COMPLETION_INDEX}/4", Shard(2, 4), id="a variable in braces"),
    ],
)
def test_shard_text_forms(text, expected):
    assert Shard.parse(text, {"JOB_COMPLETION_INDEX": "2"}) == expected


@cases(
    "text, message",
    {
        "numbered from 1": ("4/4", "there is no shard 4 of 4: the first is 0"),
        "no shards": ("0/0", "there is no shard 0 of 0"),
        "negative": ("-1/4", "it is not I/N"),
        "without a number of shards": ("1", "it is not I/N"),
        "words": ("a/b", "it is not I/N"),
        "a variable that is not set": ("$UNSET/4", "the environment variable UNSET is not set"),
        "a variable without a number": ("$WORDS/4", "the environment variable WORDS is words"),
    },
)
def test_bad_shards_are_refused(text, message):
    with pytest.raises(NumaforgeError, match="--shard") as refused:
        Shard.parse(text, {"WORDS": "words"})
    assert message in str(refused.value)
    assert "0/4" in str(refused.value)


def test_environment_selects_the_shard():
    environment = {SHARD: "$JOB_COMPLETION_INDEX/4", "JOB_COMPLETION_INDEX": "1"}
    assert shard_here(environment) == Shard(1, 4)
    assert shard_here({SHARD: ""}) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gpu", True), ("gpu.0-of-4", True), ("gpu.11-of-12", True), ("gpu.0", False), ("gpux.0-of-4", False)],
)
def test_shard_is_part_of_its_rollout(name, expected):
    assert is_part_of(name, "gpu") is expected
    assert Record("r", Phase.CORDONED, False, rollout=name).belongs_to("gpu") is expected


# ---- several shards are one roll-out ----


class Divided(Watched):
    """Nodes whose roll-out is divided into shards, each a process of its own."""

    def shard(self, index: int, members, count: int, present, *, go_on=False, **settings):
        fleet = self.fleet(members, **{"canaries": 1, **settings})
        shard = Shard(index, count)
        name, runner = shard.name_of("gpu"), f"r{self.launched}"

        def steps():
            lead = yield from take_lead(
                self.cluster, name, runner, {}, go_on=go_on, clock=self.time, once=True
            )
            shards = Shards("gpu", shard, frozenset(present))
            report = yield from replace(fleet, lead=lead, shards=shards).run()
            lead.end({**lead.state, "ended": "now"})
            return report

        return self.time.spawn(steps())


NODES = [f"node-{number:04}" for number in range(6)]


def test_canaries_come_only_from_the_first_shard():
    world = Divided(6)
    second = world.shard(1, NODES[:3], 2, [0, 1])
    world.time.run(300.0)
    assert world.order == []
    first = world.shard(0, NODES[3:], 2, [0, 1])
    assert world.end(first).exit_code is ExitCode.YES
    assert world.end(second).exit_code is ExitCode.YES
    assert world.order[0] == NODES[3]
    assert sorted(world.order) == NODES
    assert world.most == 1


def test_empty_shard_is_not_waited_for():
    world = Divided(3)
    assert world.end(world.shard(1, NODES[:3], 2, [1])).exit_code is ExitCode.YES


def test_idle_shard_leaves_canaries_to_the_next():
    world = Divided(6)
    world.end(world.shard(0, [], 2, [0, 1]))
    second = world.end(world.shard(1, NODES[:3], 2, [0, 1], canaries=2))
    assert set(second.outcomes) == set(NODES[:3])


def test_failed_canaries_stop_every_shard():
    world = Divided(6)
    world.machine_of(NODES[0]).trouble = Trouble(does_not_start=True)
    second = world.shard(1, NODES[3:], 2, [0, 1])
    first = world.end(world.shard(0, NODES[:3], 2, [0, 1]))
    report = world.end(second)
    assert first.exit_code is ExitCode.ROLLED_BACK
    assert "of all shards have failed" in (report.stopped or "")
    assert report.outcomes == {}


def test_restarted_shard_runs_canaries_once():
    world = Divided(6)
    world.end(world.shard(0, NODES[:3], 2, [0, 1]))
    lease = next(lease for lease in world.cluster.leases() if lease.name == f"{ROLLOUT}gpu.0-of-2")
    far = ShardProgress.read(read_state(lease))
    assert far.stages[Stage.DRAINED] == StageProgress(canaries_left=0, hosts_left=0, hosts=3)
    with pytest.raises(LedError, match="has ended"):
        world.end(world.shard(0, NODES[:3], 2, [0, 1]))
    again = world.end(world.shard(0, NODES[3:], 2, [0, 1], go_on=True, budget=out_at_once(3)))
    assert again.exit_code is ExitCode.YES
    assert world.most == 3


def test_abort_reaches_every_shard():
    world = Divided(6)
    for index in (0, 1):
        world.shard(index, NODES[3 * index :][:3], 2, [0, 1])
    world.time.run(1.0)
    assert stop_lead(world.cluster, "gpu", "ann") == "r1, r2"
