"""AMD partitions: change the GPUs whose modes differ from the plan, and no others.

The node does it with Python: worker.py is data of the part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from numaforge.lib.errors import HostError
from numaforge.machine.topology.model import Gpu
from numaforge.node.part import Look, NodeState, Part
from numaforge.node.worker_part import WorkerRole, refuse_old_python, stops, units_of, worker_files
from numaforge.roles.amd_partitions.files import AMD_UNIT_PATH
from numaforge.roles.amd_partitions.instance import AmdGpu
from numaforge.roles.amd_partitions.worker import source
from numaforge.roles.hugepages.part import change_with_kubelet

if TYPE_CHECKING:
    from numaforge.change.goal import Goal

NAME = "amd_partitions"
_ROLE = WorkerRole(NAME, AMD_UNIT_PATH, "partitioned", "deploys/amd_partitions.py")
BOOT_LINK = _ROLE.boot_link
_ONCE_SECONDS = 120  # units that stop, and those that start again
_GPU_SECONDS = 130  # each is reset for another compute mode
_RELOAD_SECONDS = 900  # both halves, and the GPUs back; a request that waits is undone with two of them


def look(goal: Goal) -> Look:
    """Return the question of a role with a worker."""
    return _ROLE.look(has_gpus=bool(ours(goal)))


def need(goal: Goal, state: NodeState, below: Sequence[Part]) -> Part | None:
    """Return the part for GPUs with other modes than planned, and for our unit; None without a change."""
    by_address = {gpu.pci_address: gpu for gpu in goal.machine.gpus}
    targets = ours(goal)
    changed = [
        target for target in targets if _current_modes(target, by_address.get(target.pci_address)) != target
    ]
    relinks = _ROLE.relinks(state, enabled=bool(targets))
    if not (changed or relinks):
        return None
    if targets:
        _refuse_without_tools(state.answers(NAME))
    if changed and "kubelet" not in goal.roles and change_with_kubelet(goal, state):
        raise _ROLE.kubelet_runs(changed[0].pci_address)
    return part(
        changed,
        [_current_modes(target, by_address.get(target.pci_address)) for target in changed],
        holders=units_of(state, NAME),
        may_stop=goal.plan.amd_partitions.may_stop,
        enabled=bool(targets),
        relinks=relinks,
    )


def ours(goal: Goal) -> Sequence[AmdGpu]:
    """Return the GPUs whose modes numaforge sets."""
    plan = goal.plan.amd_partitions
    return plan.gpus if plan.managed_by == "numaforge" else ()


def part(
    targets: Sequence[AmdGpu],
    current: Sequence[AmdGpu],
    *,
    enabled: bool = True,
    relinks: bool = False,
    holders: Sequence[str] = (),
    may_stop: Sequence[str] = (),
) -> Part:
    """Return the part that gives the `targets` their modes; `current` has the same GPUs as they were seen.

    `enabled` says whether our unit does that after every boot. `holders` are the units that held a GPU then,
    `may_stop` others that the profile names: none but these is stopped.
    """
    both = list(zip(targets, current, strict=True))
    reloads = any(gpu.memory != was.memory for gpu, was in both)
    reload_notes = ["amdgpu is reloaded: every AMD GPU of the machine is gone meanwhile"] if reloads else []
    once_more = _RELOAD_SECONDS if reloads else 0
    files = worker_files(map(asdict, targets), map(asdict, current), holders, may_stop)
    return _ROLE.part(
        [f"{gpu.pci_address}: {was.modes} -> {gpu.modes}" for gpu, was in both],
        enabled=enabled,
        relinks=relinks,
        data={**files, "worker.py": source()} if targets else {},
        sentences=(*reload_notes, *stops(holders)),
        seconds=_ONCE_SECONDS + _GPU_SECONDS * len(targets) + once_more,
        more_to_undo=once_more,
    )


def _current_modes(gpu: AmdGpu, current: Gpu | None) -> AmdGpu:
    """Return the current modes of a GPU; raises HostError where they are not known."""
    if current is None:
        raise HostError(
            "the planned GPU is not there",
            where=gpu.pci_address,
            remedy="see `dmesg` on the host; plan again where the GPU was replaced",
        )
    cut = current.partition
    if cut is None or cut.compute is None or (gpu.memory and cut.memory is None):
        raise HostError(
            "amdgpu does not report the modes of this GPU",
            where=gpu.pci_address,
            remedy="see `dmesg` on the host: it may be in a reset; a GPU of a guest has its host's modes",
        )
    return AmdGpu(gpu.pci_address, cut.compute, cut.memory or "", cut.count)


def _refuse_without_tools(facts: Mapping[str, str]) -> None:
    refuse_old_python(facts, "partitions are")
    if facts.get("modprobe") != "yes":
        raise HostError(
            "the node has no modprobe: amdgpu cannot be reloaded for another memory mode",
            remedy="install kmod on the node",
        )
