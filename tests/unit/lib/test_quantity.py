"""Kubernetes quantities, exact."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.lib.errors import NumaforgeError
from numaforge.lib.quantity import format_bytes, parse_bytes, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("2Gi", 2 * 2**30, id="binary-suffix"),
        pytest.param("2G", 2 * 10**9, id="decimal-suffix"),
        pytest.param("500m", Fraction(1, 2), id="milli"),
        pytest.param("1e3", 1000, id="exponent"),
        pytest.param("1E3", 1000, id="capital-exponent"),
        pytest.param("1E", 10**18, id="capital-e-alone-is-exa"),
        pytest.param("1.5Gi", 3 * 2**29, id="fraction-of-a-binary-suffix"),
        pytest.param(".5", Fraction(1, 2), id="leading-point"),
        pytest.param("5.", 5, id="trailing-point"),
        pytest.param("-1Gi", -(2**30), id="negative"),
        pytest.param(7, 7, id="a-bare-integer-from-yaml"),
    ],
)
def test_quantity_is_exact(text, value):
    assert parse_quantity(text) == value


@pytest.mark.parametrize("text", ["8GB", "8 Gi", "1GiB", "", "Gi", "ten", "1.2.3", "1K", "0x10", "8gi"])
def test_invalid_quantity_is_refused_and_valid_suffixes_are_listed(text):
    with pytest.raises(NumaforgeError, match="is not a Kubernetes quantity") as refusal:
        parse_quantity(text)
    assert "Gi" in str(refusal.value)


def test_bytes_round_up_as_the_kubelet_rounds():
    assert parse_bytes("100m") == 1


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (1000, "1000"), (2148 * 2**20, "2148Mi"), (3 * 2**30, "3Gi"), (2**30 + 1, "1073741825")],
)
def test_bytes_are_written_in_the_largest_exact_binary_unit(count, text):
    assert format_bytes(count) == text


@given(st.integers(0, 2**62))
def test_bytes_round_trip_unchanged(count):
    assert parse_bytes(format_bytes(count)) == count
