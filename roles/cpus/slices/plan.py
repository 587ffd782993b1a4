"""The system's own daemons: on the reserved CPUs, by AllowedCPUs of systemd's slices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numaforge.lib.codec import ByName, CpuSet
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Decision, Reasoned
from numaforge.machine.topology.model import NodeTopology
from numaforge.roles.interrupts.plan import refuse_without_reserved

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.kubelet.existing import ExistingSettings


@dataclass(frozen=True)
class SystemPlan:
    """Which CPUs the system's own daemons use, by systemd's slice or scope."""

    slices: ByName[CpuSet] = field(default_factory=dict)


_FIELD = "system.daemons"


def plan_slices(
    machine: NodeTopology, profile: NodeProfile, existing: ExistingSettings, reserved: CpuSet
) -> Reasoned[SystemPlan]:
    """Return the CPUs of each slice.

    reservedSystemCPUs confines no daemon: the kubelet only leaves these CPUs out when it gives CPUs to
    pods (kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources). Raises PlanError for a host
    with cgroup v1, without reserved CPUs, and where pods live below one of the slices.
    """
    wish = profile.system
    if wish.daemons != "reserved":
        return Reasoned(SystemPlan())
    if not reserved:
        raise refuse_without_reserved(_FIELD)
    if machine.cgroup_version == 1:
        raise PlanError(
            "needs cgroup v2: systemd has no AllowedCPUs on cgroup v1",
            where=_FIELD,
            remedy="boot with systemd.unified_cgroup_hierarchy=1, or set keep",
        )
    root = str(existing.effective.get("cgroupRoot") or "")
    # With the systemd driver, the kubelet turns "/system" into "system.slice".
    above = {part if "." in part else f"{part}.slice" for part in root.split("/") if part}
    below = next((name for name in wish.slices if name in above), None)
    if below:
        raise PlanError(
            f"would confine pods as well: the kubelet's cgroupRoot is {root}",
            where=f"system.slices: {below}",
            remedy="move cgroupRoot elsewhere, or leave this slice out",
        )
    plan = SystemPlan(dict.fromkeys(sorted(wish.slices), reserved))
    reason = (
        f"{profile.choice(_FIELD)}: reservedSystemCPUs confines no daemon, only AllowedCPUs keeps them on "
        "these CPUs (systemd.resource-control(5))"
    )
    value = f"{format_cpulist(reserved)}: {', '.join(plan.slices)}"
    return Reasoned(plan, (Decision(_FIELD, value, reason),))
