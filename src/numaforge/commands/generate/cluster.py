"""`numaforge generate cluster`: what schedulers and operators read about nodes."""

from __future__ import annotations

from pathlib import Path

import click

from numaforge.commands.generate import write_files
from numaforge.commands.machine import Planning, machines_argument, planning_options
from numaforge.commands.options import login_options, output_option, path_option
from numaforge.commands.served import served_nodes, systems_option
from numaforge.report.terminal import print_data, remark, show_json


@click.command()
@machines_argument
@planning_options
@systems_option
@path_option("--to", "folder", metavar="DIR", help="Write a folder per system below this folder.")
@click.option("--live", is_flag=True, help="Ask the cluster which version of PodGroup it serves (read-only).")
@login_options
@output_option("yaml", "json")
def cluster(
    sources: tuple[str, ...],
    planning: Planning,
    systems: tuple[str, ...],
    folder: str | None,
    live: bool,
    output: str,
    **login: str | None,
) -> int:
    """Write what schedulers read about nodes: a folder per system, for kubectl apply -k.

    Each file states its reason. Asks no cluster without --live, and applies nothing. Names on standard error
    what a system cannot express, such as NUMA nodes without CPUs.

    Exit codes: 1 a machine cannot be planned.

    \b
    Examples:
      numaforge generate cluster dgx-h100 --profile training --to cluster
      numaforge generate cluster fleet/ --profile training --for volcano
    """
    from numaforge.cluster.schedulers.kubectl_get import Kubectl
    from numaforge.cluster.schedulers.systems import generate

    nodes, code = served_nodes(sources, planning)
    if not nodes:
        return code
    uses_cluster = live or any(login.values())
    folders = generate(nodes, systems, Kubectl(**login).gang_version() if uses_cluster else None)
    for written in folders:
        if written.nothing:
            remark(f"{written.name}: nothing to write: {written.nothing}")
        for node, why in written.left_out.items():
            remark(f"{written.name}: {node} is incomplete: {why}")
    if folder is not None:
        for written in (one for one in folders if one.files):
            below = Path(folder, written.name)
            write_files(below, dict(written.texts()))
            remark(f"wrote {below}: {written.why}")
    elif output == "json":
        show_json({"schema": 1, "systems": {written.name: dict(written.texts()) for written in folders}})
    else:
        for written in folders:
            for name, text in written.texts():
                print_data(f"---\n# {written.name}/{name}\n{text.rstrip()}\n")
    return code
