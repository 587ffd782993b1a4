"""The kernel's command line, as it booted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.verification.promise import Promise, Table, require

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.verification.live import VerifiedNode


def kernel_cmdline(plan: NodePlan) -> Table:
    """The planned kernel parameters where a reboot for them is allowed; elsewhere they may wait."""
    return {parameter: parameter for parameter in plan.kernel.cmdline if plan.kernel.reboot == "allowed"}


def _kernel_parameter(node: VerifiedNode, name: str, expected: str) -> None:
    words = (node.value("/proc/cmdline") or "").split()
    same = [word for word in words if word.partition("=")[0] == expected.partition("=")[0]]
    require(expected in words, f"{' '.join(same) or 'absent'}, planned {expected} (/proc/cmdline)")


PROMISES = (
    Promise("kernel_parameter", kernel_cmdline, _kernel_parameter, values=lambda _plan: ("/proc/cmdline",)),
)
