"""`numaforge schema`: the JSON Schema of a profile, a plan or a topology."""

import click

from numaforge.report.terminal import show_json

NAMES = ("profile", "plan", "topology")


@click.command(hidden=True)
@click.argument("name", type=click.Choice(NAMES))
def schema(name: str) -> None:
    """Print a JSON Schema, for editors and programs.

    profile: what a profile may contain. plan, topology: the output of `numaforge plan -o json` and `numaforge
    topology -o json`.
    """
    from numaforge.planning.json_schema import json_schema

    show_json(json_schema(name))
