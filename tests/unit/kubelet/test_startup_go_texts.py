"""Quantities, durations, CPU lists and JSON in Go's own words."""

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaforge.kubelet.config.reservations import ReservationError, parse_thresholds
from numaforge.kubelet_minors.fields import ROOT_TYPE, types_of
from numaforge.kubelet_minors.values.durations import Duration, parse_duration
from numaforge.kubelet_minors.values.gojson import GoJsonError, decode, parse_json
from numaforge.kubelet_minors.values.gotext import shown_float
from numaforge.lib.quantity import Quantity
from tests.fixtures.tables import cases


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1.5Gi", "1536Mi"),
        ("2148Mi", "2148Mi"),
        ("1048576", "1048576"),
        ("1000000", "1M"),
        ("0.3", "300m"),
        ("1e3", "1e3"),
        ("512", "512"),
        ("0", "0"),
        ("-1Gi", "-1Gi"),
    ],
)
def test_quantities_print_in_their_shortest_exact_form(text: str, shown: str) -> None:
    assert str(Quantity.parse(text)) == shown


@given(st.integers(0, 2**62))
def test_byte_counts_survive_printing(count: int) -> None:
    assert Quantity.parse(str(Quantity.of_bytes(count))).amount == count


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_quantity_sums_are_exact(left: int, right: int) -> None:
    total = Quantity.parse(f"{left}m").plus(Quantity.parse(f"{right}m"))
    assert total.amount == Fraction(left + right, 1000)


@pytest.mark.parametrize(
    ("capacity", "share", "expected"),
    [
        pytest.param(32 * 2**30, "5%", 1717986944, id="5% is a float32 a little above"),
        pytest.param(32 * 2**30, "10%", 3435973888, id="10% too"),
        pytest.param(32 * 2**30, "25%", 8 * 2**30, id="a quarter is exact"),
    ],
)
def test_percentages_round_as_float32(capacity: int, share: str, expected: int) -> None:
    threshold = parse_thresholds({"memory.available": share}, 36)["memory.available"]
    assert threshold.of(Quantity.of_bytes(capacity)).amount == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("101%", "eviction percentage threshold memory.available must be <= 100%: 101%"),
        ("-1%", "eviction percentage threshold memory.available must be >= 0%: -1%"),
        ("x%", 'strconv.ParseFloat: parsing "x": invalid syntax'),
        ("0", "eviction threshold memory.available must be positive: 0"),
    ],
)
def test_invalid_eviction_threshold_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ReservationError) as refusal:
        parse_thresholds({"memory.available": text}, 36)
    assert str(refusal.value) == reason


def test_containerfs_eviction_signals_exist_from_1_29() -> None:
    assert parse_thresholds({"containerfs.available": "5%"}, 29)
    with pytest.raises(ReservationError, match="unsupported eviction signal"):
        parse_thresholds({"containerfs.available": "5%"}, 28)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("90s", "1m30s"),
        ("1.5h", "1h30m0s"),
        ("100ms", "100ms"),
        ("1500us", "1.5ms"),
        ("0", "0s"),
        ("-2m", "-2m0s"),
        ("1ns", "1ns"),
    ],
)
def test_durations_print_as_in_go(text: str, shown: str) -> None:
    assert str(parse_duration(text)) == shown


@given(st.integers(-(10**15), 10**15))
def test_durations_survive_printing(nanoseconds: int) -> None:
    assert parse_duration(str(Duration(nanoseconds))).nanoseconds == nanoseconds


INTO_PODS = "into Go struct field KubeletConfiguration.maxPods of type int32"
ANONYMOUS = "KubeletAnonymousAuthentication.authentication.anonymous.enabled"


@cases(
    "data, reason",
    {
        "text": ({"maxPods": "many"}, f"string {INTO_PODS}"),
        "1.5": ({"maxPods": 1.5}, f"number 1.5 {INTO_PODS}"),
        "too big": ({"maxPods": 2**31}, f"number {2**31} {INTO_PODS}"),
        "text for a map": (
            {"evictionHard": "5%"},
            "string into Go struct field KubeletConfiguration.evictionHard of type map[string]string",
        ),
        "the innermost struct, the whole path": (
            {"authentication": {"anonymous": {"enabled": "no"}}},
            f"string into Go struct field {ANONYMOUS} of type bool",
        ),
        "inside a list": (
            {"reservedMemory": [{"numaNode": "a"}]},
            "string into Go struct field MemoryReservation.reservedMemory.numaNode of type int32",
        ),
        "a number for a duration": (
            {"syncFrequency": 60},
            "number into Go struct field KubeletConfiguration.syncFrequency of type string",
        ),
    },
)
def test_wrong_type_is_reported_as_by_go(data: object, reason: str) -> None:
    with pytest.raises(GoJsonError) as refusal:
        decode(data, ROOT_TYPE, types_of(36))
    assert str(refusal.value) == f"json: cannot unmarshal {reason}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "unexpected end of JSON input"),
        ("garbage", "invalid character 'g' looking for beginning of value"),
        ('{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{} x", "invalid character 'x' after top-level value"),
        ("tru", "invalid character ' ' in literal true (expecting 'e')"),
        ("trux", "invalid character 'x' in literal true (expecting 'e')"),
        ("[0-1]", "invalid character '-' after array element"),
        ("[-]", "invalid character ']' in numeric literal"),
        ("[1.]", "invalid character ']' after decimal point in numeric literal"),
        ("[1e]", "invalid character ']' in exponent of numeric literal"),
        ("é", "invalid character 'Ã' looking for beginning of value"),
    ],
)
def test_malformed_json_is_reported_as_by_go(text: str, reason: str) -> None:
    with pytest.raises(GoJsonError) as refusal:
        parse_json(text)
    assert str(refusal.value) == reason


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_well_formed_json_is_read(value: object) -> None:
    assert parse_json(json.dumps(value)).data == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.9, "0.9"),
        (0, "0"),
        (-3, "-3"),
        (999999, "999999"),
        (1000000, "1e+06"),
        (1234567.5, "1.2345675e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
    ],
)
def test_floats_print_as_in_go(value: float, shown: str) -> None:
    assert shown_float(value) == shown
