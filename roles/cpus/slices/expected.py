"""The CPUs of the slices of the system's own daemons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from numaforge.lib.cpulist import format_cpulist
from numaforge.roles.expectation import Expected

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan


def expected(plan: NodePlan) -> Iterator[Expected]:
    """Yield each slice; the file of one without processes does not exist."""
    for name, cpus in sorted(plan.system.slices.items()):
        path = f"/sys/fs/cgroup/{name}/cpuset.cpus.effective"
        yield Expected(f"daemons:{name}", path, format_cpulist(cpus), optional=True)
