"""What is replaced in pyinfra has its reason; its inspection gives the same answers."""

import inspect
from types import SimpleNamespace

import pytest
from pyinfra.api import util

from numaforge.run.hosts import patches
from numaforge.run.hosts.patches import read_frames_once


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the place of pyinfra's functions, until the test ends."""
    monkeypatch.setattr(util, "stack", inspect.stack)
    monkeypatch.setattr(util, "getframeinfo", inspect.getframeinfo)
    read_frames_once()


def order() -> list[int]:
    return util.get_operation_order_from_stack(SimpleNamespace(current_deploy_filename=__file__))


def test_operations_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = []
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(util, "stack", inspect.stack)
            patched.setattr(util, "getframeinfo", inspect.getframeinfo)
            if orders:
                read_frames_once()
                assert util.stack is not inspect.stack
            orders.append(order())
    assert orders[0] == orders[1]


def place() -> str:
    return util.get_call_location()


def test_call_location_is_kept(ours: None) -> None:
    assert place().endswith("test_patches.py")


def test_other_pyinfra_version_is_not_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(util, "stack", list)
    read_frames_once()
    assert util.stack is list


def test_each_patch_documents_until_when_it_is_needed() -> None:
    functions = [each for each in vars(patches).values() if inspect.isfunction(each)]
    ours = [each for each in functions if each.__module__ == patches.__name__ and each.__name__[0] != "_"]
    assert [each.__name__ for each in ours if "Until " not in (each.__doc__ or "")] == []
