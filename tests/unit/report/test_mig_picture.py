"""The picture of a GPU's memory slices: a box for each GPU instance, and no picture of what no GPU has."""

import pytest

from numaforge.report.mig import picture
from numaforge.roles.mig.instance import MigInstance


def at(start: int, size: int) -> MigInstance:
    return MigInstance("1g.10gb", 19, start, size, (1,))


@pytest.mark.parametrize(
    ("instances", "shown"),
    [
        pytest.param([at(1, 1)], " 0    1    2    3\n|----|1g  |----|----|", id="a box where it lies"),
        pytest.param([at(2**63, 1)], f"1g.10gb at {2**63}:1", id="a start beyond any GPU is named"),
        pytest.param([at(0, 2**63)], f"1g.10gb at 0:{2**63}", id="a size beyond any GPU is named"),
        pytest.param([at(-1, 1)], "1g.10gb at -1:1", id="a start before the first slice is named"),
    ],
)
def test_mig_instances_are_drawn_in_place_or_listed(instances: list[MigInstance], shown: str) -> None:
    assert picture(4, instances).plain == shown
