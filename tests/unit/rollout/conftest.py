"""What a roll-out's tests begin with."""

import pytest

from tests.fixtures.rollout_world import World


@pytest.fixture
def world() -> World:
    """A cluster in memory, a node of it to change, and time that a test lets pass."""
    return World()
