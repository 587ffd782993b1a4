"""Where the system's own daemons run and how long they wait for CPUs, as the node's watch reports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.lib.cpulist import format_cpulist
from numaforge.watched import Compared, Family, Stalled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numaforge.planning.plan import NodePlan

_CGROUPS = "/sys/fs/cgroup"
_SYSTEM = "system.slice"


def compared(plan: NodePlan) -> Iterator[Compared]:
    """Yield the CPUs of each slice; the file of a slice without processes does not exist."""
    for name, cpus in sorted(plan.system.slices.items()):
        path = f"{_CGROUPS}/{name}/cpuset.cpus.effective"
        yield Compared("daemons", path, format_cpulist(cpus), optional=True)


def families(plan: NodePlan) -> tuple[Family, ...]:
    """Return how long daemons have waited for a CPU: all of them, and the kubelet alone."""
    unit = [f"{_SYSTEM}/{plan.kubelet.unit}"] if plan.kubelet else []
    groups = dict.fromkeys([_SYSTEM, *unit])
    return (
        Family(
            "numaforge_reserved_cpu_pressure_seconds_total",
            "counter",
            "Seconds in which some or all (full) tasks of a control group have waited for a CPU (PSI).",
            tuple(Stalled({"cgroup": group}, f"{_CGROUPS}/{group}/cpu.pressure") for group in groups),
        ),
    )
