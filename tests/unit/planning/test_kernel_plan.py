"""What is decided about the kernel's command line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from numaforge.planning.document import dumps, loads
from numaforge.planning.kernel import plan_kernel
from numaforge.planning.model import KernelPlan
from numaforge.planning.node import plan_node
from numaforge.profile import NodeProfile, load_profile
from tests.fixtures.machines import lab_node


def profile(reboot: str = "never", *cmdline: str) -> NodeProfile:
    wish: dict[str, Any] = {"name": "t", "kernel": {"cmdline": [*cmdline]}, "maintenance": {"reboot": reboot}}
    return load_profile({**wish, "memory": {"system_reserved": "512Mi"}})


@pytest.mark.parametrize(
    ("running", "reboot", "notice"),
    [
        pytest.param("quiet iommu=pt", "never", None, id="the-kernel-has-it"),
        pytest.param("quiet", "never", "reboot-pending", id="missing-and-no-leave-to-reboot"),
        pytest.param(
            "xiommu=pt iommu=ptx", "never", "reboot-pending", id="part-of-a-word-is-another-parameter"
        ),
        pytest.param("quiet", "allowed", "reboots", id="leave-to-reboot"),
    ],
)
def test_what_is_missing_is_named_with_what_becomes_of_it(
    running: str, reboot: str, notice: str | None
) -> None:
    planned = plan_kernel(replace(lab_node(), kernel_cmdline=running), profile(reboot, "iommu=pt"))
    assert planned.value == KernelPlan(("iommu=pt",), reboot)
    assert [each.id for each in planned.notices] == ([notice] if notice else [])


def test_the_plan_is_the_same_after_the_boot_that_it_brings() -> None:
    wish = profile("allowed", "iommu=pt")
    before, after = (
        plan_node(replace(lab_node(), kernel_cmdline=running), wish)
        for running in ("quiet", "quiet iommu=pt")
    )
    assert dumps(after) == dumps(before)


def test_without_a_wish_nothing_is_said() -> None:
    assert plan_kernel(lab_node(), profile()).decisions == ()


def test_the_plan_keeps_it() -> None:
    plan = plan_node(lab_node(), profile("allowed", "iommu=pt", "intel_iommu=on"))
    assert loads(dumps(plan)).kernel == KernelPlan(("iommu=pt", "intel_iommu=on"), "allowed")
