"""Random faults over 2,000 nodes: nothing happens that must never happen, whatever the seed.

`make test` tries the first of the seeds, and `make test-all` the others.
One seed again, with what happens in it: `python bench/rollout.py --seed N`.
"""

import pytest

from numaforge.rollout.fleet import Fleet
from tests.fixtures.simulation import Shape, Simulation, ViolationError

SEEDS = 200
CHUNK = 20


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "first", range(0, SEEDS, CHUNK), ids=lambda first: f"seeds {first}-{first + CHUNK - 1}"
)
def test_no_seed_violates_an_invariant(first):
    for seed in range(first, first + CHUNK):
        try:
            Simulation(seed).run()
        except AssertionError as violation:
            pytest.fail(f"seed {seed}: {violation}")


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(202, id="a node is down when systemd would end its broken change"),
        pytest.param(213, id="a member of the control plane stops that has left the cluster"),
        pytest.param(724, id="a run is killed after an earlier one of its node was reported"),
        pytest.param(1655, id="a node that the change cuts off from its API server boots"),
        pytest.param(6859, id="the records of a change are removed before it is undone"),
    ],
)
def test_seeds_that_once_failed_violate_nothing(seed):
    assert violation(seed, Shape()) == ""


def violation(seed: int, shape: Shape) -> str:
    """Return what is violated with a seed, "" where nothing is."""
    try:
        Simulation(seed, shape).run()
    except ViolationError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("shape", "seeds", "said"),
    [
        pytest.param(
            Shape(fenced=False),
            range(SEEDS),
            "which is in service",
            id="nodes that begin whatever they are handed",
        ),
        pytest.param(
            Shape(tells_its_state=False),
            range(90, 120),  # one in a hundred shows it
            "its kubelet never ended by itself",
            id="nodes that say of a reboot that their kubelet is down",
        ),
    ],
)
def test_every_injected_violation_is_caught(shape, seeds, said):
    assert any(said in violation(seed, shape) for seed in seeds)


class WithoutCanaries(Fleet):
    """Begins as many as may change together at once."""

    def _queues(self, stage, nodes):
        self._canaries_left[stage] = 0
        return super()._queues(stage, nodes)


class WithoutLimit(Fleet):
    """Begins all hosts of a stage together."""

    def _together(self, *_):
        return len(self._member_of)


class WithoutStop(Fleet):
    """Goes on after failures."""

    def _judge(self, host, ending):
        pass


class WithoutOrder(Fleet):
    """Begins hosts whose pods stay although those before them have not ended."""

    def _begin_some(self):
        self.waiting = dict(reversed(self.waiting.items()))
        super()._begin_some()


@pytest.mark.parametrize(
    ("fleet", "said"),
    [
        (WithoutCanaries, "canaries have succeeded"),
        (WithoutLimit, "may together"),
        (WithoutStop, "hosts have failed"),
        (WithoutOrder, "come first and have not ended"),
    ],
    ids=["canaries", "a limit", "a limit of failures", "an order"],
)
def test_fleet_without_a_safety_rule_is_caught(fleet, said):
    found = (violation(seed, Shape(fleet=fleet)) for seed in range(SEEDS))
    assert any(said in each for each in found)


def test_lost_etcd_quorum_is_caught():
    found = (violation(seed, Shape(outage=True)) for seed in range(SEEDS))
    assert any("members have no quorum without it" in each for each in found)


def test_same_seed_gives_the_same_simulation():
    assert Simulation(7).run() == Simulation(7).run()
