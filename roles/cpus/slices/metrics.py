"""How long the system's own daemons wait for CPUs, as the node's watch reports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numaforge.roles.metric import Family, Stalled

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan

_CGROUPS = "/sys/fs/cgroup"
_SYSTEM = "system.slice"


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
