"""CEL selectors of devices: what is read is decided, what is not is unknown, and what fails fails."""

from fractions import Fraction
from typing import Any

import pytest

from numaforge.cluster.explain.selectors import Release, SelectedDevice, SelectorFailsError, selects
from tests.fixtures.tables import cases

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


@cases(
    "expression, expected",
    {
        "the driver": ('device.driver == "gpu.nvidia.com"', True),
        "another driver, in single quotes": ("device.driver == 'gpu.amd.com'", False),
        "an attribute": (f'{OWN}.type == "gpu"', True),
        "an attribute by index": (f'{OWN}["type"] == "gpu"', True),
        "an attribute that is false": (f"{OWN}.mig", False),
        "not": (f"!{OWN}.mig", True),
        "numbers in order": (f"{OWN}.index >= 3 && {OWN}.index < 4", True),
        "a number below zero": (f"{OWN}.index > -1", True),
        "a number is no text": (f'{OWN}.index == "3"', False),
        "a number is in no order with a text": (f'{OWN}.index < "4"', FAILS),
        "in a list": (f'{OWN}.type in ["mig", "gpu"]', True),
        "an attribute is there": (f'"index" in {OWN}', True),
        "has": (f"has({OWN}.index)", True),
        "has not": (f"has({OWN}.nope)", False),
        "an attribute that is not there": (f"{OWN}.nope == 1", FAILS),
        "a domain that is not there": ('device.attributes["dra.net"].rdma', FAILS),
        "has of such a domain": ('has(device.attributes["dra.net"].rdma)', False),
        "a false part decides before a failure": (f'device.driver == "dra.net" && {OWN}.nope == 1', False),
        "a false part decides after a failure": (f'{OWN}.nope == 1 && device.driver == "dra.net"', False),
        "a true part decides": (f'{OWN}.nope == 1 || {OWN}.type == "gpu"', True),
        "a capacity": ('device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0', True),
        "less than": ('device.capacity["gpu.nvidia.com"].memory.isLessThan(quantity("40Gi"))', False),
        "a version": (f'{OWN}.driverVersion.isGreaterThan(semver("575.0.0"))', True),
        "one before it": (f'{OWN}.driverVersion.isGreaterThan(semver("575.0.0-rc1"))', None),
        "parts of a text": (f'{OWN}.type.startsWith("g") && !{OWN}.type.contains("x")', True),
        "in small letters": (f'{OWN}.type.lowerAscii().endsWith("u")', True),
        "in its list": ('0 in device.attributes["resource.kubernetes.io"].numaNode', True),
        "brackets": ('(device.driver == "a" || true) && !(false)', True),
        "a pattern is not read": (f'{OWN}.type.matches("^g.*")', None),
        "a sum is not read": (f"{OWN}.index + 1 == 4", None),
        "a choice is not read": (f'{OWN}.mig ? false : {OWN}.type == "gpu"', None),
        "what is beside it is": (f'({OWN}.mig && true ? true : true) && device.driver == "x"', False),
        "a macro is not read": ('cel.bind(a, device.attributes["gpu.nvidia.com"], a.mig && true)', None),
        "a false part beside a macro": ('device.driver == "x" && [1, 2].exists(n, n == 1 || n == 2)', False),
        "a true one does not": ('device.driver == "gpu.nvidia.com" && [1].all(n, n > 0)', None),
        "a raw text is not read": ('device.driver == r"gpu.nvidia.com"', None),
        "an escape is not read": ('device.driver == "gpu\\u002e"', None),
        "a long text is not read": ('"""a"""', None),
        "nothing": ("", None),
        "brackets without an end": ("(" * 500, None),
        "deeper than is read": ("!" * 500 + "true", None),
        "longer than an API server takes": (" || ".join(["false"] * 2000), None),
        "neither true nor false": ("device.driver", FAILS),
    },
)
def test_selector_is_evaluated_or_unknown(expression, expected):
    assert said(expression) == expected


@cases(
    "expression, expected",
    {
        "what it says": (f'{OWN}.type == "gpu"', True),
        "what it says otherwise": (f'{OWN}.type == "mig"', False),
        "what it does not say": (f"{OWN}.nope == 1", None),
        "whether it has what it does not say": (f"has({OWN}.nope)", None),
        "a domain of which it printed nothing": ('device.attributes["dra.net"].rdma', None),
        "a false part decides all the same": ('device.driver == "x" && device.attributes["y"].z', False),
    },
)
def test_attribute_missing_from_a_planned_device_is_unknown(expression, expected):
    planned = SelectedDevice(GPU.driver, GPU.attributes, complete=False)
    assert said(expression, planned) is expected


@pytest.mark.parametrize("text", ["\x00", "device.", "a" * 9000, "'" * 99, "[[[", "1e999 == 1", "0x1 == 1"])
def test_invalid_expression_is_unknown(text):
    found: Any = said(text)
    assert found is None
