"""The userland, as it is now: packages, limits, clock, control groups."""

from __future__ import annotations

import pytest

from numaforge.roles.crio.files import CRIO_PATH
from numaforge.verification import expectations
from numaforge.verification.live import VerifiedNode


@pytest.mark.expects(table=expectations.held_packages)
def test_package_is_held(node: VerifiedNode, name: str, expected: bool) -> None:
    held = f"held {name}" in node.live.host
    assert held is expected


@pytest.mark.expects(table=expectations.limits)
def test_limit(node: VerifiedNode, name: str, expected: tuple[str, str, str, str]) -> None:
    unit, drop_in, limit, value = expected
    if not node.live.started_with(unit, drop_in):
        pytest.skip(f"{unit} has not started since {drop_in} was written")
    assert node.live.host.get(f"{limit} {unit}", "").replace("unlimited", "infinity") == value


@pytest.mark.expects(table=expectations.runtime_handler)
def test_runtime_handler(node: VerifiedNode, name: str, expected: str) -> None:
    assert node.live.started_with(expected, CRIO_PATH), (
        f"{expected} has not started since {CRIO_PATH} was written"
    )


@pytest.mark.expects(table=expectations.clock)
def test_clock(node: VerifiedNode, name: str, expected: str) -> None:
    assert node.live.host.get("clock") == expected, "timedatectl: NTPSynchronized"


@pytest.mark.expects(table=expectations.cgroup)
def test_control_groups(node: VerifiedNode, name: str, expected: int) -> None:
    assert node.live.host.get("cgroup") == str(expected), "/sys/fs/cgroup"
