"""Who manages the memory of GPUs beside Grace and Vera, and the machine as the boot leaves it.

The mode is an option of nvidia.ko, which the role `modules` writes and proves. It empties the NUMA nodes of
GPUs or gives them their memory back; the nodes themselves stay, because firmware lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.quantity import format_bytes
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.gpu_models import is_coherent
from numaforge.machine.topology.memory_mode import (
    DRIVER,
    FIRST_DRIVER,
    FIRST_DRIVER_BY_DEFAULT,
    NUMA,
    OPTION,
    driver_branch,
    gpu_memory_mode,
    keeps_memory_online,
    memory_of_gpus,
)
from numaforge.machine.topology.model import HugepagePool, NodeTopology
from numaforge.roles.modules.plan import gpu_memory_asked

if TYPE_CHECKING:
    from numaforge.planning.plan import NodePlan
    from numaforge.planning.profile import NodeProfile

SUBJECT = "gpu_memory"


@dataclass(frozen=True)
class GpuMemoryPlan:
    """What manages the memory of GPUs with the plan; `mode` None: unchanged.

    `memory` is the memory of GPUs in bytes by NUMA node while the kernel manages it, kept from plan to plan;
    empty where it was never seen. `waits`: the mode needs a reboot, and none is allowed. `grows`: a reboot
    adds memory of unknown size.
    """

    mode: Literal["numa", "driver"] | None = None
    memory: Mapping[int, int] = field(default_factory=dict)
    waits: bool = False
    grows: bool = False


MIG_UNDER_DRIVER = Notice(
    "gpu-memory-mig",
    f"MIG is wanted or on where the driver manages the GPUs' memory: branch {FIRST_DRIVER} has no MIG in "
    "this mode. Read in NVIDIA's notes of the branch whether it has by now (NG703)",
)


def plan_gpu_memory(
    machine: NodeTopology, profile: NodeProfile, earlier: NodePlan | None
) -> Reasoned[GpuMemoryPlan]:
    """Return the mode of the GPUs' memory, and its effect on the machine.

    Raises PlanError for a mode on a machine without such GPUs, and for `driver` with a driver without CDMM.
    """
    chosen = gpu_memory_asked(profile)
    coherent = any(map(is_coherent, machine.gpus))
    if chosen is not None and not coherent:
        raise PlanError(
            "says who manages memory of GPUs beside a Grace or Vera CPU, and this machine has no such GPU",
            where=SUBJECT,
            remedy=f"leave {SUBJECT} out, in a profile for such machines only",
        )
    previous = earlier.gpu_memory if earlier and coherent else GpuMemoryPlan()
    mode = chosen or (_by_default(machine) if previous.mode else None)
    if mode is None:
        return Reasoned(GpuMemoryPlan())
    branch = driver_branch(machine)
    if chosen == DRIVER and branch is not None and branch < FIRST_DRIVER:
        raise PlanError(
            f"is {DRIVER}, and driver {branch} cannot: branch {FIRST_DRIVER} is the first that has {OPTION}",
            where=SUBJECT,
            remedy=f"upgrade the driver, or leave {SUBJECT} out",
        )
    memory = memory_of_gpus(machine) or dict(previous.memory)
    changes = mode_now(machine) != mode
    waits = changes and profile.maintenance.reboot != "allowed"
    grows = changes and not waits and mode == NUMA and not memory
    plan = GpuMemoryPlan(mode, memory, waits, grows)
    reason = (
        profile.choice(SUBJECT)
        if chosen
        else f"an earlier plan pinned the mode, this one does not: branch {branch} takes {mode}"
    )
    return Reasoned(
        plan, (Decision(SUBJECT, mode, reason),), tuple(_notices(machine, plan, profile, changes=changes))
    )


def mode_now(machine: NodeTopology) -> str:
    """Return who manages the memory: as reported, else by whether the NUMA nodes of GPUs have memory."""
    reported = gpu_memory_mode(machine)
    return (reported.mode if reported else None) or (NUMA if memory_of_gpus(machine) else DRIVER)


def moves_memory(machine: NodeTopology, plan: GpuMemoryPlan) -> bool:
    """Whether carrying out the plan changes the memory that the kernel has on this machine."""
    return plan.mode is not None and not plan.waits and mode_now(machine) != plan.mode


def in_mode(machine: NodeTopology, plan: GpuMemoryPlan) -> NodeTopology:
    """Return a machine, captured before or after its plan was carried out, as it is with that plan.

    Memory that a boot adds without a known size is left out.
    """
    if not moves_memory(machine, plan):
        return machine
    present = memory_of_gpus(machine)
    planned = dict.fromkeys(present, 0) if plan.mode == DRIVER else dict(plan.memory)
    nodes = tuple(
        replace(
            node,
            memory_bytes=planned[node.id],
            hugepages={size: pool.of(0) for size, pool in node.hugepages.items()},
        )
        if node.id in planned
        else node
        for node in machine.numa_nodes
    )
    removed = {
        size: sum(
            node.hugepages[size].total
            for node in machine.numa_nodes
            if node.id in planned and size in node.hugepages
        )
        for size in machine.hugepages
    }
    total = machine.memory_bytes
    if total is not None:
        total = max(0, total + sum(planned.values()) - sum(present.values()))
    return replace(
        machine,
        numa_nodes=nodes,
        memory_bytes=total,
        hugepages={size: _less(pool, removed[size]) for size, pool in machine.hugepages.items()},
        nvidia_install=machine.nvidia_install and replace(machine.nvidia_install, gpu_memory_mode=plan.mode),
    )


def _less(pool: HugepagePool, pages: int) -> HugepagePool:
    return replace(pool, total=max(0, pool.total - pages), free=max(0, pool.free - pages))


def _by_default(machine: NodeTopology) -> Literal["numa", "driver"] | None:
    branch = driver_branch(machine)
    if branch is None:
        return None
    return "driver" if branch >= FIRST_DRIVER_BY_DEFAULT else "numa"


def _notices(
    machine: NodeTopology, plan: GpuMemoryPlan, profile: NodeProfile, *, changes: bool
) -> Iterator[Notice]:
    total = format_bytes(sum(plan.memory.values()))
    nodes = f"NUMA nodes {format_cpulist(plan.memory)}"
    if plan.waits:
        yield Notice(
            "gpu-memory-waits",
            f"{SUBJECT} {plan.mode} takes a boot, and maintenance.reboot is {profile.maintenance.reboot}: "
            "this plan is for the memory as it is",
        )
    elif plan.grows:
        yield Notice(
            "gpu-memory-grows",
            "how much memory the NUMA nodes of GPUs have is not known before the boot: this plan reserves "
            "as for the memory of now and predicts no Allocatable. Plan again after the boot, which then has "
            "all of it",
        )
    elif changes:
        moves = (
            f"the boot takes {total} of GPUs' memory on {nodes} out of the node's capacity"
            if plan.mode == DRIVER
            else f"the boot brings {total} of GPUs' memory on {nodes} back into the node's capacity"
        )
        yield Notice(
            "gpu-memory-moves", f"{moves}: pods leave for it, and the kubelet's memory_manager_state goes"
        )
    if plan.mode == NUMA and not plan.waits and keeps_memory_online(machine) is False:
        yield Notice(
            "gpu-memory-offline",
            "no nvidia-persistenced runs here, and the driver leaves it to that daemon to bring the GPUs' "
            "memory online: the NUMA nodes may be empty after a boot. Enable nvidia-persistenced.service "
            "before (NG705)",
        )
    wished = bool(profile.mig.gpus) or profile.mig.mig_parted is not None  # the role mig then says it
    cut = any(gpu.mig_mode == "enabled" for gpu in machine.gpus if is_coherent(gpu))
    if plan.mode == DRIVER and cut and not wished:
        yield MIG_UNDER_DRIVER
