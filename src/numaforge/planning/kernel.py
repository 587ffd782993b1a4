"""What only a boot brings: parameters of the kernel's command line."""

from __future__ import annotations

from numaforge.planning.model import Decision, KernelPlan, Notice, Reasoned
from numaforge.profile import NodeProfile
from numaforge.topology.model import NodeTopology


def plan_kernel(topology: NodeTopology, profile: NodeProfile) -> Reasoned[KernelPlan]:
    """Return the parameters to have; a notice names those that wait for a reboot which is not allowed."""
    plan = KernelPlan(profile.kernel.cmdline, profile.maintenance.reboot)
    if not plan.cmdline:
        return Reasoned(plan)
    running = (topology.kernel_cmdline or "").split()
    missing = [parameter for parameter in plan.cmdline if parameter not in running]
    decision = Decision(
        "kernel.cmdline",
        " ".join(plan.cmdline),
        f"the profile {profile.name} asks for it; "
        + (f"the kernel runs without {' '.join(missing)}" if missing else "the kernel runs with it"),
    )
    return Reasoned(plan, (decision,), _notices(plan, missing))


def _notices(plan: KernelPlan, missing: list[str]) -> tuple[Notice, ...]:
    if not missing:
        return ()
    if plan.reboot == "allowed":
        return (Notice("reboots", f"the node reboots for the kernel parameters {' '.join(missing)}"),)
    return (
        Notice(
            "reboot-pending",
            f"the kernel parameters {' '.join(missing)} wait for a reboot, and maintenance.reboot is "
            f"{plan.reboot}: nothing is written for them",
        ),
    )
