"""The MIG plan of one machine's GPUs: mode, placements, the change from now, and why a GPU is refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Notice
from numaforge.machine.topology.gpu_models import is_coherent
from numaforge.machine.topology.memory_mode import DRIVER
from numaforge.machine.topology.model import Gpu, GpuInstance, NodeTopology
from numaforge.machine.topology.vendors import listed_by_nvml
from numaforge.roles.mig.devices import as_instance, nvidia_gpus
from numaforge.roles.mig.difference import NOTHING, Difference, LiveInstance, difference
from numaforge.roles.mig.geometry import Collision
from numaforge.roles.mig.models import (
    UNKNOWN,
    MigModel,
    known_model,
    mode_needs_boot,
    model_named,
    model_of,
    own_name,
)
from numaforge.roles.mig.names import parse_profile_name
from numaforge.roles.mig.request import WantedInstance, placed_instances, wanted_instances
from numaforge.roles.modules.gpu_memory import MIG_UNDER_DRIVER, mode_now

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile
    from numaforge.roles.mig.section import DeviceFilter, MigConfigEntry, MigGpus

_ON, _OFF = "enabled", "disabled"
_WAITS = "it stays as it is until the machine may reboot for it: maintenance.reboot is never"
_WAY_OUT = "end them, or let a drain do it with mig.in_use: drain"


@dataclass(frozen=True)
class GpuWish:
    """The wanted mode of one GPU, and counts or starts by profile name; `where` is the entry's place."""

    where: str
    mode: str  # "enabled", "disabled"
    counts: Mapping[str, int | str] = field(default_factory=dict)
    starts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    of_mig_parted: bool = False


class Wishes(NamedTuple):
    """The wishes by GPU index, with notices about how they were matched."""

    by_index: Mapping[int, GpuWish]
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True)
class GpuMigPlan:
    """What one GPU gets. `index` is NVML's.

    `refusal` is why the GPU cannot have it, with the `collision` where instances collide. A GPU that `waits`
    stays as it is: only a reboot changes its mode, and none is allowed.
    """

    index: int
    gpu: Gpu
    mode: str  # "enabled", "disabled"
    model: MigModel | None = None
    change: Difference = NOTHING
    notices: tuple[str, ...] = ()
    refusal: str | None = None
    collision: Collision | None = None
    waits: bool = False

    @property
    def mode_changes(self) -> bool | None:
        """Whether the MIG mode has to change; None where the present mode is unknown."""
        if self.gpu.mig_capable is False and self.mode == _OFF:
            return False
        return None if self.gpu.mig_mode is None else self.gpu.mig_mode != self.mode


@dataclass(frozen=True)
class MachineMigPlan:
    """What the GPUs of a machine get, from a `source` named `name`; no entry names those in `untouched`."""

    source: str  # "config", "profile"
    name: str
    gpus: tuple[GpuMigPlan, ...]
    untouched: tuple[int, ...]
    notices: tuple[Notice, ...]

    @property
    def fits(self) -> bool:
        """Whether each GPU can have what is wanted."""
        return not any(gpu.refusal for gpu in self.gpus)

    @property
    def is_made_by_mig_parted(self) -> bool:
        """Whether mig-parted itself, which compares names exactly, would make these instances."""
        return self.fits and not any(notice.id == "mig-parted-name" for notice in self.notices)

    @property
    def unknown(self) -> tuple[int, ...]:
        """The GPUs whose GPU instances are unknown: they are planned as empty."""
        return tuple(one.index for one in self.gpus if one.gpu.gpu_instances is None)


class _Allowed(NamedTuple):
    """What a change may do: touch GPU instances in use, reboot the machine, change GPU instances."""

    in_use: bool = False
    reboot: bool = True
    instances: bool = True


def plan_machine(topology: NodeTopology, config: str, entries: Sequence[MigConfigEntry]) -> MachineMigPlan:
    """Return what a mig-parted config gives to the GPUs of a machine; raises as `choose_by_config` does."""
    wishes = choose_by_config(nvidia_gpus(topology), config, entries)
    return _planned(topology, ("config", config), wishes, _Allowed())


def plan_profile(topology: NodeTopology, profile: NodeProfile) -> MachineMigPlan:
    """Return what the section `mig` of a profile gives to GPUs; raises as `plan_machine` does."""
    wish = profile.mig
    allowed = _Allowed(
        in_use=wish.in_use == "drain",
        reboot=profile.maintenance.reboot == "allowed",
        instances=wish.managed_by != "dra-driver",
    )
    gpus = nvidia_gpus(topology)
    if wish.mig_parted is None:
        wishes = choose_by_profile(gpus, wish.gpus)
    else:
        config = wish.config or next(iter(wish.mig_parted.mig_configs))
        wishes = choose_by_config(gpus, config, wish.mig_parted.mig_configs[config])
    return _planned(topology, ("profile", profile.name), wishes, allowed)


def _planned(
    topology: NodeTopology, source: tuple[str, str], wishes: Wishes, allowed: _Allowed
) -> MachineMigPlan:
    gpus = nvidia_gpus(topology)
    planned = tuple(
        _plan_gpu(topology, GpuMigPlan(index, gpu, wish.mode), wish, allowed)
        for index, gpu in gpus.items()
        if (wish := wishes.by_index.get(index))
    )
    untouched = tuple(index for index in gpus if index not in wishes.by_index)
    notices = (*wishes.notices, *_refused_by_mig_parted(planned, wishes))
    cut = any(plan.mode == _ON and is_coherent(plan.gpu) for plan in planned)
    if cut and mode_now(topology) == DRIVER:
        notices = (*notices, MIG_UNDER_DRIVER)
    return MachineMigPlan(*source, planned, untouched, notices)


def _refused_by_mig_parted(planned: Sequence[GpuMigPlan], wishes: Wishes) -> Iterator[Notice]:
    """Yield a notice for each profile name that mig-parted would not find on the GPUs it is meant for."""
    indices_of: dict[tuple[str, str], list[int]] = {}
    for plan in planned:
        wish = wishes.by_index[plan.index]
        has_names = plan.gpu.mig_profiles or plan.gpu.memory_bytes is not None
        if plan.model is None or plan.refusal or not (has_names and wish.of_mig_parted):
            continue
        for text in wish.counts:
            own_text = own_name(plan.model, text)
            if parse_profile_name(own_text).gigabytes != parse_profile_name(text).gigabytes:
                indices_of.setdefault((text, own_text), []).append(plan.index)
    for (text, own_text), indices in indices_of.items():
        yield Notice(
            "mig-parted-name",
            f"GPU {format_cpulist(indices)}: mig-parted finds no {text}, as it compares names exactly, and "
            f"creates no GPU instance at all; here it is taken for {own_text}",
        )


def _plan_gpu(topology: NodeTopology, plan: GpuMigPlan, wish: GpuWish, allowed: _Allowed) -> GpuMigPlan:
    gpu = plan.gpu
    try:
        _refuse_unreachable(gpu)
        if wish.mode == _OFF and gpu.mig_capable is False:
            return plan  # a GPU without MIG already satisfies a wish for MIG off
        model = _model_for(topology, gpu, wish.mode)
        plan = replace(plan, model=model)
        plan = replace(plan, notices=tuple(_notices(plan)))
        change = _change(topology, gpu, model, wish) if allowed.instances or wish.mode == _OFF else NOTHING
    except PlanError as error:
        return replace(plan, refusal=str(error))
    if isinstance(change, Collision):
        return replace(plan, refusal="its GPU instances do not fit", collision=change)
    plan = replace(plan, change=change)
    if plan.mode_changes and mode_needs_boot(gpu) and not allowed.reboot:
        return replace(plan, waits=True, notices=(*plan.notices, _WAITS))
    return replace(plan, refusal=next(_obstacles(topology, plan, allowed), None))


def _refuse_unreachable(gpu: Gpu) -> None:
    if gpu.unanswered is not None:
        raise PlanError(
            f"NVML has no answer for it: {gpu.unanswered}",
            remedy="reset the GPU or reboot the machine, and look for its Xid in the kernel's log",
        )
    if gpu.virtualization == "vgpu":
        raise PlanError("it is a vGPU", remedy="its host decides about MIG; leave it out here")
    if not listed_by_nvml(gpu):
        raise PlanError(f"the kernel driver {gpu.driver} has it", remedy="bind it to nvidia, or leave it out")


def _model_for(topology: NodeTopology, gpu: Gpu, mode: str) -> MigModel | None:
    """Return the model; None for an unknown one where MIG is turned off."""
    if mode == _OFF:
        return known_model(gpu)
    if gpu.mig_capable is False:
        raise PlanError("its driver says that it has no MIG")
    confidential = topology.nvidia and topology.nvidia.confidential_computing
    if confidential not in (None, "off"):
        raise PlanError(f"confidential computing is {confidential}, and MIG needs it off")
    return model_of(gpu)


def _change(
    topology: NodeTopology, gpu: Gpu, model: MigModel | None, wish: GpuWish
) -> Difference | Collision:
    present = tuple(_live(topology, model, one) for one in gpu.gpu_instances or () if gpu.mig_mode == _ON)
    if model is None or wish.mode == _OFF:
        return Difference(destroy=present)
    targets: tuple[WantedInstance, ...]
    targets = placed_instances(model, wish.starts) if wish.starts else wanted_instances(model, wish.counts)
    return difference(model, present, targets)


def _live(topology: NodeTopology, model: MigModel | None, live_instance: GpuInstance) -> LiveInstance:
    names = {profile.id: profile.name for profile in model.profiles} if model else {}
    instance = as_instance(
        live_instance, names.get(live_instance.profile_id, f"profile {live_instance.profile_id}")
    )
    users = _users(topology, live_instance.pids, {one.uuid for one in live_instance.compute_instances})
    return LiveInstance(**vars(instance), busy=users)


def _users(topology: NodeTopology, pids: Sequence[int], uuids: Collection[str | None]) -> str | None:
    """Return the users of a GPU or a MIG device: processes, and pods to which the kubelet gave it."""
    words = []
    owners_named = set()
    for pid in sorted(pids):
        process = topology.gpu_processes.get(pid)
        owner = process and (process.pod or process.unit or process.name)
        owners_named.add(owner)
        words.append(f"process {pid} ({owner})" if owner else f"process {pid}")
    holders = {
        one.pod
        for one in topology.device_holders or ()
        if one.present and one.device.partition("::")[0] in uuids
    }
    doubt = topology.holders_doubt
    ended = f", which may have ended (the kubelet did not say: {doubt})" if doubt else ""
    return ", ".join([*words, *(f"pod {pod}{ended}" for pod in sorted(holders - owners_named))]) or None


def _obstacles(topology: NodeTopology, plan: GpuMigPlan, allowed: _Allowed) -> Iterator[str]:
    """Yield why a change cannot be carried out on the GPU as it is, with the way out."""
    gpu = plan.gpu
    pending = gpu.mig_pending
    if pending not in (None, gpu.mig_mode, plan.mode):
        yield (
            f"its MIG mode is {gpu.mig_mode}, and {pending} after the next reset or reboot\n"
            f"  set it back: `nvidia-smi -i {gpu.pci_address} -mig {int(plan.mode == _ON)}`"
        )
    if plan.change.in_the_way and not allowed.in_use:
        blocking = "; ".join(f"{one} by {one.busy}" for one in plan.change.in_the_way)
        yield f"what would have to go is in use: {blocking}\n  {_WAY_OUT}"
    users = _users(topology, gpu.pids, {gpu.uuid})
    if plan.mode_changes and users and not allowed.in_use:
        yield f"its MIG mode has to change while it is in use by {users}\n  {_WAY_OUT}"


def mode_change(plan: GpuMigPlan) -> str:
    """Return, in words, what a change of the MIG mode needs on this GPU."""
    generation = plan.model.generation if plan.model else UNKNOWN
    if mode_needs_boot(plan.gpu):
        return f"a change of the MIG mode needs a reboot of this virtual machine ({generation})"
    if plan.model is None or plan.model.reset_for_mode:
        return f"a change of the MIG mode needs a reset of the GPU ({generation})"
    return f"the MIG mode is lost at a reboot ({generation})"


def _notices(plan: GpuMigPlan) -> Iterator[str]:
    if plan.mode_changes is None:
        yield "its MIG mode is not known: it needs the driver's answer"
    model = plan.model
    if model is None:
        return
    if plan.mode_changes if model.reset_for_mode else plan.mode == _ON:
        yield mode_change(plan)
    if model.doubt:
        yield f"not confirmed: {model.doubt}"


# ---- which GPUs the entries of a mig-parted config or of a profile name ----


def choose_by_config(gpus: Mapping[int, Gpu], config: str, entries: Sequence[MigConfigEntry]) -> Wishes:
    """Return the wishes of a mig-parted config.

    Raises PlanError for a config that matches no GPU, an index that the machine does not have, and a GPU
    named by two entries.
    """
    wishes: dict[int, GpuWish] = {}
    notices: list[Notice] = []
    for number, entry in enumerate(entries):
        where = f"mig-configs.{config}[{number}]"
        indices = gpus if entry.devices is None else _with_indices(gpus, entry.devices, f"{where}.devices")
        filters = entry.device_filter
        matched = [i for i in indices if not filters or any(_passes(gpus[i], one) for one in filters)]
        mode = "enabled" if entry.mig_enabled else "disabled"
        _add(wishes, matched, GpuWish(where, mode, entry.mig_devices or {}, of_mig_parted=True))
        notices += _entry_notices(entry, where, [gpus[index] for index in matched])
    if not wishes:
        raise PlanError(
            "matches no GPU of this machine", where=f"mig-configs.{config}", remedy=_listing(gpus)
        )
    return Wishes(wishes, tuple(notices))


def choose_by_profile(gpus: Mapping[int, Gpu], entries: Sequence[MigGpus]) -> Wishes:
    """Return the wishes of a profile's short form; raises PlanError as `choose_by_config` does."""
    wishes: dict[int, GpuWish] = {}
    for number, entry in enumerate(entries):
        where = f"mig.gpus[{number}]"
        wish = GpuWish(where, entry.mode or "enabled", entry.devices or {}, entry.placements or {})
        _add(wishes, _named_indices(gpus, entry, where), wish)
    if entries and not wishes:
        return Wishes(
            {}, (Notice("no-mig-gpu", "this machine has no NVIDIA GPU: no MIG geometry is planned"),)
        )
    return Wishes(wishes)


def _add(wishes: dict[int, GpuWish], indices: Sequence[int], wish: GpuWish) -> None:
    for index in indices:
        if index in wishes:
            raise PlanError(
                f"GPU {index} is named by {wishes[index].where} already",
                where=wish.where,
                remedy="name each GPU in one entry",
            )
        wishes[index] = wish


def _named_indices(gpus: Mapping[int, Gpu], entry: MigGpus, where: str) -> Sequence[int]:
    if entry.indices is not None:
        return _with_indices(gpus, entry.indices, f"{where}.indices")
    if entry.uuids is not None:
        return _with_uuids(gpus, entry.uuids, f"{where}.uuids")
    if entry.model is None:
        return [*gpus]
    try:
        wished_model = model_named(entry.model)
    except PlanError as error:
        raise error.at(f"{where}.model") from error
    models = {index: known_model(gpu) for index, gpu in gpus.items()}
    indices = [index for index, model in models.items() if model and model.key == wished_model.key]
    if not indices:
        raise PlanError(f"no GPU is a {wished_model.key}", where=f"{where}.model", remedy=_listing(gpus))
    return indices


def _with_indices(gpus: Mapping[int, Gpu], indices: Sequence[int], where: str) -> Sequence[int]:
    absent = [index for index in indices if index not in gpus]
    if absent:
        hint = f"its GPUs are {', '.join(map(str, gpus))}" if gpus else _listing(gpus)
        raise PlanError(f"there is no GPU {absent[0]}", where=where, remedy=hint)
    return indices


def _with_uuids(gpus: Mapping[int, Gpu], uuids: Sequence[str], where: str) -> Sequence[int]:
    by_uuid = {gpu.uuid: index for index, gpu in gpus.items() if gpu.uuid}
    absent = [uuid for uuid in uuids if uuid not in by_uuid]
    if absent:
        hint = f"its GPUs are {', '.join(by_uuid)}" if by_uuid else "the UUIDs of its GPUs are not known"
        raise PlanError(f"there is no GPU {absent[0]}", where=where, remedy=hint)
    return [by_uuid[uuid] for uuid in uuids]


def _passes(gpu: Gpu, pci_filter: DeviceFilter) -> bool:
    """Return whether a GPU has the PCI ids of a filter; unknown subsystem ids match."""
    if (gpu.vendor.lower(), gpu.device.lower()) != (pci_filter.vendor, pci_filter.device):
        return False
    vendor, _, device = (gpu.subsystem or "").lower().partition(":")
    return not pci_filter.subsystem or not gpu.subsystem or pci_filter.subsystem == device + vendor


def _entry_notices(entry: MigConfigEntry, where: str, matched: Sequence[Gpu]) -> Iterator[Notice]:
    if not matched:
        yield Notice("mig-entry-unmatched", f"{where} matches no GPU of this machine")
    elif any(one.subsystem for one in entry.device_filter) and any(not one.subsystem for one in matched):
        yield Notice(
            "mig-subsystem", f"{where}: the subsystem ids of GPUs are not known, so they are not compared"
        )


def _listing(gpus: Mapping[int, Gpu]) -> str:
    ids = ", ".join(sorted({f"{gpu.vendor}:{gpu.device}" for gpu in gpus.values()}))
    return f"its GPUs are {ids}" if ids else "it has no NVIDIA GPU"
