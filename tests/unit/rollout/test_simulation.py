"""Random faults over 2,000 nodes: nothing happens that must never happen, whatever the seed.

One seed again, with what happens in it: `python bench/rollout.py --seed N`.
"""

from __future__ import annotations

import pytest

from tests.fixtures.simulation import Shape, Simulation, ViolationError

SEEDS = 200
CHUNK = 20


@pytest.mark.parametrize(
    "first", range(0, SEEDS, CHUNK), ids=lambda first: f"seeds {first}-{first + CHUNK - 1}"
)
def test_no_seed_violates_anything(first):
    for seed in range(first, first + CHUNK):
        try:
            Simulation(seed).run()
        except AssertionError as violation:
            pytest.fail(f"seed {seed}: {violation}")


@pytest.mark.parametrize(
    ("shape", "violation"),
    [
        pytest.param(
            Shape(fenced=False), "which is in service", id="nodes that begin whatever they are handed"
        ),
        pytest.param(
            Shape(tells_its_state=False),
            "its kubelet never ended by itself",
            id="nodes that say of a reboot that their kubelet is down",
        ),
    ],
)
def test_what_must_never_happen_is_caught(shape, violation):
    def caught(seed: int) -> str:
        try:
            Simulation(seed, shape).run()
        except ViolationError as error:
            return str(error)
        return ""

    assert any(violation in caught(seed) for seed in range(SEEDS))


def test_the_same_seed_is_the_same_story():
    assert Simulation(7).run() == Simulation(7).run()
