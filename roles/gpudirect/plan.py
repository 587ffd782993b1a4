"""PCIe access control for GPUDirect: the bridges for which the kernel's default is changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numaforge.findings.gpudirect.access_control import (
    Layout,
    Required,
    misconfigured,
    own_mask,
    required_control,
)
from numaforge.findings.gpudirect.scope import CONFIG_ACS_KERNEL, kernel_version, on_metal
from numaforge.lib.codec import ByName
from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Reasoned, Reasons
from numaforge.machine.topology.model import NodeTopology

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile


@dataclass(frozen=True)
class AcsPlan:
    """PCIe access control that the kernel sets at boot: the mask of each bridge, by PCI address.

    A mask has the bits 6 to 0 as `pci=config_acs=` does: 1, 0, or x for unchanged. `bridges` are vendor and
    device of each, by which a changed PCI address is known.
    """

    masks: ByName[str] = field(default_factory=dict)
    bridges: ByName[str] = field(default_factory=dict)


_SUBJECT = "rdma.gpudirect.acs"
_VIRTUAL = {"correct": None, "bare-metal": False, "virtual-machines": True}


def plan_access_control(
    machine: NodeTopology, profile: NodeProfile, earlier: NodePlan | None
) -> Reasoned[AcsPlan]:
    """Return the masks to set, which are the same before and after the boot.

    Bridges that are right without a parameter get none. Raises PlanError for a setting that makes no
    difference on ConnectX-8 Direct.
    """
    wish, reasons = profile.rdma.gpudirect.acs, Reasons()
    if wish == "keep":
        return reasons.of(AcsPlan())
    where = on_metal(machine)
    if not where.applies:
        reasons.notice("acs-not-here", f"{_SUBJECT}: {where.reason}: there is nothing to set")
        return reasons.of(AcsPlan())
    required = required_control(machine, _VIRTUAL[wish])
    if required.layout is Layout.DIRECT_NIC and wish != "correct":
        raise PlanError(
            f"{wish} makes no difference with ConnectX-8 Direct", where=_SUBJECT, remedy="set correct or keep"
        )
    if required.unknown:
        before = earlier.acs if earlier else AcsPlan()
        consequence = "what the earlier plan set stays" if before.masks else "nothing is set"
        reasons.notice("acs-unknown", f"{_SUBJECT}: {required.unknown}; {consequence}")
        return reasons.of(before)
    plan = _plan(machine, required)
    is_set = "config_acs=" in (machine.kernel_cmdline or "")
    if not plan.masks or not (is_set or misconfigured(machine, required)):
        reasons.decide(_SUBJECT, "as it is", "no bridge needs another value")
        return reasons.of(AcsPlan())
    knows = machine.peer_memory.config_acs  # by the kernel's own types, which show a backport
    if not ((kernel_version(machine) or (0, 0)) >= CONFIG_ACS_KERNEL if knows is None else knows):
        reasons.notice(
            "acs-kernel", f"{_SUBJECT}: Linux {machine.kernel} does not know pci=config_acs= (6.11 does)"
        )
        return reasons.of(AcsPlan())
    for_whom = {None: "", True: ", for guests", False: ", bare metal"}[required.virtual]
    choice = profile.choice(_SUBJECT, f"the profile says {wish}")
    reasons.decide(_SUBJECT, config_acs(plan), f"{required.layout}{for_whom}: {choice}")
    reasons.notice(
        "acs-addresses",
        f"pci=config_acs= names {len(plan.masks)} bridges by PCI address: another card or slot may renumber "
        "them. Plan again after such a change; the proof compares their ids too",
    )
    return reasons.of(plan)


def config_acs(plan: AcsPlan) -> str:
    """Return the option of `pci=` that sets the masks; "" without any."""
    masks = ";".join(f"{mask}@{address}" for address, mask in sorted(plan.masks.items()))
    return f"config_acs={masks}" if masks else ""


def _plan(topology: NodeTopology, required: Required) -> AcsPlan:
    bridges = {function.pci_address: function for function in topology.pci_functions}
    masks = {address: mask for address, mask in required.masks.items() if mask != own_mask(bridges[address])}
    ids = {address: f"{bridges[address].vendor}:{bridges[address].device}" for address in masks}
    return AcsPlan(masks=dict(sorted(masks.items())), bridges=dict(sorted(ids.items())))
