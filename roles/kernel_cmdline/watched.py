"""The kernel's command line, as a node compares it by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.kernel_cmdline.promises import kernel_cmdline
from numaforge.watched import Compared, Held

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numaforge.planning.plan import NodePlan


def compared(plan: NodePlan) -> Iterator[Compared]:
    """Yield each parameter that the kernel must have booted with."""
    for parameter in kernel_cmdline(plan):
        yield Compared("kernel_cmdline", "/proc/cmdline", parameter, Held.HAS)
