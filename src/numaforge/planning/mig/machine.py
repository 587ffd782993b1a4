"""What the GPUs of one machine get from a config: mode, placements, and what to know about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from numaforge.errors import PlanError
from numaforge.planning.mig.advice import Collision, explain
from numaforge.planning.mig.config import MigConfigEntry
from numaforge.planning.mig.geometry import Placement, place
from numaforge.planning.mig.models import NVIDIA, MigModel, MigProfile, model_of
from numaforge.planning.mig.request import WantedInstance, wanted_instances
from numaforge.topology.model import Gpu, NodeTopology


@dataclass(frozen=True)
class PlannedInstance:
    """A GPU instance to create, with the compute slices of each of its compute instances."""

    placement: Placement
    compute_instances: tuple[int, ...]


@dataclass(frozen=True)
class GpuMigPlan:
    """What one GPU gets. `index` counts NVIDIA's GPUs in PCI order, as mig-parted and nvidia-smi do.

    `refusal` says why it cannot have what the config says, with the `collision` where that is one.
    """

    index: int
    gpu: Gpu
    mode: str  # "enabled", "disabled"
    model: MigModel | None = None
    create: tuple[PlannedInstance, ...] = ()
    notices: tuple[str, ...] = ()
    refusal: str | None = None
    collision: Collision | None = None

    @property
    def mode_changes(self) -> bool | None:
        """Say whether the MIG mode has to change; None where the present mode is not known."""
        if self.gpu.mig_capable is False and self.mode == "disabled":
            return False
        return None if self.gpu.mig_mode is None else self.gpu.mig_mode != self.mode


@dataclass(frozen=True)
class MachineMigPlan:
    """What the GPUs of a machine get from one config. GPUs in `untouched` are named by no entry."""

    config: str
    gpus: tuple[GpuMigPlan, ...]
    untouched: tuple[int, ...]
    notices: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Say whether each GPU can have what the config says."""
        return not any(gpu.refusal for gpu in self.gpus)


def plan_machine(topology: NodeTopology, config: str, entries: Sequence[MigConfigEntry]) -> MachineMigPlan:
    """Return what a config gives to the GPUs of a machine.

    GPU instances that exist are not known: each GPU is taken as empty. Raises PlanError for a config that
    matches no GPU, for an index that the machine does not have, and for a GPU that two entries name.
    """
    gpus = nvidia_gpus(topology)
    chosen, notices = _chosen(gpus, config, entries)
    planned = tuple(_plan_gpu(index, gpus[index], entries[chosen[index]]) for index in sorted(chosen))
    untouched = tuple(index for index in range(len(gpus)) if index not in chosen)
    return MachineMigPlan(config, planned, untouched, tuple(notices))


def nvidia_gpus(topology: NodeTopology) -> tuple[Gpu, ...]:
    """Return NVIDIA's GPUs in PCI order."""
    return tuple(
        sorted((gpu for gpu in topology.gpus if gpu.vendor == NVIDIA), key=lambda gpu: gpu.pci_address)
    )


def _chosen(
    gpus: Sequence[Gpu], config: str, entries: Sequence[MigConfigEntry]
) -> tuple[dict[int, int], list[str]]:
    """Return the entry of each GPU that has one, by index, and what to know about it."""
    chosen: dict[int, int] = {}
    notices = []
    for number, entry in enumerate(entries):
        where = f"mig-configs.{config}[{number}]"
        matched = _matched(gpus, entry, where)
        for index in matched:
            if index in chosen:
                raise PlanError(
                    f"GPU {index} is named by entry {chosen[index]} already",
                    where=where,
                    remedy="name each GPU in one entry of a config",
                )
            chosen[index] = number
        if not matched:
            notices.append(f"{where} matches no GPU of this machine")
        elif any(one.subsystem for one in entry.device_filter):
            notices.append(f"{where}: the subsystem ids of GPUs are not known, so they are not compared")
    if not chosen:
        there = ", ".join(sorted({f"{gpu.vendor}:{gpu.device}" for gpu in gpus}))
        raise PlanError(
            "matches no GPU of this machine",
            where=f"mig-configs.{config}",
            remedy=f"its GPUs are {there}" if there else "it has no NVIDIA GPU",
        )
    return chosen, notices


def _matched(gpus: Sequence[Gpu], entry: MigConfigEntry, where: str) -> list[int]:
    absent = [index for index in entry.devices or () if index >= len(gpus)]
    if absent:
        last = f"write 0 to {len(gpus) - 1}" if gpus else "it has no NVIDIA GPU"
        raise PlanError(f"there is no GPU {absent[0]}", where=f"{where}.devices", remedy=last)
    ids = {(one.vendor, one.device) for one in entry.device_filter}
    return [
        index
        for index, gpu in enumerate(gpus)
        if (entry.devices is None or index in entry.devices)
        and (not ids or (gpu.vendor.lower(), gpu.device.lower()) in ids)
    ]


def _plan_gpu(index: int, gpu: Gpu, entry: MigConfigEntry) -> GpuMigPlan:
    plan = GpuMigPlan(index, gpu, "enabled" if entry.mig_enabled else "disabled")
    try:
        model = model_of(gpu)
        plan = replace(plan, model=model, notices=tuple(_notices(plan, model)))
        wanted = wanted_instances(model, entry.mig_devices or {})
    except PlanError as error:
        # A GPU without MIG is as a config wants it that turns MIG off.
        return plan if not entry.mig_enabled else replace(plan, refusal=str(error))
    if gpu.mig_capable is False and entry.mig_enabled:
        return replace(plan, refusal="its driver says that it has no MIG")
    profiles = [one.profile for one in wanted]
    placed = place(model, profiles)
    if placed is None:
        return replace(plan, refusal="its GPU instances do not fit", collision=explain(model, profiles))
    return replace(plan, create=tuple(_planned(placed, wanted)))


def _planned(placements: Sequence[Placement], wanted: Sequence[WantedInstance]) -> Iterator[PlannedInstance]:
    compute: Mapping[MigProfile, list[tuple[int, ...]]] = {one.profile: [] for one in wanted}
    for one in wanted:
        compute[one.profile].append(one.compute_instances)
    for placement in placements:
        yield PlannedInstance(placement, compute[placement.profile].pop(0))


def _notices(plan: GpuMigPlan, model: MigModel) -> Iterator[str]:
    if plan.mode_changes is None:
        yield "its MIG mode is not known: it needs the driver's answer"
    if plan.mode_changes and model.reset_for_mode:
        yield f"a change of the MIG mode needs a reset of the GPU ({model.generation})"
    if plan.mode == "enabled" and not model.reset_for_mode:
        yield f"the MIG mode is lost at a reboot ({model.generation})"
    if model.doubt:
        yield f"not confirmed: {model.doubt}"
