"""`numaforge diff`: what differs between two machines, or between two plans."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numaforge.commands.machine import (
    Planning,
    is_image_root,
    plan_of,
    plan_or_machine,
    plan_with,
    planning_options,
)
from numaforge.commands.options import output_option
from numaforge.lib.errors import ExitCode
from numaforge.lib.mistakes import yaml_scalar
from numaforge.lib.quantity import counted
from numaforge.report.terminal import show, show_json

if TYPE_CHECKING:
    from numaforge.report.difference import Unlike


@click.command()
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@planning_options
@click.option(
    "--identifiers", is_flag=True, help="Also show names, UUIDs and processes, which always differ."
)
@output_option("table", "json")
def diff(left: str, right: str, planning: Planning, identifiers: bool, output: str) -> int:
    """Compare two machines or plans.

    Shows what differs between A and B.

    Each is a MACHINE (a file, a folder, a ready machine, a host) or a PLAN file. Also compares the plans that
    --profile gives to both, else those that both carry. B may be the root of an image: compares the plan of A
    with the one that A would make with that image. Leaves out names, UUIDs and processes.

    Exit codes: 0 no difference, 1 a difference.
    """
    from numaforge.report.difference import differences

    if is_image_root(right):
        documents = _now_and_with_image(left, right, planning)
    else:
        documents = [_comparable(source, planning) for source in (left, right)]
    kinds = [kind for kind in documents[0] if kind in documents[1]]
    if not kinds:
        raise click.UsageError("a plan alone and a machine without one cannot be compared: give --profile")
    unlike = {
        kind: differences(*(document[kind] for document in documents), names_of_host=identifiers)
        for kind in kinds
    }
    if output == "json":
        show_json(
            {"schema": 1, "differences": {kind: [one._asdict() for one in unlike[kind]] for kind in kinds}}
        )
    else:
        short = Path(left).name, Path(right).name  # names of files, without folders where these differ
        for kind in kinds:
            _show_differences(kind, unlike[kind], short if short[0] != short[1] else (left, right))
    return ExitCode.NO if any(unlike.values()) else ExitCode.YES


def _now_and_with_image(source: str, image: str, planning: Planning) -> list[dict[str, Any]]:
    """Return a machine's current plan, and the one that it would make with an image."""
    from numaforge.planning.document import to_document
    from numaforge.planning.plan import NodePlan

    machine = plan_or_machine(source)
    if isinstance(machine, NodePlan) or not (planned := plan_of(machine, Planning(planning.profile))):
        raise click.UsageError(f"{source} is not a machine with a plan: give --profile")
    with_image = plan_with(machine, image, planning.kubelet_version)
    return [{"plan": to_document(plan)} for plan in (planned, with_image)]


def _comparable(source: str, planning: Planning) -> dict[str, Any]:
    """Return the comparable documents of a source by kind: its machine, its plan."""
    from numaforge.machine.topology.document import to_document as topology_document
    from numaforge.planning.document import to_document as plan_document
    from numaforge.planning.plan import NodePlan

    saved = plan_or_machine(source)
    if isinstance(saved, NodePlan):
        return {"plan": plan_document(saved)}
    plan, machine = plan_of(saved, planning), {"machine": topology_document(saved)}
    return machine if plan is None else {**machine, "plan": plan_document(plan)}


def _show_differences(kind: str, unlike: list[Unlike], names: tuple[str, str]) -> None:
    from rich.text import Text

    from numaforge.report.columns import add_row, columns

    if not unlike:
        show(Text(f"{kind}: no difference"))
        return
    headers = (kind, *names)
    table = columns(*headers, folds=headers)
    for (path, _), alike in groupby(unlike, key=_entry_of_one_side):
        group = list(alike)
        if path is None or len(group) == 1:
            for one in group:
                add_row(table, one.path, _value(one.left), _value(one.right))
        else:
            sides = [
                counted(sum(side is not None for side in sides_of_entries), "entry", "entries")
                for sides_of_entries in ([one.left for one in group], [one.right for one in group])
            ]
            add_row(table, f"{path}[]", *sides)
    show(table)


def _entry_of_one_side(one: Unlike) -> tuple[str | None, bool]:
    """Return the list of an entry that one side lacks, and whether the left does; these are only counted."""
    if isinstance(one.right if one.left is None else one.left, dict) and None in (one.left, one.right):
        return one.path.rpartition("[")[0], one.left is None
    return None, False


def _value(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value if len(value.splitlines()) <= 1 else f"{len(value.splitlines())} lines"
    if isinstance(value, dict | list):
        return f"{len(value)} entries" if value else "none"
    return yaml_scalar(value)
