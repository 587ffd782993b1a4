"""Rounded sizes add up to the rounded sum."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.report.wording import Grain

GIB = 2**30


@given(st.lists(st.integers(0, 2**45), max_size=8), st.sampled_from([1, 20 * GIB]))
def test_rounded_parts_add_up_and_are_each_within_one_grain(sizes, largest):
    grain = Grain.of(largest)
    parts = grain.parts(sizes)
    assert sum(parts) == grain.rounded(sum(sizes))
    for size, grains in zip(sizes, parts, strict=True):
        assert abs(grains * grain.unit_bytes - size * grain.per_unit) < grain.unit_bytes


@pytest.mark.parametrize(
    ("largest", "size", "words"),
    [
        pytest.param(
            1007 * GIB, 1007 * GIB + GIB // 2, "1007.5 GiB", id="a large node is shown in tenths of GiB"
        ),
        pytest.param(2 * GIB, 100 * 2**20, "100 MiB", id="a small node is shown in whole MiB"),
        pytest.param(1007 * GIB, 0, "0 GiB", id="nothing has no decimals"),
    ],
)
def test_sizes_of_one_node_are_shown_in_one_unit(largest, size, words):
    grain = Grain.of(largest)
    assert grain.shown(grain.rounded(size)) == words
