"""What each GPU of a machine gets, by the entries of a mig-parted config or of a profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from numaforge.lib.errors import PlanError
from numaforge.lib.reasons import Notice
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.machine.topology.vendors import NVIDIA
from numaforge.roles.mig.models import known_model, model_named

if TYPE_CHECKING:
    from numaforge.roles.mig.mig_parted import DeviceFilter, MigConfigEntry
    from numaforge.roles.mig.section import MigGpus


@dataclass(frozen=True)
class GpuWish:
    """The wanted mode of one GPU, and counts or starts by profile name; `where` is the entry's place.

    `of_mig_parted`: the names come from a file that mig-parted may read, too.
    """

    where: str
    mode: str  # "enabled", "disabled"
    counts: Mapping[str, int | str] = field(default_factory=dict)
    starts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    of_mig_parted: bool = False


class Wishes(NamedTuple):
    """The wishes by GPU index, with notices about how they were matched."""

    by_index: Mapping[int, GpuWish]
    notices: tuple[Notice, ...] = ()


def nvidia_gpus(topology: NodeTopology) -> dict[int, Gpu]:
    """Return NVIDIA's GPUs by NVML's index; GPUs without one get the unused numbers, in PCI order."""
    gpus = sorted((gpu for gpu in topology.gpus if gpu.vendor == NVIDIA), key=lambda gpu: gpu.pci_address)
    indexed = {gpu.index: gpu for gpu in gpus if gpu.index is not None}
    free_numbers = (number for number in count() if number not in indexed)
    unindexed = {next(free_numbers): gpu for gpu in gpus if gpu.index is None}
    return dict(sorted({**indexed, **unindexed}.items()))


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
        notices += _notices(entry, where, [gpus[index] for index in matched])
    if not wishes:
        raise PlanError(
            "matches no GPU of this machine", where=f"mig-configs.{config}", remedy=_listing(gpus)
        )
    return Wishes(wishes, tuple(notices))


def choose_by_profile(gpus: Mapping[int, Gpu], entries: Sequence[MigGpus]) -> Wishes:
    """Return the wishes of a profile's short form.

    Raises PlanError for a GPU or a model that the machine does not have, and for a GPU named by two entries.
    """
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


def _notices(entry: MigConfigEntry, where: str, matched: Sequence[Gpu]) -> Iterator[Notice]:
    if not matched:
        yield Notice("mig-entry-unmatched", f"{where} matches no GPU of this machine")
    elif any(one.subsystem for one in entry.device_filter) and any(not one.subsystem for one in matched):
        yield Notice(
            "mig-subsystem", f"{where}: the subsystem ids of GPUs are not known, so they are not compared"
        )


def _listing(gpus: Mapping[int, Gpu]) -> str:
    ids = ", ".join(sorted({f"{gpu.vendor}:{gpu.device}" for gpu in gpus.values()}))
    return f"its GPUs are {ids}" if ids else "it has no NVIDIA GPU"
