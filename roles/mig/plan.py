"""The planned cut of a node's GPUs into MIG instances; the plan stays the same once it is carried out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.ordering import grouped
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.model import ComputeInstance, Gpu, GpuInstance, NodeTopology
from numaforge.roles.device_plugin.checks import check_strategy, sentence
from numaforge.roles.mig.devices import with_profile_names
from numaforge.roles.mig.geometry import counted_names
from numaforge.roles.mig.instance import MigGpu, MigPlan
from numaforge.roles.mig.machine import GpuMigPlan, MachineMigPlan, mode_change, plan_profile

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile


_MIXED = "mixed"


def plan_mig(topology: NodeTopology, profile: NodeProfile) -> Reasoned[MigPlan]:
    """Return the MIG mode and the GPU instances of each GPU that the profile names.

    The plan is the same before and after it is carried out. Raises PlanError, naming the GPUs, for a geometry
    that a GPU cannot have, and for a change that would remove what is in use.
    """
    wish = profile.mig
    if not wish.gpus and wish.mig_parted is None:
        label, notices = _label_as_it_is(topology) if wish.label else (None, ())
        return Reasoned(MigPlan(strategy=wish.strategy, label=label), notices=notices)
    machine = plan_profile(topology, profile)
    _refuse(machine)
    machine = replace(machine, gpus=tuple(one for one in machine.gpus if one.gpu.mig_capable is not False))
    waiting = tuple(one for one in machine.gpus if one.waits)
    cut = any(one.gpu.mig_mode == "enabled" if one.waits else one.mode == "enabled" for one in machine.gpus)
    label = _label(cut=cut) if wish.label and machine.gpus else None
    machine = replace(machine, gpus=tuple(one for one in machine.gpus if not one.waits))
    plan = MigPlan(
        tuple(_gpu(one) for one in machine.gpus),
        wish.managed_by,
        wish.strategy,
        label,
        tuple(_gpu(one) for one in waiting),
        tuple(dict.fromkeys(wish.may_stop)),
    )
    exits = plan.managed_by != "dra-driver" and check_strategy(plan.strategy, as_cut(topology, plan))
    if exits:  # the device plugin would, and says why
        raise PlanError(sentence(exits), where="mig.strategy", remedy=exits.remedy)
    notices = (*_notices(machine, plan), *_notices_of_others(topology, plan, waiting))
    return Reasoned(plan, tuple(_decisions(machine, plan, profile)), notices)


def _label(*, cut: bool) -> str:
    return "mig-enabled" if cut else "mig-disabled"


def _label_as_it_is(topology: NodeTopology) -> tuple[str | None, tuple[Notice, ...]]:
    """Return the label of a node whose GPUs stay as they are; none where their mode is not known."""
    able = [gpu.mig_mode for gpu in topology.gpus if gpu.mig_capable is not False]
    if not topology.gpus or None in able:
        notice = "mig.label sets no label: the host has no GPU, or the mode of its GPUs is not known"
        return None, (Notice("mig-label-unknown", notice),)
    return _label(cut="enabled" in able), ()


def as_cut(topology: NodeTopology, plan: MigPlan) -> NodeTopology:
    """Return the machine with its GPUs cut."""
    cut_of = {one.pci_address: one for one in plan.gpus}
    gpus = (
        _with_instances(gpu, cut_of[gpu.pci_address], plan) if gpu.pci_address in cut_of else gpu
        for gpu in topology.gpus
    )
    return replace(topology, gpus=tuple(map(with_profile_names, gpus)))


def _refuse(machine: MachineMigPlan) -> None:
    refused = [one for one in machine.gpus if one.refusal]
    reasons = grouped((_reason(one), one.index) for one in refused)
    if not refused:
        return
    lines = [f"GPU {format_cpulist(indices)}: {reason}" for reason, indices in reasons.items()]
    raise PlanError("\n".join(lines), where="mig")


def _reason(plan: GpuMigPlan) -> str:
    collision = plan.collision
    if collision is None:
        return plan.refusal or ""
    lines = [f"these do not fit together: {counted_names(collision.profiles)}"]
    lines += [f"  {reason}" for reason in collision.reasons]
    nearest = [*collision.fewer, *collision.swapped]
    if nearest:
        lines.append(f"  what fits: {', or '.join(counted_names(one) for one in nearest)}")
    return "\n".join(lines)


def _gpu(plan: GpuMigPlan) -> MigGpu:
    return MigGpu(plan.gpu.pci_address, plan.gpu.uuid, plan.mode, plan.change.instances)


def _decisions(machine: MachineMigPlan, plan: MigPlan, profile: NodeProfile) -> Iterator[Decision]:
    source = "mig.gpus" if profile.mig.mig_parted is None else "mig.mig_parted"
    choice = profile.choice(source)
    alike = grouped(
        ((_value(gpu, plan), _mode_words(one)), one.index)
        for one, gpu in zip(machine.gpus, plan.gpus, strict=True)
    )
    for (value, mode), indices in alike.items():
        yield Decision(f"mig.gpu[{format_cpulist(indices)}]", value, f"{choice}; {mode}" if mode else choice)
    if not plan.gpus:
        return
    chosen: dict[str, tuple[str | None, str]] = {
        "managed_by": (plan.managed_by, _MANAGERS[plan.managed_by]),
        "strategy": (plan.strategy, _STRATEGIES[plan.strategy]),
        "label": (plan.label, "jobs that need whole GPUs keep off nodes that have MIG"),
    }
    for key, (answer, reason) in chosen.items():
        if answer is not None:
            yield Decision(f"mig.{key}", answer, profile.choice(f"mig.{key}", reason))


_MANAGERS = {
    "numaforge": "a maintenance sets the mode, and creates each GPU instance where it is planned",
    "gpu-operator": "the GPU operator's MIG manager is handed the geometry; it decides where instances lie",
    "dra-driver": "the DRA driver creates GPU instances as claims come (DynamicMIG); only the mode is set",
}
_STRATEGIES = {
    _MIXED: "each kind of MIG device is a resource of its own",
    "single": "MIG devices are advertised as nvidia.com/gpu",
    "none": "GPUs are advertised whole, whatever they are cut into",
}


def _value(gpu: MigGpu, plan: MigPlan) -> str:
    if gpu.mode == "disabled":
        return "MIG disabled"
    if plan.managed_by == "dra-driver":
        return "MIG enabled"
    lie = ", ".join(map(str, gpu.instances))
    return f"MIG enabled: {lie or 'no GPU instances'}"


def _mode_words(plan: GpuMigPlan) -> str:
    lasting = plan.model is not None and not plan.model.reset_for_mode and plan.mode == "disabled"
    return "" if lasting else mode_change(plan)


def _notices(machine: MachineMigPlan, plan: MigPlan) -> Iterator[Notice]:
    yield from machine.notices
    if machine.unknown and plan.managed_by != "dra-driver":
        yield Notice(
            "mig-instances-unknown",
            f"the GPU instances of GPU {format_cpulist(machine.unknown)} are not known: planned as empty",
        )
    enabled = [one for one in machine.gpus if one.mode == "enabled"]
    doubts = grouped((one.model.doubt, one.index) for one in enabled if one.model and one.model.doubt)
    for doubt, indices in doubts.items():
        yield Notice("mig-not-confirmed", f"GPU {format_cpulist(indices)}: {doubt}")
    linked = [one.index for one in enabled if one.gpu.nvlinks or one.gpu.nvlink_peers]
    if linked:
        yield Notice(
            "mig-beside-nvlink",
            f"GPU {format_cpulist(linked)} have NVLink, which MIG devices cannot use: keep jobs that span "
            "GPUs off this node, for example with mig.label",
        )
    rebooting = [one.index for one in machine.gpus if "reboot of this" in _mode_words(one)]
    if rebooting:
        yield Notice(
            "mig-reboot",
            f"GPU {format_cpulist(rebooting)} are passed through to this virtual machine: a change of their "
            "MIG mode needs its reboot",
        )
    if plan.strategy == "none" and enabled:
        yield Notice(
            "mig-not-advertised",
            "with migStrategy none GPUs with MIG are advertised whole, and pods that get one cannot use it",
        )


def _notices_of_others(
    topology: NodeTopology, plan: MigPlan, waiting: Sequence[GpuMigPlan]
) -> Iterator[Notice]:
    if waiting:
        yield Notice(
            "reboot-pending",
            f"the MIG mode of GPU {format_cpulist([one.index for one in waiting])} waits for a reboot of "
            "this virtual machine, and maintenance.reboot is never: they stay as they are",
        )
    install = topology.nvidia_install
    if install is not None and install.gpu_claims and plan.gpus and plan.managed_by != "dra-driver":
        yield Notice(
            "mig-dra-driver",
            "NVIDIA's DRA driver for GPUs has been on this node: where its DynamicMIG is on, it cuts GPUs "
            "itself, and a roll-out refuses this geometry (mig.managed_by: dra-driver leaves it to it)",
        )


def _with_instances(gpu: Gpu, cut: MigGpu, plan: MigPlan) -> Gpu:
    if cut.mode == "disabled" or plan.managed_by == "dra-driver":
        instances_left = gpu.gpu_instances if cut.mode == "enabled" else ()
        return replace(gpu, mig_mode=cut.mode, mig_pending=cut.mode, gpu_instances=instances_left)
    instances = (
        GpuInstance(
            number,
            one.profile_id,
            one.start,
            one.size,
            tuple(ComputeInstance(index, slices) for index, slices in enumerate(one.compute_instances)),
        )
        for number, one in enumerate(cut.instances)
    )
    return replace(gpu, mig_mode=cut.mode, mig_pending=cut.mode, gpu_instances=tuple(instances))
