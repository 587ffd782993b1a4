"""The plan on the host: there, not empty, and for this host."""

from __future__ import annotations

import pytest

from numaforge.verification import expectations
from numaforge.verification.live import Node


def test_the_host_has_a_plan_that_promises_something(node: Node) -> None:
    assert expectations.count(node.plan) >= expectations.at_least(node.plan)


@pytest.mark.expects(table=expectations.machine)
def test_the_machine_is_the_one_of_the_plan(node: Node, name: str, expected: tuple[str, str]) -> None:
    path, planned = expected
    assert node.value(path) == planned, path
