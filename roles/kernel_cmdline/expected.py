"""The parameters that the kernel has to have booted with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.roles.expectation import Comparison, Expected

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def expected(plan: NodePlan) -> Iterator[Expected]:
    """Yield each planned parameter where a reboot for them is allowed; elsewhere they may wait for one."""
    if plan.kernel.reboot == "allowed":
        for parameter in plan.kernel.cmdline:
            yield Expected("kernel_cmdline", "/proc/cmdline", parameter, Comparison.HAS)
