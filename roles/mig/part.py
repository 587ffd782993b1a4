"""MIG: cut the GPUs as planned, changing only what differs.

The node does it by itself, with Python: the part's data include worker.py and the pynvml that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from numaforge.lib.errors import HostError
from numaforge.machine.snapshot.nvml_library import library_source
from numaforge.machine.topology.model import Gpu
from numaforge.node.part import Look, NodeState, Part
from numaforge.node.worker_part import WorkerRole, refuse_old_python, stops, units_of, worker_files
from numaforge.roles.hugepages.part import change_with_kubelet
from numaforge.roles.mig.devices import as_instance
from numaforge.roles.mig.files import MIG_UNIT_PATH
from numaforge.roles.mig.instance import MigGpu
from numaforge.roles.mig.models import mode_needs_boot
from numaforge.roles.mig.worker import source

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "mig"
_ROLE = WorkerRole(NAME, MIG_UNIT_PATH, "cut", "deploys/mig.py")
BOOT_LINK = _ROLE.boot_link
_ONCE_SECONDS = 360  # two slow commands (stopping a unit, a reset), and the driver's return
_GPU_SECONDS = 30


def look(goal: Goal) -> Look:
    """Return the question of a role with a worker."""
    return _ROLE.look(has_gpus=bool(goal.plan.mig.gpus))


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part for the GPUs whose cut changes; raises HostError where that cannot be, or not now."""
    by_address = {gpu.pci_address: gpu for gpu in goal.machine.gpus}
    targets = ours(goal)
    mode_only = goal.plan.mig.managed_by == "dra-driver"
    changed_gpus = [
        target
        for target in targets
        if _differs(target, by_address.get(target.pci_address), mode_only=mode_only)
    ]
    relinks = _ROLE.relinks(state, enabled=bool(targets))
    if not (changed_gpus or relinks):
        return None
    if targets:
        _refuse_without_python(state.answers(NAME))
    if changed_gpus and "kubelet" not in goal.roles and change_with_kubelet(goal, state):
        raise _ROLE.kubelet_runs(changed_gpus[0].pci_address)
    return part(
        changed_gpus,
        [by_address[target.pci_address] for target in changed_gpus],
        holders=units_of(state, NAME),
        may_stop=goal.plan.mig.may_stop,
        enabled=bool(targets),
        relinks=relinks,
    )


def ours(goal: Goal) -> Sequence[MigGpu]:
    """Return the GPUs for which numaforge sets at least the mode."""
    return () if goal.plan.mig.managed_by == "gpu-operator" else goal.plan.mig.gpus


def seconds(gpus: int) -> int:
    """Return how long it may take to change the geometry of this number of GPUs."""
    return _ONCE_SECONDS + _GPU_SECONDS * gpus


def data(
    targets: Sequence[MigGpu],
    current: Sequence[Gpu],
    holders: Sequence[str] = (),
    may_stop: Sequence[str] = (),
) -> dict[str, str]:
    """Return the files in the folder of the worker's part, including the worker itself."""
    both = list(zip(targets, current, strict=True))
    planned = ({**asdict(gpu), "by_boot": mode_needs_boot(is_now)} for gpu, is_now in both)
    return {
        **worker_files(
            planned, (asdict(_current_cut(gpu, is_now)) for gpu, is_now in both), holders, may_stop
        ),
        "pynvml.py": library_source(source()),
        "worker.py": source(),
    }


def part(
    targets: Sequence[MigGpu],
    current: Sequence[Gpu],
    *,
    enabled: bool = True,
    relinks: bool = False,
    holders: Sequence[str] = (),
    may_stop: Sequence[str] = (),
) -> Part:
    """Return the part that cuts the `targets`; `current` has them as they were seen, in the same order.

    `enabled`: our unit cuts them after every boot. Only these units are stopped: `holders` held a GPU at the
    look, `may_stop` are named by the profile.
    """
    return _ROLE.part(
        [move for gpu, is_now in zip(targets, current, strict=True) for move in _moves(gpu, is_now)],
        enabled=enabled,
        relinks=relinks,
        data=data(targets, current, holders, may_stop) if targets else {},
        sentences=stops(holders),
        seconds=seconds(len(targets)),
    )


def _differs(gpu: MigGpu, current: Gpu | None, *, mode_only: bool) -> bool:
    old = _current_cut(gpu, current)
    if _pending(current):
        return True
    return old.mode != gpu.mode if mode_only else old.geometry != gpu.geometry


def _pending(current: Gpu | None) -> str | None:
    """Return the MIG mode after the next reset or boot, where it differs from the present one."""
    return None if current is None or current.mig_pending == current.mig_mode else current.mig_pending


def _current_cut(gpu: MigGpu, current: Gpu | None) -> MigGpu:
    """Return the GPU as it is; raises HostError where it is missing or its cut is unknown."""
    if current is None or (gpu.uuid and current.uuid and gpu.uuid != current.uuid):
        raise HostError(
            f"the planned GPU {gpu.uuid or ''} is not there",
            where=gpu.pci_address,
            remedy="see `nvidia-smi -L` and `dmesg` on the host; plan again where the GPU was replaced",
        )
    if current.mig_mode is None or (current.mig_mode == "enabled" and current.gpu_instances is None):
        raise HostError(
            "NVML does not report this GPU's instances"
            f"{f' ({current.unanswered})' if current.unanswered else ''}",
            where=gpu.pci_address,
            remedy="MIG needs a GPU that has it, and python3 and libnvidia-ml.so.1 on the host",
        )
    names = {offer.id: offer.name or "" for offer in current.mig_profiles}
    names |= {planned.profile_id: planned.profile for planned in gpu.instances}
    ordered = sorted(current.gpu_instances or (), key=lambda gpu_instance: gpu_instance.start)
    instances = (
        as_instance(gpu_instance, names.get(gpu_instance.profile_id, "")) for gpu_instance in ordered
    )
    return replace(gpu, mode=current.mig_mode, instances=tuple(instances))


def _moves(gpu: MigGpu, current: Gpu) -> list[str]:
    """Return a line for each change on a GPU."""
    old, pending = _current_cut(gpu, current), _pending(current)
    lines = []
    if pending and not mode_needs_boot(current):
        lines.append(f"{gpu.pci_address}: MIG mode {pending}, which waits for a reset -> {gpu.mode}")
    elif old.mode != gpu.mode and not mode_needs_boot(current):  # else the part mig_mode reports it
        lines.append(f"{gpu.pci_address}: MIG mode {old.mode} -> {gpu.mode}")
    for sign, these, counterpart in (("-", old, gpu), ("+", gpu, old)):
        for instance in these.instances:
            if instance not in counterpart.instances:
                name = instance.profile or f"profile {instance.profile_id}"
                cut = "+".join(map(str, instance.compute_instances)) or "none"
                lines.append(f"{gpu.pci_address}: {sign} {name} at {instance.start}, compute slices {cut}")
    return lines


def _refuse_without_python(facts: Mapping[str, str]) -> None:
    rhel = (
        ". RHEL 8 and its kin take `dnf install python3.11`, `alternatives --set python3 /usr/bin/python3.11`"
    )
    refuse_old_python(facts, "MIG is", rhel)
    if facts.get("library") != "yes":
        raise HostError(
            "the node has no libnvidia-ml.so.1: MIG cannot be changed",
            remedy="install the NVIDIA driver on the node itself; one in a container is not enough at a boot",
        )
