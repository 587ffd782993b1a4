"""Show a machine's packages, NUMA nodes, cores, memory and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numaforge.commands.machine import machine_of, root_option, snapshot_argument
from numaforge.commands.options import output_option
from numaforge.report.terminal import show, show_json

# What is not needed for `--help` is imported where it is used.
if TYPE_CHECKING:
    from numaforge.topology.model import NodeTopology


@click.command()
@snapshot_argument
@root_option
@click.option(
    "--matrix",
    is_flag=True,
    help="Show how near GPUs and NICs are to each other, as nvidia-smi topo -m does.",
)
@output_option("table", "json")
def topology(source: str | None, root: str | None, matrix: bool, output: str) -> None:
    """Show packages, NUMA nodes, cores, memory and devices."""
    machine = machine_of(source, root)
    if matrix:
        _show_matrix(machine, output)
        return
    if output == "json":
        from numaforge.topology.document import to_document

        show_json(to_document(machine))
        return
    from numaforge.report.tables import topology_tables

    show(topology_tables(machine))


def _show_matrix(machine: NodeTopology, output: str) -> None:
    from numaforge.report.matrix import MatrixTable, matrix_document
    from numaforge.topology.links import link_matrix

    links = link_matrix(machine)
    if output == "json":
        show_json(matrix_document(links))
    else:
        show(MatrixTable(links))
