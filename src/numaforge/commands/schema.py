"""Print a JSON Schema: what a profile may say, what a plan or a topology holds."""

from __future__ import annotations

import click

from numaforge.report.terminal import show_json

NAMES = ("profile", "plan", "topology")


@click.command()
@click.argument("name", type=click.Choice(NAMES))
def schema(name: str) -> None:
    """Print a JSON Schema, for editors and for programs.

    profile: what a profile may say. plan, topology: what `numaforge plan -o json` and `numaforge topology -o
    json` print.
    """
    from numaforge.planning.json_schema import json_schema

    show_json(json_schema(name))
