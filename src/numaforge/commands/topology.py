"""Show a machine's packages, NUMA nodes, cores, memory and devices."""

from __future__ import annotations

import click

from numaforge.commands.machine import machine_of, root_option, snapshot_argument
from numaforge.commands.options import output_option
from numaforge.report.terminal import show, show_json


@click.command()
@snapshot_argument
@root_option
@output_option("table", "json")
def topology(source: str | None, root: str | None, output: str) -> None:
    """Show packages, NUMA nodes, cores, memory and devices."""
    machine = machine_of(source, root)
    if output == "json":
        from numaforge.topology.document import to_document

        show_json(to_document(machine))
        return
    from numaforge.report.tables import topology_tables

    show(topology_tables(machine))
