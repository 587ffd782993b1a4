"""CEL selectors of devices: what is read is decided, what is not is unknown, and what fails fails."""

from fractions import Fraction
from typing import Any

import pytest

from numaforge.cluster.explain.selectors import Release, SelectedDevice, SelectorFailsError, selects

GPU = SelectedDevice(
    "gpu.nvidia.com",
    {
        "gpu.nvidia.com": {"type": "gpu", "index": 3, "mig": False, "driverVersion": Release("580.65.6")},
        "resource.kubernetes.io": {"pcieRoot": "pci0000:15", "numaNode": [0, 1]},
    },
    {"gpu.nvidia.com": {"memory": Fraction(80 * 2**30)}},
)
OWN = 'device.attributes["gpu.nvidia.com"]'
FAILS = "fails"


def said(expression: str, device: SelectedDevice = GPU) -> bool | str | None:
    try:
        return selects(expression, device)
    except SelectorFailsError:
        return FAILS


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param('device.driver == "gpu.nvidia.com"', True, id="the driver"),
        pytest.param("device.driver == 'gpu.amd.com'", False, id="another driver, in single quotes"),
        pytest.param(f'{OWN}.type == "gpu"', True, id="an attribute"),
        pytest.param(f'{OWN}["type"] == "gpu"', True, id="an attribute by index"),
        pytest.param(f"{OWN}.mig", False, id="an attribute that is false"),
        pytest.param(f"!{OWN}.mig", True, id="not"),
        pytest.param(f"{OWN}.index >= 3 && {OWN}.index < 4", True, id="numbers in order"),
        pytest.param(f"{OWN}.index > -1", True, id="a number below zero"),
        pytest.param(f'{OWN}.index == "3"', False, id="a number is no text"),
        pytest.param(f'{OWN}.index < "4"', FAILS, id="a number is in no order with a text"),
        pytest.param(f'{OWN}.type in ["mig", "gpu"]', True, id="in a list"),
        pytest.param(f'"index" in {OWN}', True, id="an attribute is there"),
        pytest.param(f"has({OWN}.index)", True, id="has"),
        pytest.param(f"has({OWN}.nope)", False, id="has not"),
        pytest.param(f"{OWN}.nope == 1", FAILS, id="an attribute that is not there"),
        pytest.param('device.attributes["dra.net"].rdma', FAILS, id="a domain that is not there"),
        pytest.param('has(device.attributes["dra.net"].rdma)', False, id="has of such a domain"),
        pytest.param(
            f'device.driver == "dra.net" && {OWN}.nope == 1',
            False,
            id="a false part decides before a failure",
        ),
        pytest.param(
            f'{OWN}.nope == 1 && device.driver == "dra.net"', False, id="a false part decides after a failure"
        ),
        pytest.param(f'{OWN}.nope == 1 || {OWN}.type == "gpu"', True, id="a true part decides"),
        pytest.param(
            'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0', True, id="a capacity"
        ),
        pytest.param(
            'device.capacity["gpu.nvidia.com"].memory.isLessThan(quantity("40Gi"))', False, id="less than"
        ),
        pytest.param(f'{OWN}.driverVersion.isGreaterThan(semver("575.0.0"))', True, id="a version"),
        pytest.param(f'{OWN}.driverVersion.isGreaterThan(semver("575.0.0-rc1"))', None, id="one before it"),
        pytest.param(f'{OWN}.type.startsWith("g") && !{OWN}.type.contains("x")', True, id="parts of a text"),
        pytest.param(f'{OWN}.type.lowerAscii().endsWith("u")', True, id="in small letters"),
        pytest.param('0 in device.attributes["resource.kubernetes.io"].numaNode', True, id="in its list"),
        pytest.param('(device.driver == "a" || true) && !(false)', True, id="brackets"),
        pytest.param(f'{OWN}.type.matches("^g.*")', None, id="a pattern is not read"),
        pytest.param(f"{OWN}.index + 1 == 4", None, id="a sum is not read"),
        pytest.param(f'{OWN}.mig ? false : {OWN}.type == "gpu"', None, id="a choice is not read"),
        pytest.param(
            f'({OWN}.mig && true ? true : true) && device.driver == "x"', False, id="what is beside it is"
        ),
        pytest.param(
            'cel.bind(a, device.attributes["gpu.nvidia.com"], a.mig && true)', None, id="a macro is not read"
        ),
        pytest.param(
            'device.driver == "x" && [1, 2].exists(n, n == 1 || n == 2)',
            False,
            id="a false part beside a macro",
        ),
        pytest.param(
            'device.driver == "gpu.nvidia.com" && [1].all(n, n > 0)', None, id="a true one does not"
        ),
        pytest.param('device.driver == r"gpu.nvidia.com"', None, id="a raw text is not read"),
        pytest.param('device.driver == "gpu\\u002e"', None, id="an escape is not read"),
        pytest.param('"""a"""', None, id="a long text is not read"),
        pytest.param("", None, id="nothing"),
        pytest.param("(" * 500, None, id="brackets without an end"),
        pytest.param("!" * 500 + "true", None, id="deeper than is read"),
        pytest.param(" || ".join(["false"] * 2000), None, id="longer than an API server takes"),
        pytest.param("device.driver", FAILS, id="neither true nor false"),
    ],
)
def test_selector_is_evaluated_or_unknown(expression, expected):
    assert said(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param(f'{OWN}.type == "gpu"', True, id="what it says"),
        pytest.param(f'{OWN}.type == "mig"', False, id="what it says otherwise"),
        pytest.param(f"{OWN}.nope == 1", None, id="what it does not say"),
        pytest.param(f"has({OWN}.nope)", None, id="whether it has what it does not say"),
        pytest.param('device.attributes["dra.net"].rdma', None, id="a domain of which it printed nothing"),
        pytest.param(
            'device.driver == "x" && device.attributes["y"].z', False, id="a false part decides all the same"
        ),
    ],
)
def test_attribute_missing_from_a_planned_device_is_unknown(expression, expected):
    planned = SelectedDevice(GPU.driver, GPU.attributes, complete=False)
    assert said(expression, planned) is expected


@pytest.mark.parametrize("text", ["\x00", "device.", "a" * 9000, "'" * 99, "[[[", "1e999 == 1", "0x1 == 1"])
def test_invalid_expression_is_unknown(text):
    found: Any = said(text)
    assert found is None
