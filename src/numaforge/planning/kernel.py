"""What only a boot brings: parameters of the kernel's command line."""

from __future__ import annotations

from numaforge.planning.model import Decision, KernelPlan, Notice, Reasoned
from numaforge.profile import NodeProfile
from numaforge.topology.model import NodeTopology


def plan_kernel(topology: NodeTopology, profile: NodeProfile) -> Reasoned[KernelPlan]:
    """Return the parameters to have, in words that are as true after the boot as before it.

    A second run has to find the same plan. Where a reboot is not allowed, a notice names what waits for one.
    """
    plan = KernelPlan(profile.kernel.cmdline, profile.maintenance.reboot)
    if not plan.cmdline:
        return Reasoned(plan)
    wish = " ".join(plan.cmdline)
    reason = profile.choice("kernel.cmdline", f"the profile {profile.name} asks for it")
    return Reasoned(plan, (Decision("kernel.cmdline", wish, reason),), _notices(plan, topology))


def _notices(plan: KernelPlan, topology: NodeTopology) -> tuple[Notice, ...]:
    if plan.reboot == "allowed":
        return (Notice("reboots", f"a node that runs without {' '.join(plan.cmdline)} reboots for it"),)
    running = (topology.kernel_cmdline or "").split()
    missing = [parameter for parameter in plan.cmdline if parameter not in running]
    if not missing:
        return ()
    return (
        Notice(
            "reboot-pending",
            f"the kernel parameters {' '.join(missing)} wait for a reboot, and maintenance.reboot is "
            f"{plan.reboot}: nothing is written for them",
        ),
    )
