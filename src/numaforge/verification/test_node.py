"""Compare a live node with its plan: one test for each kind of promise of the roles."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from numaforge.lib.errors import NumaforgeError
from numaforge.roles.promise import Promise
from numaforge.verification import table
from numaforge.verification.live import VerifiedNode


def test_the_host_has_a_plan_that_promises_something(node: VerifiedNode) -> None:
    assert table.count(node.plan) >= table.at_least(node.plan)


def test_no_change_of_the_host_is_unfinished(node: VerifiedNode) -> None:
    if isinstance(node.plan_or_reason, NumaforgeError):
        pytest.skip("the host has no plan")
    if (change := node.live.unfinished) is not None:
        pytest.fail(str(change), pytrace=False)


def _test(promise: Promise) -> Callable[..., None]:
    """Return the promise's own test function: marks stay on `holds`, which promises may share."""

    @wraps(promise.holds)
    def holds(**arguments: Any) -> None:
        promise.holds(**arguments)

    marked: Callable[..., None] = pytest.mark.expects(name=promise.name)(holds)
    return marked


for _role, _promise in table.all_promises():
    globals()[f"test_{_promise.name}"] = _test(_promise)
