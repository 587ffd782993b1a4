"""`numaforge draw`: a machine with its reservations, as a picture."""

from pathlib import PurePath

import click

from numaforge.commands.machine import (
    Planning,
    machine_and_plan,
    planning_options,
    root_option,
    snapshot_or_plan_argument,
)
from numaforge.commands.options import path_option
from numaforge.report.terminal import save

FORMATS = ("svg", "png", "pdf")


@click.command()
@snapshot_or_plan_argument
@root_option
@planning_options
@path_option("--to", help="Where to save it, in the format of its name [default: SVG on standard output].")
@click.option("-o", "--output", type=click.Choice(FORMATS), help="The format.")
def draw(source: str | None, planning: Planning, to: str | None, output: str | None) -> None:
    """Draw a machine and its plan, as SVG, PNG or PDF.

    Shows the plan of --profile, else the one saved on the host, if any. A PLAN file alone shows NUMA nodes
    and CPUs: it does not name cores, caches and devices.
    """
    from numaforge.report.svg import check_format, in_format
    from numaforge.report.svg import draw as drawn

    extension = PurePath(to or "").suffix.lower().removeprefix(".")
    if output and extension in FORMATS and extension != output:
        raise click.UsageError(f"{to} has the suffix of {extension.upper()}, but -o says {output.upper()}")
    picture = f".{output}" if output else to
    check_format(picture)
    save(in_format(drawn(*machine_and_plan(source, planning)), picture), to)
