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


def test_nodes_that_begin_whatever_they_are_handed_are_caught():
    def violation(seed: int) -> str:
        try:
            Simulation(seed, Shape(fenced=False)).run()
        except ViolationError as error:
            return str(error)
        return ""

    assert any("which is in service" in violation(seed) for seed in range(SEEDS))


def test_the_same_seed_is_the_same_story():
    assert Simulation(7).run() == Simulation(7).run()
