"""The parts of a GPU, for tables and pictures: AMD's partitions with their memory, MIG's instances."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import lcm
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from numaforge.lib.quantity import counted
from numaforge.machine.topology.gpu_models import partitions_of
from numaforge.machine.topology.model import Gpu, NodeTopology
from numaforge.planning.as_planned import machine_as_planned
from numaforge.planning.plan import NodePlan
from numaforge.report.columns import assembled, indented
from numaforge.report.wording import human_bytes
from numaforge.roles.amd_partitions.instance import AmdPartitionsPlan
from numaforge.roles.amd_partitions.models import MEMORY_MODES, memory_partitions
from numaforge.roles.amd_partitions.plan import partitioned
from numaforge.roles.mig.devices import as_instance
from numaforge.roles.mig.instance import MigInstance
from numaforge.roles.mig.models import known_model

MOST_UNITS = 64  # no GPU is cut into more
_PICTURE_WIDTH = 48  # characters that a whole GPU takes


class GpuPart(NamedTuple):
    """A part of a GPU: its start and size, in the units of its row."""

    start: int
    size: int
    label: str
    title: str = ""


class PartRow(NamedTuple):
    """Parts side by side. `kind` is "compute", "memory" or "instance"."""

    kind: str
    parts: tuple[GpuPart, ...]


class GpuParts(NamedTuple):
    """How a GPU is cut: `modes` CPX NPS4 or MIG, `words` "8 partitions of 24 GiB", `short` "8 x 24 GiB"."""

    modes: str
    words: str
    short: str
    units: int
    rows: tuple[PartRow, ...]


def parts_of(gpu: Gpu) -> GpuParts | None:
    """Return how a GPU is cut; None where it has no parts, or where they are not known."""
    if (cut := gpu.partition) is not None:
        count = partitions_of(gpu)
        return partition_parts(cut.compute or "", cut.memory, count, gpu.memory_bytes, cut.memory_bytes)
    model, instances = known_model(gpu), instances_in(gpu)
    if model is None or not instances or not within(model.memory_slices, instances):
        return None
    parts = instance_parts(instances)
    counts = Counter(one.profile for one in sorted(instances, key=lambda one: one.start))
    words, rows = ", ".join(f"{count} x {name}" for name, count in counts.items()), PartRow("instance", parts)
    return GpuParts("MIG", words, counted(len(parts), "instance"), model.memory_slices, (rows,))


def instances_in(gpu: Gpu | None) -> list[MigInstance]:
    """Return the GPU instances of a GPU in MIG mode, with the names of their profiles where known."""
    if gpu is None or gpu.mig_mode != "enabled":
        return []
    model = known_model(gpu)
    names = {profile.id: profile.name for profile in model.profiles} if model else {}
    instances = gpu.gpu_instances or ()
    return [as_instance(one, names.get(one.profile_id, f"id {one.profile_id}")) for one in instances]


def within(units: int, instances: Iterable[MigInstance]) -> bool:
    """Whether GPU instances fit a GPU with `units` memory slices."""
    return all(0 <= one.start < one.start + one.size <= units for one in instances)


def instance_parts(instances: Iterable[MigInstance]) -> tuple[GpuPart, ...]:
    """Return GPU instances as parts; their position shows the memory, so names omit it: `1g+me`."""
    return tuple(
        GpuPart(one.start, one.size, re.sub(r"\.[0-9]+gb", "", one.profile), str(one))
        for one in sorted(instances, key=lambda one: one.start)
    )


def gpus_planned(machine: NodeTopology, plan: NodePlan) -> dict[str, Gpu]:
    """Return a machine's GPUs as planned, by PCI address."""
    return {gpu.pci_address: gpu for gpu in machine_as_planned(machine, plan).gpus}


def row_text(units: int, parts: Iterable[GpuPart], width: int) -> str:
    """Return each part as a box, `width` characters a unit: `|1g  |1g  |----|`; dashes are free."""
    row, position = "", 0
    for part in parts:
        row += _free(part.start - position, width)
        row += f"|{part.label:<{part.size * width - 1}}"
        position = part.start + part.size
    return f"{row}{_free(units - position, width)}|"


def unit_width(rows: Iterable[Sequence[GpuPart]], least: int) -> int:
    """Return how many characters a unit takes so that every label fits into its part."""
    return max([least, *(-(-(len(part.label) + 1) // part.size) for parts in rows for part in parts)])


def before_and_after(
    addresses: Sequence[str], title: str, current: str, planned: str, nothing: str
) -> Iterator[RenderableType]:
    """Yield the change of identical GPUs: a title, and both pictures where they differ, or `nothing`."""
    yield assembled((", ".join(addresses), "bold"), f"  {title}")
    lines = [planned] if planned else []
    if current and current != planned:
        lines = ["before", current, "after", planned or nothing]
    yield from indented(map(Text, lines))


def partitions_section(plan: AmdPartitionsPlan, machine: NodeTopology | None) -> RenderableType:
    """Return the planned partitions of AMD's GPUs, with the current ones, if known, where they differ."""
    live_gpus = {gpu.pci_address: gpu for gpu in machine.gpus} if machine else {}
    planned = {gpu.pci_address: gpu for gpu in partitioned(machine, plan).gpus} if machine else {}
    alike: dict[tuple[str, str, str], list[str]] = {}
    for one in plan.gpus:
        address = one.pci_address
        current = parts_of(live_gpus[address]) if address in live_gpus else None
        target = parts_of(planned[address]) if address in planned else None
        target = target or partition_parts(one.compute, one.memory, one.partitions, None)
        title = f"{one.modes}: {target.words}" if target else one.modes
        alike.setdefault((title, _rows_text(current), _rows_text(target)), []).append(address)
    lines = (before_and_after(gpus, *key, nothing="not known") for key, gpus in alike.items())
    return Group(*chain.from_iterable(lines))


def _rows_text(parts: GpuParts | None) -> str:
    if parts is None:
        return ""
    width = max(unit_width([row.parts for row in parts.rows], 0), _PICTURE_WIDTH // parts.units)
    return "\n".join(f"{row.kind:<8}{row_text(parts.units, row.parts, width)}" for row in parts.rows)


def _free(units: int, width: int) -> str:
    return f"|{'':-<{width - 1}}" * units


def partition_parts(
    compute: str, memory: str | None, count: int | None, gpu_bytes: int | None, each_bytes: int | None = None
) -> GpuParts | None:
    """Return an AMD GPU's parts in two modes, if known; `each_bytes` is a partition's memory, if reported."""
    if not compute or count is None or not 1 <= count <= MOST_UNITS or (memory or "NPS1") not in MEMORY_MODES:
        return None
    regions = memory_partitions(memory or "NPS1")
    units = lcm(count, regions)
    size = _size(each_bytes or (gpu_bytes and gpu_bytes // count))
    region = _size(gpu_bytes and gpu_bytes // regions)
    words, short = counted(count, "partition") + (f" of {size}" if size else ""), f"{count} x {size}"
    if count == 1:
        words = short = "whole"
    words += f", memory in {regions} parts of {region}" if regions not in (1, count) and region else ""
    rows = (
        PartRow("compute", _even(count, units, list(map(str, range(count))), "partition", size)),
        PartRow("memory", _even(regions, units, [region] * regions, "part of the memory", region)),
    )
    return GpuParts(" ".join(filter(None, (compute, memory))), words, short, units, rows)


def _size(size_bytes: int | None) -> str:
    return human_bytes(size_bytes) if size_bytes else ""


def _even(count: int, units: int, labels: Sequence[str], noun: str, size: str) -> tuple[GpuPart, ...]:
    share = units // count
    return tuple(
        GpuPart(index * share, share, label, f"{noun} {index}" + (f", {size}" if size else ""))
        for index, label in enumerate(labels)
    )
