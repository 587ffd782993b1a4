"""A live node against its plan: what the roles promise, a test for each kind of promise."""

from __future__ import annotations

import pytest

from numaforge.verification import promise as promises
from numaforge.verification.live import VerifiedNode


def test_the_host_has_a_plan_that_promises_something(node: VerifiedNode) -> None:
    assert promises.count(node.plan) >= promises.at_least(node.plan)


for _role, _promise in promises.all_promises():
    globals()[f"test_{_promise.name}"] = pytest.mark.expects(name=_promise.name)(_promise.holds)
