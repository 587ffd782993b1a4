"""The reboot, present where a part below it needs one to take effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numaforge.lib.errors import HostError
from numaforge.node.part import Look, NodeState, Part

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "reboot"
_DOWN_SECONDS = 300  # systemd gives each unit 90 s to stop
_WHERE = "kernel.next_kernel"
# Third-party modules, and drivers of NICs by which nodes are reached: another kernel may lack them.
_DRIVERS = (
    *("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_peermem", "gdrdrv", "amdgpu", "habanalabs"),
    *("mlx5_core", "mlx5_ib", "ib_core", "bnxt_en", "bnxt_re", "ice", "irdma", "efa", "ena", "ionic"),
)


def look(goal: Goal) -> Look:
    """Return the question which kernel the next boot would start, where reboots are allowed."""
    return Look(call=("look_reboot", *_DRIVERS)) if goal.plan.kernel.reboot == "allowed" else Look()


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the reboot where a part below needs it.

    Raises HostError where the boot loader would start an unknown kernel, or one that the plan does not allow.
    On a node without a boot loader (booted over the network), the kernel is known only after the boot.
    """
    if not any(part_below.reboots for part_below in below):
        return None
    answers, allowed = state.answers(NAME), goal.plan.kernel.next_kernel
    if answers.get("next") == "another":
        return _into_another(answers, allowed)
    if answers.get("next") == "unknown" and answers.get("menu") != "none" and allowed != "any":
        raise HostError(
            f"it is not known which kernel a reboot would start: {answers.get('unknown', '')}",
            where=_WHERE,
            remedy="make an entry of the running kernel the boot loader's default (grub-set-default, grubby "
            f"--set-default), or set {_WHERE}: any",
        )
    return part(allowed)


def _into_another(answers: Mapping[str, str], allowed: str) -> Part:
    kernel, running = answers.get("kernel", ""), answers.get("running", "")
    if allowed != "any":
        raise HostError(
            f"a reboot would start {kernel}, and {running} runs",
            where=_WHERE,
            remedy="reboot the node into its new kernel first, or make the running one the boot loader's "
            f"default (grub-set-default, grubby --set-default), or set {_WHERE}: any",
        )
    lacking = [name.removeprefix("lacks-") for name in answers if name.startswith("lacks-")]
    if lacking:
        raise HostError(
            f"a reboot would start {kernel}, which has no module {', '.join(lacking)}",
            where=_WHERE,
            remedy=f"install the drivers for it (dkms status, modinfo -k {answers.get('version', 'VERSION')} "
            "MODULE), or make the running kernel the boot loader's default",
        )
    return part(allowed, into=answers.get("version") or kernel)


def part(allowed: str = "running", into: str = "") -> Part:
    """Return the part that reboots the node, once in each direction.

    `allowed` is "running" where no other kernel may start, else "any"; `into` is another kernel that starts.
    """
    return Part(
        NAME,
        sentences=(f"the node reboots, into the kernel {into}" if into else "the node reboots",),
        settings={"REBOOT_SECONDS": str(_DOWN_SECONDS), "REBOOT_KERNEL": allowed},
        drains=True,
        apply_seconds=_DOWN_SECONDS,
        undo_seconds=_DOWN_SECONDS,
    )
