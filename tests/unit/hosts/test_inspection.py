"""What takes the place of pyinfra's own inspection gives the same answers."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
from pyinfra.api import arguments, util

from numaforge.hosts import inspect_once


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the place of pyinfra's functions, until the test ends."""
    monkeypatch.setattr(util, "stack", inspect.stack)
    monkeypatch.setattr(util, "getframeinfo", inspect.getframeinfo)
    monkeypatch.setattr(arguments, "all_global_arguments", arguments.all_global_arguments)
    inspect_once()


def order() -> list[int]:
    return util.get_operation_order_from_stack(SimpleNamespace(current_deploy_filename=__file__))


def test_operations_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = []
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(util, "stack", inspect.stack)
            patched.setattr(util, "getframeinfo", inspect.getframeinfo)
            if orders:
                inspect_once()
                assert util.stack is not inspect.stack
            orders.append(order())
    assert orders[0] == orders[1]


def place() -> str:
    return util.get_call_location()


def test_the_place_of_a_call_is_the_same(ours: None) -> None:
    assert place().endswith("test_inspection.py")


def test_another_pyinfra_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "stack", list)
    inspect_once()
    assert util.stack is list


def test_global_arguments_are_the_same(ours: None) -> None:
    assert arguments.all_global_arguments() == arguments.all_global_arguments.__wrapped__()
    assert arguments.all_global_arguments() is arguments.all_global_arguments()
