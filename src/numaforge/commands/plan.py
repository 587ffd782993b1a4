"""`numaforge plan`: what a machine gets, and why."""

from __future__ import annotations

import sys
from dataclasses import fields
from typing import TYPE_CHECKING

import click

from numaforge.commands.machine import (
    Planning,
    answers_of,
    each_named,
    machine_and_plan,
    machines_or_plans_argument,
    planning_options,
    root_option,
)
from numaforge.commands.options import output_option
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import screen, show, show_answer, show_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan

_ALL = "all"


@click.command()
@machines_or_plans_argument
@root_option
@planning_options
@click.option(
    "--why",
    is_flag=False,
    flag_value=_ALL,
    metavar="[SECTION]",
    help="Show the reason for each decision, or for those of one SECTION, such as cpus.",
)
@output_option("table", "json")
def plan(sources: tuple[str, ...], planning: Planning, why: str | None, output: str) -> int:
    """Plan a machine, with a reason for each decision.

    Shows the plan of --profile, or else the one saved on the host, on one screen. A PLAN file is shown as it
    is. Several machines, or a folder of snapshots, make one table.

    Exit codes: 1 some cannot be planned, 6 hosts are unreachable and nothing else is wrong.

    \b
    Examples:
      numaforge plan dgx-h100 --profile training
      numaforge plan dgx-h100 --profile training --why cpus
      numaforge plan fleet/ --profile training
    """
    from numaforge.planning.plan import NodePlan

    sections = {field.name for field in fields(NodePlan)}
    if why and not sources and why != _ALL and why.partition(".")[0] not in sections:
        sources, why = (why,), _ALL  # `plan --why dgx-h100`
    names = each_named(sources)
    if len(names) > 1:
        return _plan_all(names, planning, output)
    machine, decided = _decided(names[0] if names else None, planning)
    if output == "json":
        from numaforge.planning.document import to_document

        show_json(to_document(decided))
    elif why is None:
        from numaforge.report.plan import plan_screen

        show(plan_screen(decided, machine, screen().width if sys.stdout.isatty() else None))
    else:
        show(_reasons(decided, machine, why))
    return ExitCode.YES


def _reasons(decided: NodePlan, machine: NodeTopology, why: str) -> RenderableType:
    from numaforge.report.plan import plan_in_full, reasons, sections_of

    if why == _ALL:
        return plan_in_full(decided, machine)
    chosen = reasons(decided, why)
    if chosen is None:
        raise click.BadParameter(
            f"nothing is decided in {why!r}; this plan decides in {', '.join(sections_of(decided))}",
            param_hint="--why",
        )
    return chosen


def _decided(source: str | None, planning: Planning) -> tuple[NodeTopology, NodePlan]:
    machine, decided = machine_and_plan(source, planning)
    if decided is None:
        from numaforge.planning.profiles import named_profiles

        raise click.UsageError(f"--profile names the node's purpose; ready ones: {named_profiles()}")
    return machine, decided


def _plan_all(names: list[str], planning: Planning, output: str) -> int:
    from numaforge.planning.document import to_document
    from numaforge.report.machines import plans_table

    if planning.root is not None:
        raise click.UsageError("give either MACHINE or --root, not both")
    plans = answers_of(names, lambda name: _decided(name, planning)[1])
    show_answer(
        output,
        lambda: {"schema": 1, "plans": [to_document(plan) for _, plan in plans.read], "failed": plans.failed},
        lambda: plans_table(plans.read, plans.failed),
    )
    return plans.code
