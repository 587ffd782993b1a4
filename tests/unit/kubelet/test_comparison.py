"""When two ways to write a setting mean the same to a kubelet."""

import pytest

from numaforge.kubelet.config.comparison import differences, meaning


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("1Gi", "1024Mi", id="a-quantity"),
        pytest.param("60s", "1m0s", id="a-duration"),
        pytest.param("1.5h", "1h30m0s", id="a-fraction-of-an-hour"),
        pytest.param("100ms", "0.1s", id="milliseconds"),
        pytest.param("", None, id="nothing"),
        pytest.param(5, "5", id="a-number-and-its-text"),
    ],
)
def test_equal_values_in_another_notation_do_not_differ(one, other):
    assert meaning(one) == meaning(other)
    assert differences("field", one, other) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("1Gi", "1G", id="binary-and-decimal"),
        pytest.param("1m0s", "60", id="a-duration-and-a-number"),
        pytest.param("static", "none", id="words"),
        pytest.param(True, "true", id="a-boolean-and-a-word"),
    ],
)
def test_differing_value_is_named(one, other):
    assert differences("field", one, other) == [f"field is {other!r}, planned {one!r}"]
