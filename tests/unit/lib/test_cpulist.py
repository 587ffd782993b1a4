"""The kernel's cpulist notation, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.cpulist import format_cpulist, parse_cpulist
from numaforge.lib.errors import NumaforgeError


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        pytest.param("", set(), id="empty-is-the-empty-set"),
        pytest.param("\n", set(), id="the-kernels-empty-line-is-the-empty-set"),
        pytest.param("5", {5}, id="one-id"),
        pytest.param("0-3,64-67\n", {0, 1, 2, 3, 64, 65, 66, 67}, id="ranges-with-the-kernels-newline"),
        pytest.param("3,1,1-2", {1, 2, 3}, id="order-and-duplicates-do-not-matter"),
        pytest.param("7-7", {7}, id="a-range-of-one"),
    ],
)
def test_cpulist_is_read(text, ids):
    assert parse_cpulist(text) == ids


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("3-1", id="descending-range"),
        pytest.param("-1", id="negative-id"),
        pytest.param("0-", id="open-range"),
        pytest.param("0,,1", id="empty-part"),
        pytest.param("0,", id="trailing-comma"),
        pytest.param("0x3", id="hex-mask"),
        pytest.param("٣", id="digits-of-another-script"),
        pytest.param("0-999999999", id="range-beyond-any-machine"),
    ],
)
def test_invalid_cpulist_is_refused_with_an_example(text):
    with pytest.raises(NumaforgeError, match="is not a cpulist") as refusal:
        parse_cpulist(text)
    assert "0-3,64-67" in str(refusal.value)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        pytest.param([], "", id="empty"),
        pytest.param([2, 0, 1], "0-2", id="a-run-becomes-a-range"),
        pytest.param([0, 2, 3, 9], "0,2-3,9", id="two-neighbours-are-a-range-as-the-kernel-prints-them"),
    ],
)
def test_cpulist_is_written_in_its_shortest_form(ids, text):
    assert format_cpulist(ids) == text


@given(st.sets(st.integers(0, 8191)))
def test_cpulist_round_trip_keeps_the_set(ids):
    assert parse_cpulist(format_cpulist(ids)) == ids
