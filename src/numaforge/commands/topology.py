"""`numaforge topology`: a machine's packages, NUMA nodes, cores, memory and devices."""

from __future__ import annotations

import click

from numaforge.commands.machine import answers_of, each_named, machine_of, machines_argument, root_option
from numaforge.commands.options import output_option
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import save, show, show_answer, show_json


@click.command()
@machines_argument
@root_option
@click.option(
    "--matrix", is_flag=True, help="Show the distances between GPUs and NICs, as nvidia-smi topo -m does."
)
@click.option(
    "--ascii", "as_tree", is_flag=True, help="Show a tree of packages, caches, and devices below switches."
)
@click.option("--all", "whole", is_flag=True, help="With --ascii: also L1, L2 and other PCI devices.")
@output_option("table", "json")
def topology(
    sources: tuple[str, ...], root: str | None, matrix: bool, as_tree: bool, whole: bool, output: str
) -> int:
    """Show packages, NUMA nodes, cores, memory and devices.

    Several machines, or a folder of snapshots, make one table.

    Exit codes: 1 some cannot be read, 6 hosts are unreachable and nothing else is wrong.

    \b
    Examples:
      numaforge topology dgx-h100
      numaforge topology fleet/
    """
    if whole and not as_tree:
        raise click.UsageError("--all needs --ascii; -o json has everything")
    names = each_named(sources)
    if len(names) > 1:
        return _show_machines(names, root, matrix or as_tree, output)
    machine = machine_of(names[0] if names else None, root)
    if matrix:
        from numaforge.machine.topology.links import link_matrix
        from numaforge.report.matrix import MatrixTable, matrix_document

        links = link_matrix(machine)
        show_answer(output, lambda: matrix_document(links), lambda: MatrixTable(links))
    elif output == "json":
        from numaforge.machine.topology.document import to_document

        show_json(to_document(machine))
    elif as_tree:
        from numaforge.report.tree import machine_tree

        save(machine_tree(machine, whole=whole), None)
    else:
        from numaforge.report.tables import topology_tables

        show(topology_tables(machine))
    return ExitCode.YES


def _show_machines(names: list[str], root: str | None, single: bool, output: str) -> int:
    from numaforge.machine.topology.document import to_document
    from numaforge.report.machines import machines_table

    if root is not None or single:
        raise click.UsageError("--root, --matrix and --ascii are for one machine")
    machines = answers_of(names, lambda name: machine_of(name, None))
    documents = (to_document(machine) for _, machine in machines.read)
    show_answer(
        output,
        lambda: {"schema": 1, "machines": [*documents], "failed": machines.failed},
        lambda: machines_table(machines.read, machines.failed),
    )
    return machines.code
