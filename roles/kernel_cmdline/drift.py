"""Whether the kernel has booted with the planned parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.findings.drift import DriftRule
from numaforge.findings.engine import Seen
from numaforge.findings.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan


def _parameters(machine: NodeTopology, plan: NodePlan) -> Iterator[Seen]:
    if machine.kernel_cmdline is None:
        yield Seen(unknown="the kernel's command line was not read")
    elif plan.kernel.reboot == "allowed":
        words = machine.kernel_cmdline.split()
        missing = [parameter for parameter in plan.kernel.cmdline if parameter not in words]
        if missing:
            yield Seen(f"booted without {' '.join(missing)}", "kernel's command line")


DRIFT = (DriftRule("NP107", Severity.ERROR, "the kernel has booted without planned parameters", _parameters),)
