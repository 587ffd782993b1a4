"""Which modes AMD's GPUs get; the plan is the same before and after it is carried out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from numaforge.kubelet.admission.amd_resources import LISTED, AmdPlugin, kinds_of
from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.ordering import grouped
from numaforge.lib.reasons import Decision, Notice, Reasoned
from numaforge.machine.topology.gpu_models import partitions_in
from numaforge.machine.topology.model import Gpu, GpuPartition, NodeTopology
from numaforge.machine.topology.vendors import AMD
from numaforge.roles.amd_partitions import models
from numaforge.roles.amd_partitions.config_manager import refuse_for_manager
from numaforge.roles.amd_partitions.instance import AmdGpu, AmdPartitionsPlan
from numaforge.roles.amd_partitions.models import AmdModel
from numaforge.roles.amd_partitions.section import RELEASE, AmdGpus

if TYPE_CHECKING:
    from numaforge.planning.profile import NodeProfile

_MANAGERS = {
    "numaforge": "a maintenance sets the modes, and so does a unit after each boot",
    "device-config-manager": "AMD's device config manager is handed the modes by the Node's label",
}


def plan_amd_partitions(machine: NodeTopology, profile: NodeProfile) -> Reasoned[AmdPartitionsPlan]:
    """Return the modes of each GPU that the profile names.

    The plan is the same before and after it is carried out. Raises PlanError, naming the GPUs, for modes that
    a GPU does not have, is not known to have, or cannot have beside the others'.
    """
    wish = profile.amd_partitions
    nothing = AmdPartitionsPlan((), wish.managed_by, wish.naming, wish.plugin, tuple(wish.may_stop))
    gpus = amd_gpus(machine)
    if wish.gpus and not gpus:
        notice = Notice("no-amd-gpu", "this machine has no AMD GPU: no partitions are planned")
        return Reasoned(nothing, notices=(notice,))
    chosen = _chosen(gpus, wish.gpus)
    refused = grouped((why, i) for i, entry in chosen.items() if (why := _refusal(gpus[i], entry)))
    if lines := [f"GPU {format_cpulist(indices)}: {why}" for why, indices in refused.items()]:
        raise PlanError("\n".join(lines), where="amd_partitions")
    planned = {index: _planned(gpus[index], entry) for index, entry in chosen.items()}
    _refuse_halves_of_hives(gpus, planned)
    plan = replace(nothing, gpus=tuple(planned.values()))
    if plan.managed_by == "device-config-manager":
        refuse_for_manager(plan, len(gpus))
    afterwards = partitioned(machine, plan)
    _refuse_for_plugin(afterwards, plan)
    decisions = tuple(_decisions(gpus, planned, profile))
    notices = (*_costs(chosen), *_doubts(gpus, planned), *_plugin_notices(afterwards, plan))
    return Reasoned(plan, decisions, notices)


def amd_gpus(topology: NodeTopology) -> dict[int, Gpu]:
    """Return AMD's GPUs that this host uses itself, counted from 0 in PCI order."""
    used = (gpu for gpu in topology.gpus if gpu.vendor == AMD and gpu.driver != "vfio-pci")
    return dict(enumerate(sorted(used, key=lambda gpu: gpu.pci_address)))


def plugin_of(plan: AmdPartitionsPlan) -> AmdPlugin:
    """Return the settings of AMD's device plugin in a plan; raises PlanError for an unknown release."""
    if not RELEASE.fullmatch(plan.plugin):
        raise PlanError(
            f"{plan.plugin[:40]!r} is not a release of AMD's device plugin, such as 1.31.0.10",
            where="plan.amd_partitions.plugin",
            remedy="plan the host again with this version of numaforge",
        )
    return AmdPlugin(plan.naming, tuple(map(int, plan.plugin.split("."))))


def plugin_wished(profile: NodeProfile) -> AmdPlugin:
    """Return the settings of AMD's device plugin in a profile."""
    wish = profile.amd_partitions
    return plugin_of(AmdPartitionsPlan(naming=wish.naming, plugin=wish.plugin))


def partitioned(topology: NodeTopology, plan: AmdPartitionsPlan) -> NodeTopology:
    """Return the machine with its GPUs in these modes."""
    modes_of = {one.pci_address: one for one in plan.gpus}
    gpus = (
        _with_modes(gpu, modes_of[gpu.pci_address]) if gpu.pci_address in modes_of else gpu
        for gpu in topology.gpus
    )
    return replace(topology, gpus=tuple(gpus))


def _chosen(gpus: Mapping[int, Gpu], entries: Sequence[AmdGpus]) -> dict[int, AmdGpus]:
    """Return the entry that names each GPU, by index."""
    entry_of: dict[int, tuple[str, AmdGpus]] = {}
    for number, entry in enumerate(entries):
        where = f"amd_partitions.gpus[{number}]"
        for index in _named_indices(gpus, entry, where):
            if index in entry_of:
                raise PlanError(
                    f"GPU {index} is named by {entry_of[index][0]} already",
                    where=where,
                    remedy="name each GPU in one entry",
                )
            entry_of[index] = where, entry
    return {index: entry for index, (_, entry) in sorted(entry_of.items())}


def _named_indices(gpus: Mapping[int, Gpu], entry: AmdGpus, where: str) -> Sequence[int]:
    if entry.indices is not None:
        absent = [index for index in entry.indices if index not in gpus]
        if absent:
            inventory = f"its AMD GPUs are {format_cpulist([*gpus])}"
            raise PlanError(f"there is no AMD GPU {absent[0]}", where=f"{where}.indices", remedy=inventory)
        return [int(index) for index in entry.indices]
    if entry.model is None:
        return [*gpus]
    try:
        device = models.model_named(entry.model).device
    except PlanError as error:
        raise error.at(f"{where}.model") from error
    indices = [index for index, gpu in gpus.items() if gpu.device.lower() == device]
    if not indices:
        inventory = ", ".join(sorted({f"{gpu.vendor}:{gpu.device}" for gpu in gpus.values()}))
        raise PlanError(
            f"no GPU is a {entry.model}", where=f"{where}.model", remedy=f"its GPUs are {inventory}"
        )
    return indices


def _refusal(gpu: Gpu, entry: AmdGpus) -> str | None:
    """Return why a GPU cannot have the requested modes, or is not known to; None where it can."""
    if gpu.device.lower() in models.VIRTUAL_FUNCTIONS:
        return "a virtual function: its modes are set on its host"
    cut, model = gpu.partition, _model(gpu)
    if cut is None:
        if gpu.driver != "amdgpu":
            return f"{_called(gpu, model)}: amdgpu is not its driver, so its modes are unknown"
        return f"{_called(gpu, model)}: its driver offers no partitions"
    compute, memory = entry.compute or cut.compute, entry.memory or cut.memory
    if compute is None or (cut.compute is None and memory is None):
        return f"{_called(gpu, model)}: its driver does not report its modes; set compute and memory"
    if entry.memory not in (None, cut.memory, *cut.available_memory):
        return _not_offered(gpu, model, entry.memory or "", cut.available_memory, "memory")
    changes = entry.memory not in (None, cut.memory)
    if not changes and entry.compute not in (None, cut.compute, *cut.available_compute):
        return _not_offered(gpu, model, entry.compute or "", cut.available_compute, "compute")
    if memory is None:
        return None
    return _not_together(gpu, model, cut, compute, memory)


def _called(gpu: Gpu, model: AmdModel | None) -> str:
    return model.name if model else f"{gpu.vendor}:{gpu.device}"


def _not_offered(gpu: Gpu, model: AmdModel | None, mode: str, offered: Sequence[str], kind: str) -> str:
    answer = f"offers {', '.join(offered)}" if offered else f"does not report which {kind} modes it supports"
    return f"{_called(gpu, model)} cannot be asked for {mode}: its driver {answer}"


def _not_together(
    gpu: Gpu, model: AmdModel | None, cut: GpuPartition, compute: str, memory: str
) -> str | None:
    """Return why two modes exclude each other, by driver, table or counts; None where they do not."""
    allowed = cut.memory_of.get(compute) or (model.pairs.get(compute) if model and model.pairs else None)
    source = "its driver" if compute in cut.memory_of else "Linux"
    if model and model.pairs and compute not in model.pairs and compute not in cut.available_compute:
        return f"{model.name} has {model.dies} XCDs and no {compute}: its modes are {', '.join(model.pairs)}"
    if allowed is not None and memory not in allowed:
        why = f"{source} allows {' and '.join(allowed)} with {compute}, and not {memory}"
        modes = [mode for mode, pairs in model.pairs.items() if memory in pairs] if model else []
        together = f"; {memory} goes with {' and '.join(modes)}" if modes else ""
        return f"{model.describe(compute, memory)}; {why}{together}" if model else why
    dies = model.dies if model else None
    if dies and models.memory_partitions(memory) > models.partitions(compute, dies) and model:
        return f"{model.describe(compute, memory)}; no more parts of memory than of compute go together"
    return None


def _planned(gpu: Gpu, entry: AmdGpus) -> AmdGpu:
    cut = gpu.partition
    compute = entry.compute or (cut and cut.compute) or ""
    memory = entry.memory or (cut and cut.memory) or ""
    return AmdGpu(gpu.pci_address, compute, memory, partitions_in(compute, gpu.device))


def _refuse_halves_of_hives(gpus: Mapping[int, Gpu], planned: Mapping[int, AmdGpu]) -> None:
    """Refuse memory modes that differ within a hive: the driver sets one for all its GPUs."""
    hives: dict[str, dict[int, str]] = {}
    for index, gpu in gpus.items():
        if gpu.xgmi_hive is not None:
            memory = planned[index].memory if index in planned else gpu.partition and gpu.partition.memory
            hives.setdefault(gpu.xgmi_hive, {})[index] = memory or "unknown"
    for modes in hives.values():
        if len({*modes.values()}) > 1 and {*modes} & {*planned}:
            modes_of_gpus = ", ".join(
                f"{mode} for GPU {format_cpulist(index for index in modes if modes[index] == mode)}"
                for mode in dict.fromkeys(modes.values())
            )
            raise PlanError(
                f"{modes_of_gpus}: XGMI joins these GPUs in one hive, and a memory mode is set for all of "
                "a hive",
                where="amd_partitions.gpus",
                remedy="name all of them with the same memory",
            )


def _refuse_for_plugin(machine: NodeTopology, plan: AmdPartitionsPlan) -> None:
    """Refuse what makes AMD's device plugin exit, in the plugin's own words."""
    plugin, kinds = plugin_of(plan), kinds_of([*amd_gpus(machine).values()])
    if plan.gpus and plugin.names_partitions and plan.naming == "single" and len(kinds) > 1:
        raise PlanError(
            f"{' and '.join(sorted(kinds))} on one node end AMD's device plugin: partitions of "
            "different styles across GPUs in a node is not supported with single strategy",
            where="amd_partitions.naming",
            remedy="set naming: mixed, and give the plugin -resource_naming_strategy=mixed, or the "
            "GPUs the same modes",
        )


def _decisions(
    gpus: Mapping[int, Gpu], planned: Mapping[int, AmdGpu], profile: NodeProfile
) -> Iterator[Decision]:
    choice, wish = profile.choice("amd_partitions.gpus"), profile.amd_partitions
    alike: dict[tuple[str, str], list[int]] = {}
    for index, one in planned.items():
        model = _model(gpus[index])
        is_described = model and one.compute and one.memory
        why = f"{choice}; {model.describe(one.compute, one.memory)}" if model and is_described else choice
        alike.setdefault((one.modes, why), []).append(index)
    for (modes, why), indices in alike.items():
        yield Decision(f"amd_partitions.gpu[{format_cpulist(indices)}]", modes, why)
    if planned:
        for key, answer, reason in (
            ("managed_by", wish.managed_by, _MANAGERS[wish.managed_by]),
            ("naming", wish.naming, "how AMD's device plugin runs"),
        ):
            yield Decision(f"amd_partitions.{key}", answer, profile.choice(f"amd_partitions.{key}", reason))


def _costs(chosen: Mapping[int, AmdGpus]) -> Iterator[Notice]:
    indices = [index for index, entry in chosen.items() if entry.memory]
    if indices:
        yield Notice(
            "amd-memory-mode",
            f"a change of the memory mode of GPU {format_cpulist(indices)} reloads amdgpu, and takes every "
            "AMD GPU of the machine away meanwhile, for minutes; the machine's NUMA nodes stay as they are",
        )


def _doubts(gpus: Mapping[int, Gpu], planned: Mapping[int, AmdGpu]) -> Iterator[Notice]:
    unified = [index for index in planned if (model := _model(gpus[index])) and model.unified]
    if unified:
        yield Notice(
            "amd-unified-memory",
            f"the memory of GPU {format_cpulist(unified)} is the machine's own: "
            "unknown how a change of modes affects its NUMA nodes",
        )
    untold = [
        index
        for index, one in planned.items()
        if not ((model := _model(gpus[index])) and model.pairs)
        and not ((cut := gpus[index].partition) and one.compute in cut.memory_of)
    ]
    if untold:
        yield Notice(
            "amd-modes-not-confirmed",
            f"GPU {format_cpulist(untold)}: no table has the valid pairs of modes for this model; the "
            "node asks its driver before anything changes",
        )


def _model(gpu: Gpu) -> AmdModel | None:
    return models.MODELS_BY_DEVICE.get(gpu.device.lower())


def _plugin_notices(machine: NodeTopology, plan: AmdPartitionsPlan) -> Iterator[Notice]:
    cut = {
        index: gpu
        for index, gpu in amd_gpus(machine).items()
        if gpu.partition and gpu.partition.compute not in (None, "SPX")
    }
    unlisted = [i for i, gpu in cut.items() if gpu.partition and gpu.partition.named not in (None, LISTED)]
    if unlisted:
        yield Notice(
            "amd-partitions-not-listed",
            "this kernel names partitions amdgpu_xcp.N, and AMD's device plugin looks for "
            f"amdgpu_xcp_N: of GPU {format_cpulist(unlisted)} it advertises the first partition alone "
            "(ROCm/k8s-device-plugin#157)",
        )
    placeless = [index for index, gpu in cut.items() if gpu.numa_node is None]
    if placeless and plugin_of(plan).names_partitions:
        yield Notice(
            "amd-partitions-without-node",
            f"the NUMA node of GPU {format_cpulist(placeless)} is not known (-1): AMD's device plugin "
            "drops all but the first partition of it, and publishes the node -1, near which no pod can be",
        )


def _with_modes(gpu: Gpu, modes: AmdGpu) -> Gpu:
    current = gpu.partition or GpuPartition(None, None)
    same = (modes.compute, modes.memory) == (current.compute or "", current.memory or "")
    count = current.count if same and current.count else modes.partitions
    partition_bytes = current.memory_bytes if same else None
    if partition_bytes is None and count and gpu.memory_bytes is not None:
        partition_bytes = gpu.memory_bytes // count
    changed = replace(
        current,
        compute=modes.compute or None,
        memory=modes.memory or None,
        count=count,
        memory_bytes=partition_bytes,
    )
    return replace(gpu, partition=changed)
