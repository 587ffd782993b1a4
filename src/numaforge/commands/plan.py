"""Decide what a machine gets, and say why."""

from __future__ import annotations

import click

from numaforge.commands.machine import (
    kubelet_version_option,
    machine_and_plan,
    profile_option,
    root_option,
    snapshot_or_plan_argument,
)
from numaforge.commands.options import output_option
from numaforge.report.terminal import show, show_json


@click.command()
@snapshot_or_plan_argument
@root_option
@profile_option
@kubelet_version_option
@output_option("table", "json")
def plan(
    source: str | None, root: str | None, profile: str | None, kubelet_version: str | None, output: str
) -> None:
    """Decide what a machine gets, and say why.

    With --profile, that profile's plan is made; without it, the plan that the host already has is shown. A
    PLAN file is shown as it is.
    """
    machine, decided = machine_and_plan(source, root, profile, kubelet_version)
    if decided is None:
        raise click.UsageError(f"--profile says what the node is for; ready ones: {_named_profiles()}")
    if output == "json":
        from numaforge.roles.document import to_document

        show_json(to_document(decided))
        return
    from numaforge.report.tables import plan_tables

    show(plan_tables(decided, machine))


def _named_profiles() -> str:
    from numaforge.profile import named_profiles

    return named_profiles()
