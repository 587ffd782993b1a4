"""MIG for people and for programs: profiles of a model, geometries, what a machine's GPUs get."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from numaforge.cpulist import format_cpulist
from numaforge.errors import PlanError
from numaforge.planning.mig.advice import Collision
from numaforge.planning.mig.geometry import Placement, counted_names
from numaforge.planning.mig.machine import GpuMigPlan, MachineMigPlan, PlannedInstance
from numaforge.planning.mig.models import MigModel, MigProfile
from numaforge.report.wording import counted, gpu_label

EMPTY = "Instances that exist are not known: each GPU is planned as empty."
_SCHEMA = 1

Document = dict[str, Any]


# ---- a model ----


def profile_table(model: MigModel) -> RenderableType:
    """Return the profiles of a model, and what the model is."""
    table = _table("Profile", "Id", "Limit", "Compute", "Memory", "Starts")
    for profile in model.profiles:
        _row(
            table,
            profile.name,
            profile.id,
            profile.limit,
            profile.slices,
            profile.size,
            ",".join(map(str, profile.starts)),
        )
    return Group(_title(model), Text(""), table, *_doubt(model))


def model_document(model: MigModel) -> Document:
    """Return a model and its profiles for programs."""
    return {"schema": _SCHEMA, **asdict(model)}


# ---- a geometry ----


def geometry_text(
    model: MigModel, placed: Sequence[Placement] | None, collision: Collision | None
) -> RenderableType:
    """Return where GPU instances lie, or why they do not fit."""
    parts: list[RenderableType] = [_title(model), Text("")]
    if placed is not None:
        parts += [picture(model, placed), Text(""), _placement_table(placed)]
    if collision is not None:
        parts += _collision_lines(collision)
    return Group(*parts, *_doubt(model))


def geometry_document(
    model: MigModel, placed: Sequence[Placement] | None, collision: Collision | None
) -> Document:
    """Return a geometry, or the reason against it, for programs."""
    return {
        "schema": _SCHEMA,
        "model": model.key,
        "fits": placed is not None,
        "placements": [_placement(one) for one in placed or ()],
        "collision": _collision_document(collision),
    }


def picture(model: MigModel, placed: Sequence[Placement]) -> Text:
    """Return the memory slices of a GPU, each GPU instance as a box over those that it takes."""
    width = max([5, *(-(-(len(_short(one.profile)) + 1) // one.profile.size) for one in placed)])
    numbers = "".join(f" {number:<{width - 1}}" for number in range(model.memory_slices))
    row, position = "", 0
    for one in sorted(placed, key=lambda one: one.start):
        row += _free(one.start - position, width)
        row += f"|{_short(one.profile):<{one.profile.size * width - 1}}"
        position = one.start + one.profile.size
    row += f"{_free(model.memory_slices - position, width)}|"
    return Text(f"{numbers.rstrip()}\n{row}")


def _placement_table(placed: Iterable[Placement]) -> RenderableType:
    table = _table("Profile", "Id", "Start:size")
    for one in placed:
        _row(table, one.profile.name, one.profile.id, f"{one.start}:{one.profile.size}")
    return table


def _free(slices: int, width: int) -> str:
    return f"|{'':-<{width - 1}}" * slices


def _short(profile: MigProfile) -> str:
    return f"{profile.slices}g{profile.attributes}"


def _collision_lines(collision: Collision) -> list[RenderableType]:
    lines = [Text(f"These do not fit together: {counted_names(collision.profiles)}", "bold")]
    lines += [Text(f"  {reason}") for reason in collision.reasons]
    for title, geometries in (("With fewer", collision.fewer), ("With smaller ones", collision.swapped)):
        if geometries:
            lines.append(Text(f"{title}, this fits:"))
            lines += [Text(f"  {counted_names(geometry)}") for geometry in geometries]
    return list(lines)


def _collision_document(collision: Collision | None) -> Document | None:
    if collision is None:
        return None
    return {
        "profiles": [profile.name for profile in collision.profiles],
        "reasons": list(collision.reasons),
        "fewer": [[profile.name for profile in one] for one in collision.fewer],
        "swapped": [[profile.name for profile in one] for one in collision.swapped],
    }


def _placement(one: Placement) -> Document:
    return {
        "profile": one.profile.name,
        "profile_id": one.profile.id,
        "start": one.start,
        "size": one.profile.size,
    }


# ---- a machine ----


def plan_text(hostname: str | None, plan: MachineMigPlan) -> RenderableType:
    """Return what each GPU of a machine gets."""
    parts: list[RenderableType] = [
        Text.assemble((hostname or "this machine", "bold"), (f"  config {plan.config}", "dim")),
        Text(EMPTY),
        *(Text(notice) for notice in plan.notices),
    ]
    for alike in _alike(plan.gpus):
        parts += [Text(""), *_gpu_lines(alike)]
    if plan.untouched:
        parts += [Text(f"\nLeft as they are: GPU {format_cpulist(plan.untouched)}")]
    return Group(*parts)


def plan_document(hostname: str | None, plan: MachineMigPlan) -> Document:
    """Return what each GPU of a machine gets, for programs."""
    return {"schema": _SCHEMA, "hostname": hostname, **_machine(plan)}


def check_table(answers: Mapping[str, MachineMigPlan | PlanError]) -> RenderableType:
    """Return for each config whether it fits the machine, and why not."""
    lines: list[RenderableType] = []
    for name, answer in answers.items():
        if isinstance(answer, PlanError):
            lines += [_verdict(name, "no"), *_indented(_lines(str(answer)))]
            continue
        lines.append(_verdict(name, "fits" if answer.fits else "no", counted(len(answer.gpus), "GPU")))
        for alike in _alike(answer.gpus):
            if alike[0].refusal:
                lines += _indented(_refusal_lines(alike))
        lines += _indented(Text(notice) for notice in answer.notices)
    return Group(*lines)


def check_document(answers: Mapping[str, MachineMigPlan | PlanError]) -> Document:
    """Return for each config whether it fits the machine, for programs."""
    return {
        "schema": _SCHEMA,
        "configs": [
            {"config": name, "fits": False, "refusal": str(answer), "gpus": []}
            if isinstance(answer, PlanError)
            else {"refusal": None, **_machine(answer)}
            for name, answer in answers.items()
        ],
    }


def _machine(plan: MachineMigPlan) -> Document:
    return {
        "config": plan.config,
        "fits": plan.fits,
        "assumes_no_instances": True,
        "notices": list(plan.notices),
        "untouched": list(plan.untouched),
        "gpus": [_gpu_document(gpu) for gpu in plan.gpus],
    }


def _gpu_document(plan: GpuMigPlan) -> Document:
    return {
        "index": plan.index,
        "pci_address": plan.gpu.pci_address,
        "uuid": plan.gpu.uuid,
        "model": plan.model.key if plan.model else None,
        "mig_mode": plan.gpu.mig_mode,
        "wanted_mig_mode": plan.mode,
        "mode_changes": plan.mode_changes,
        "create": [_instance_document(one) for one in plan.create],
        "notices": list(plan.notices),
        "refusal": plan.refusal,
        "collision": _collision_document(plan.collision),
    }


def _instance_document(one: PlannedInstance) -> Document:
    return {**_placement(one.placement), "compute_instances": list(one.compute_instances)}


def _alike(plans: Iterable[GpuMigPlan]) -> Iterator[Sequence[GpuMigPlan]]:
    """Yield the GPUs that get the same for the same reason, together."""
    groups: dict[GpuMigPlan, list[GpuMigPlan]] = {}
    for plan in plans:
        gpu = replace(
            plan.gpu, pci_address="", uuid=None, numa_node=None, link=None, nvlinks=None, fabric=None
        )
        groups.setdefault(replace(plan, index=0, gpu=gpu), []).append(plan)
    yield from groups.values()


def _gpu_lines(alike: Sequence[GpuMigPlan]) -> list[RenderableType]:
    plan = alike[0]
    if plan.refusal:
        return _refusal_lines(alike)
    lines: list[RenderableType] = [
        _gpu_title(alike),
        *_indented(Text(line) for line in (f"MIG mode {_mode(plan)}", *plan.notices)),
    ]
    if plan.create and plan.model:
        placed = [one.placement for one in plan.create]
        lines += [Text(""), *_indented([picture(plan.model, placed)])]
        lines += [Text(""), *_indented([_instance_table(plan.create)])]
    return lines


def _refusal_lines(alike: Sequence[GpuMigPlan]) -> list[RenderableType]:
    plan = alike[0]
    collision = _collision_lines(plan.collision) if plan.collision else []
    return [_gpu_title(alike), *_indented([*_lines(plan.refusal or ""), *collision])]


def _lines(text: str) -> list[RenderableType]:
    return [Text(line) for line in text.splitlines()]


def _indented(lines: Iterable[RenderableType]) -> list[RenderableType]:
    return [Padding(line, (0, 0, 0, 2), expand=False) for line in lines]


def _instance_table(instances: Sequence[PlannedInstance]) -> RenderableType:
    table = _table("Create", "Id", "Start:size", "Compute instances")
    for one in instances:
        compute = " + ".join(f"{size}c" for size in one.compute_instances)
        profile = one.placement.profile
        _row(table, profile.name, profile.id, f"{one.placement.start}:{profile.size}", compute)
    return table


def _mode(plan: GpuMigPlan) -> str:
    if plan.mode_changes is None:
        return f"is to be {plan.mode}"
    return f"changes from {plan.gpu.mig_mode} to {plan.mode}" if plan.mode_changes else f"stays {plan.mode}"


def _gpu_title(alike: Sequence[GpuMigPlan]) -> Text:
    indices = format_cpulist(plan.index for plan in alike)
    return Text.assemble((f"GPU {indices}", "bold"), f"  {gpu_label(alike[0].gpu)}")


def _verdict(name: str, verdict: str, detail: str = "") -> Text:
    return Text.assemble((name, "bold"), f"  {verdict}", (f"  {detail}" if detail else "", "dim"))


def _title(model: MigModel) -> Text:
    details = (
        f"  {model.products[0]}, {model.gigabytes} GB, {model.compute_slices} compute slices, "
        f"{model.memory_slices} memory slices"
    )
    return Text.assemble((model.key, "bold"), (details, "dim"))


def _doubt(model: MigModel) -> list[RenderableType]:
    return [Text(""), Text(f"Not confirmed: {model.doubt}")] if model.doubt else []


def _table(*headers: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold underline")
    for header in headers:
        table.add_column(header, no_wrap=True)
    return table


def _row(table: Table, *cells: object) -> None:
    table.add_row(*(Text(str(cell)) for cell in cells))
