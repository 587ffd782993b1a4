"""`numaforge cluster`: what schedulers and operators read about nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from numaforge.commands.cluster_explain import explain
from numaforge.commands.machine import Planning, machines_argument, planning_options
from numaforge.commands.options import login_options, output_option
from numaforge.commands.served import DRA, SYSTEMS, served_nodes, systems_option
from numaforge.lib.errors import ExitCode
from numaforge.report.terminal import echo, echo_lines, remark, show_json

if TYPE_CHECKING:
    from numaforge.cluster.schedulers.live import Deviation
    from numaforge.cluster.schedulers.systems import Folder


@click.group()
def cluster() -> None:
    """Show where pods would go; verify a cluster's objects."""


@cluster.command()
@machines_argument
@planning_options
@systems_option
@login_options
@output_option("table", "json")
def verify(
    sources: tuple[str, ...], planning: Planning, systems: tuple[str, ...], output: str, **login: str | None
) -> int:
    """Compare a cluster's live objects with the plans of these nodes, and name the writer of each difference.

    Read-only. Compares ResourceSlices, which drivers write, with the topology; skips systems whose objects
    the API server does not serve.

    Exit codes: 0 all is as planned, 1 something differs or is missing.

    \b
    Example:
      numaforge cluster verify fleet/ --profile training --for volcano
    """
    from dataclasses import asdict

    from numaforge.cluster.schedulers.kubectl_get import Kubectl
    from numaforge.cluster.schedulers.slices import slice_deviations
    from numaforge.cluster.schedulers.systems import generate as generated
    from numaforge.lib.quantity import counted

    nodes, code = served_nodes(sources, planning)
    if not nodes:
        return code
    deviations_of, passed_over, count_compared = {}, dict[str, list[str]](), 0
    for folder in generated(nodes, systems):
        deviations_of[folder.name], count, unserved = _deviations(folder, login)
        count_compared += count
        if unserved:
            passed_over[folder.name] = unserved
    if DRA in (systems or SYSTEMS):
        slices = Kubectl(**login).resource_slices()
        if slices is None and any(node.plan.dra for node in nodes):
            passed_over.setdefault(DRA, []).append("resource.k8s.io ResourceSlice")
        names = {node.name for node in nodes}
        count_compared += sum((one.get("spec") or {}).get("nodeName") in names for one in slices or ())
        if slices is not None:
            deviations_of.setdefault(DRA, []).extend(slice_deviations(nodes, slices))
    wrong = any(deviations_of.values())
    if output == "json":
        documents = {name: [asdict(one) for one in several] for name, several in deviations_of.items()}
        counts = {"schema": 1, "objects": count_compared}
        show_json({**counts, "deviations": documents, "not_served": passed_over})
    else:
        for name, kinds in passed_over.items():
            remark(f"{name}: the cluster does not serve {', '.join(kinds)}")
        echo_lines(f"{name}: {one}" for name, several in deviations_of.items() for one in several)
        how = "see above" if wrong else "as planned"
        echo(f"{counted(count_compared, 'object')} compared with {counted(len(nodes), 'plan')}: {how}")
    return ExitCode.NO if wrong else code


def _deviations(folder: Folder, login: Mapping[str, str | None]) -> tuple[list[Deviation], int, list[str]]:
    """Return the deviations of a system's live objects, the number compared, and the kinds not served."""
    from numaforge.cluster.schedulers.kubectl_get import Kubectl, identity
    from numaforge.cluster.schedulers.live import deviations

    if folder.nothing:
        remark(f"{folder.name}: nothing to compare a cluster with: {folder.nothing}")
    live, unserved = Kubectl(**login).live_objects(folder.compared())
    documents = folder.held_where_served(unserved)
    unlike = [
        one
        for document in documents
        for one in deviations(document, folder.completed(live.get(identity(document))))
    ]
    return unlike, len(documents), [" ".join(kind) for kind in unserved]


cluster.add_command(explain)
