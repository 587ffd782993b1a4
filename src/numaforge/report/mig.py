"""MIG for people and for programs: profiles of a model, geometries, what a machine's GPUs get."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from numaforge.lib.cpulist import format_cpulist
from numaforge.lib.errors import PlanError
from numaforge.lib.quantity import counted
from numaforge.machine.topology.model import NodeTopology
from numaforge.report.columns import assembled, columns, filled, indented, text_line
from numaforge.report.machine_wording import gpu_label
from numaforge.report.slices import (
    MOST_UNITS,
    before_and_after,
    instance_parts,
    instances_in,
    row_text,
    unit_width,
    within,
)
from numaforge.roles.mig.geometry import Collision, counted_names
from numaforge.roles.mig.instance import MigInstance, MigPlan
from numaforge.roles.mig.machine import GpuMigPlan, MachineMigPlan
from numaforge.roles.mig.models import MigModel, known_model

_SCHEMA = 1

Document = dict[str, Any]


# ---- a model ----


def profile_table(model: MigModel) -> RenderableType:
    rows = (
        (one.name, one.id, one.limit, one.slices, one.size, ",".join(map(str, one.starts)))
        for one in model.profiles
    )
    table = filled(columns("Profile", "Id", "Limit", "Compute", "Memory", "Starts"), rows)
    return Group(_title(model), text_line(""), table, *_doubt(model))


def model_document(model: MigModel) -> Document:
    """Return a model and its profiles for programs."""
    profiles = [
        {"name": profile.name, **asdict(profile), "media": profile.ofas > 0} for profile in model.profiles
    ]
    return {"schema": _SCHEMA, **asdict(model), "profiles": profiles}


# ---- a geometry ----


def geometry_text(
    model: MigModel, placed: Sequence[MigInstance] | None, collision: Collision | None
) -> RenderableType:
    """Return where GPU instances lie, or why they do not fit."""
    parts: list[RenderableType] = [_title(model), text_line("")]
    if placed is not None:
        rows = ((one.profile, one.profile_id, f"{one.start}:{one.size}") for one in placed)
        table = filled(columns("Profile", "Id", "Start:size"), rows)
        parts += [picture(model.memory_slices, placed), text_line(""), table]
    if collision is not None:
        parts += _collision_lines(collision)
    return Group(*parts, *_doubt(model))


def geometry_document(
    model: MigModel, placed: Sequence[MigInstance] | None, collision: Collision | None
) -> Document:
    """Return a geometry, or the reason against it, for programs."""
    return {
        "schema": _SCHEMA,
        "model": model.key,
        "fits": placed is not None,
        "placements": [_placement(one) for one in placed or ()],
        "collision": _collision_document(collision),
    }


def picture(memory_slices: int, instances: Iterable[MigInstance]) -> Text:
    """Return a GPU's memory slices with its instances as boxes; a list where these lie beyond."""
    parts = instance_parts(boxes := list(instances))
    if not within(MOST_UNITS, boxes):
        return text_line(", ".join(map(str, sorted(boxes, key=lambda box: box.start))))
    width = unit_width([parts], 5)
    numbers = "".join(f" {number:<{width - 1}}" for number in range(memory_slices))
    return Text(f"{numbers.rstrip()}\n{row_text(memory_slices, parts, width)}")


def _collision_lines(collision: Collision) -> list[RenderableType]:
    lines = [f"  {reason}" for reason in collision.reasons]
    for title, geometries in (("With fewer", collision.fewer), ("With smaller ones", collision.swapped)):
        lines += [f"{title}, this fits:"] if geometries else []
        lines += [f"  {counted_names(geometry)}" for geometry in geometries]
    heading = f"These do not fit together: {counted_names(collision.profiles)}"
    return [text_line(heading, "bold"), *map(text_line, lines)]


def _collision_document(collision: Collision | None) -> Document | None:
    if collision is None:
        return None
    return {
        "profiles": [profile.name for profile in collision.profiles],
        "reasons": list(collision.reasons),
        "fewer": [[profile.name for profile in one] for one in collision.fewer],
        "swapped": [[profile.name for profile in one] for one in collision.swapped],
    }


def _placement(one: MigInstance) -> Document:
    return {"profile": one.profile, "profile_id": one.profile_id, "start": one.start, "size": one.size}


# ---- a plan ----


def geometry_section(plan: MigPlan, machine: NodeTopology | None) -> RenderableType:
    """Return the planned geometry of each GPU, with the current one where it differs."""
    live_gpus = {gpu.pci_address: gpu for gpu in machine.gpus} if machine else {}
    models = {}
    for one in (
        plan.gpus
    ):  # without the machine, the names of its profiles, which contain their memory, tell a model
        gpu = live_gpus.get(one.pci_address)
        profiles = sorted({instance.profile for instance in one.instances})
        models[one.pci_address] = gpu_label(gpu) if gpu else " and ".join(profiles)
    several = len(set(models.values())) > 1
    alike: dict[tuple[str, str, str], list[str]] = {}
    for one in plan.gpus:
        current, planned = instances_in(live_gpus.get(one.pci_address)), one.instances
        slices = max([box.start + box.size for box in (*current, *planned)], default=0)
        if one.pci_address in live_gpus and (model := known_model(live_gpus[one.pci_address])):
            slices = model.memory_slices
        pictures = ["" if not boxes else picture(slices, boxes).plain for boxes in (current, planned)]
        model_note = f", {models[one.pci_address]}" if several and models[one.pci_address] else ""
        title = f"MIG {one.mode}{model_note}"
        alike.setdefault((title, pictures[0], pictures[1]), []).append(one.pci_address)
    lines = (
        before_and_after(addresses, *key, nothing="no GPU instances") for key, addresses in alike.items()
    )
    return Group(*chain.from_iterable(lines))


# ---- a machine ----


def plan_text(hostname: str | None, plan: MachineMigPlan) -> RenderableType:
    parts: list[RenderableType] = [
        assembled((hostname or "this machine", "bold"), (f"  {plan.source} {plan.name}", "dim")),
        *(text_line(notice.message) for notice in plan.notices),
    ]
    for alike in _alike(plan.gpus):
        parts += [text_line(""), *_gpu_lines(alike)]
    if plan.untouched:
        parts += [text_line(""), text_line(f"Left as they are: GPU {format_cpulist(plan.untouched)}")]
    return Group(*parts)


def plan_document(hostname: str | None, plan: MachineMigPlan) -> Document:
    """Return what each GPU of a machine gets, for programs."""
    return {"schema": _SCHEMA, "hostname": hostname, **_machine_document(plan)}


_UNNAMED = "no entry names them, so mig-parted finds the config not applied, and applies it at each start"


def check_table(answers: Mapping[str, MachineMigPlan | PlanError]) -> RenderableType:
    """Return for each config whether it fits the machine, and why not."""
    lines: list[RenderableType] = []
    for name, answer in answers.items():
        if isinstance(answer, PlanError):
            lines += [assembled((name, "bold"), "  no"), *indented(map(text_line, str(answer).splitlines()))]
            continue
        verdict, count = "fits" if answer.is_made_by_mig_parted else "no", counted(len(answer.gpus), "GPU")
        lines.append(assembled((name, "bold"), f"  {verdict}", (f"  {count}", "dim")))
        for alike in _alike(answer.gpus):
            if alike[0].refusal:
                lines += indented(_refusal_lines(alike))
        notes = [notice.message for notice in answer.notices]
        notes += [f"GPUs {format_cpulist(answer.untouched)}: {_UNNAMED}"] if answer.untouched else []
        lines += indented(map(text_line, notes))
    return Group(*lines)


def check_document(answers: Mapping[str, MachineMigPlan | PlanError]) -> Document:
    """Return for each config whether it fits the machine, for programs."""
    return {
        "schema": _SCHEMA,
        "configs": [
            {"config": name, "fits": False, "refusal": str(answer), "gpus": []}
            if isinstance(answer, PlanError)
            else {"refusal": None, **_machine_document(answer), "fits": answer.is_made_by_mig_parted}
            for name, answer in answers.items()
        ],
    }


def _machine_document(plan: MachineMigPlan) -> Document:
    return {
        plan.source: plan.name,
        "fits": plan.fits,
        "assumes_no_instances": bool(plan.unknown),
        "notices": [notice.message for notice in plan.notices],
        "untouched": list(plan.untouched),
        "gpus": [_gpu_document(gpu) for gpu in plan.gpus],
    }


def _gpu_document(plan: GpuMigPlan) -> Document:
    change = plan.change
    live = {
        name: [{**_instance_document(one), "used_by": one.busy} for one in instances]
        for name, instances in (("keep", change.keep), ("destroy", change.destroy), ("recut", change.recut))
    }
    return {
        "index": plan.index,
        "pci_address": plan.gpu.pci_address,
        "uuid": plan.gpu.uuid,
        "model": plan.model.key if plan.model else None,
        "mig_mode": plan.gpu.mig_mode,
        "wanted_mig_mode": plan.mode,
        "mode_changes": plan.mode_changes,
        **live,
        "create": [_instance_document(one) for one in change.create],
        "instances": [_instance_document(one) for one in change.instances],
        "notices": list(plan.notices),
        "waits": plan.waits,
        "refusal": plan.refusal,
        "collision": _collision_document(plan.collision),
    }


def _instance_document(one: MigInstance) -> Document:
    compute = None if 0 in one.compute_instances else list(one.compute_instances)
    return {**_placement(one), "compute_instances": compute}


def _alike(plans: Iterable[GpuMigPlan]) -> Iterator[Sequence[GpuMigPlan]]:
    """Yield groups of GPUs that get the same for the same reason."""
    groups: dict[tuple[Any, ...], list[GpuMigPlan]] = {}
    for plan in plans:
        gpu = plan.gpu
        state = (gpu_label(gpu), gpu.mig_mode, plan.mode_changes, gpu.gpu_instances is None)
        change = (plan.mode, plan.model, plan.change, plan.notices, plan.refusal, plan.collision)
        groups.setdefault((*state, *change), []).append(plan)
    yield from groups.values()


def _gpu_lines(alike: Sequence[GpuMigPlan]) -> list[RenderableType]:
    plan = alike[0]
    if plan.refusal:
        return _refusal_lines(alike)
    mode = f"changes from {plan.gpu.mig_mode} to" if plan.mode_changes else "stays"
    mode = f"MIG mode {'is to be' if plan.mode_changes is None else mode} {plan.mode}"
    unknown = ["its GPU instances are not known: planned as empty"] if plan.gpu.gpu_instances is None else []
    lines: list[RenderableType] = [
        _gpu_title(alike),
        *indented(map(text_line, (mode, *plan.notices, *unknown))),
    ]
    for shown in _before_and_after(plan, plan.model) if plan.model else ():
        lines += [text_line(""), *indented(shown)]
    if plan.change.instances or plan.change.destroy:
        lines += [text_line(""), *indented([_change_table(plan)])]
    return lines


def _before_and_after(plan: GpuMigPlan, model: MigModel) -> Iterator[Sequence[RenderableType]]:
    """Yield the current geometry where it differs, and the wanted one."""
    current, planned = (*plan.change.keep, *plan.change.destroy), plan.change.instances
    if current and {one.place for one in current} != {one.place for one in planned}:
        yield text_line("before"), picture(model.memory_slices, current)
        yield text_line("after"), picture(model.memory_slices, planned)
    elif planned:
        yield (picture(model.memory_slices, planned),)


def _refusal_lines(alike: Sequence[GpuMigPlan]) -> list[RenderableType]:
    plan = alike[0]
    collision = _collision_lines(plan.collision) if plan.collision else []
    return [_gpu_title(alike), *indented([*map(text_line, (plan.refusal or "").splitlines()), *collision])]


def _change_table(plan: GpuMigPlan) -> RenderableType:
    change = plan.change
    kept_at = {one.place: one for one in change.keep}
    rows = [("destroy", *_cells(instance), instance.busy) for instance in change.destroy]
    for one in change.instances:
        live = kept_at.get(one.place)
        verb = "create" if live is None else "recut" if live in change.recut else "keep"
        rows.append((verb, *_cells(one), live.busy if live else None))
    headers = ("Change", "Profile", "Id", "Start:size", "Compute instances", "Used by")
    end = None if any(busy for *_, busy in rows) else -1  # a column without any value is left out
    return filled(columns(*headers[:end]), ((*cells, busy or "")[:end] for *cells, busy in rows))


def _cells(one: MigInstance) -> tuple[object, ...]:
    compute = "" if 0 in one.compute_instances else " + ".join(f"{size}c" for size in one.compute_instances)
    return one.profile, one.profile_id, f"{one.start}:{one.size}", compute


def _gpu_title(alike: Sequence[GpuMigPlan]) -> Text:
    indices = format_cpulist(plan.index for plan in alike)
    return assembled((f"GPU {indices}", "bold"), f"  {gpu_label(alike[0].gpu)}")


def _title(model: MigModel) -> Text:
    details = (
        f"  {model.products[0]}, {model.gigabytes} GB, {model.compute_slices} compute slices, "
        f"{model.memory_slices} memory slices"
    )
    return assembled((model.key, "bold"), (details, "dim"))


def _doubt(model: MigModel) -> list[RenderableType]:
    return [text_line(""), text_line(f"Not confirmed: {model.doubt}")] if model.doubt else []
