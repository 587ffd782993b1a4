"""The machine that a command looks at: this one, or what a snapshot, a topology or a plan says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from numaforge.errors import NumaforgeError, TopologyError

# What is not needed for `--help` is imported where it is used.
if TYPE_CHECKING:
    from numaforge.planning.model import NodePlan
    from numaforge.snapshot import Snapshot
    from numaforge.topology.model import NodeTopology

snapshot_argument = click.argument("source", metavar="[SNAPSHOT]", required=False, type=click.Path())
snapshot_or_plan_argument = click.argument(
    "source", metavar="[SNAPSHOT|PLAN]", required=False, type=click.Path()
)
root_option = click.option(
    "--root", metavar="DIR", type=click.Path(), help="Look at a captured root directory instead."
)
profile_option = click.option(
    "--profile", metavar="NAME|FILE", help="A ready profile's name, or a YAML file with the intent."
)
kubelet_version_option = click.option(
    "--kubelet-version",
    metavar="VERSION",
    help="Plan for this kubelet, such as 1.36.3, instead of the one that is installed.",
)


def machine_and_plan(
    source: str | None, root: str | None, profile: str | None, kubelet_version: str | None
) -> tuple[NodeTopology, NodePlan | None]:
    """Return the machine, and the plan that was given, made or found on it."""
    from numaforge.planning.document import loads

    if source is not None and {"cpus", "numa_nodes", "decisions"} <= (_document(source) or {}).keys():
        if root or profile or kubelet_version:
            raise click.UsageError(
                "a PLAN is shown as it is: leave out --root, --profile and --kubelet-version"
            )
        from numaforge.report.layout import topology_of

        try:
            decided = loads(Path(source).read_text(encoding="utf-8"))
        except NumaforgeError as error:
            raise error.at(source) from error
        return topology_of(decided), decided
    machine = machine_of(source, root)
    if profile is not None:
        return machine, _plan(machine, profile, kubelet_version)
    return machine, loads(machine.previous_plan) if machine.previous_plan else None


def planned_machine(
    source: str, profile: str | None, kubelet_version: str | None
) -> tuple[NodeTopology, NodePlan]:
    """Return the machine in a file, and the plan that the file is or holds, or that a profile gives to it."""
    machine, planned = machine_and_plan(source, None, profile, kubelet_version)
    if planned is None:
        raise click.UsageError(f"{source} holds no plan: --profile says what to plan")
    return machine, planned


def machine_of(source: str | None, root: str | None) -> NodeTopology:
    """Return the machine in the file `source`, in the folder `root`, else this machine."""
    from numaforge.topology import from_document, read_topology

    try:
        if source and not root and (document := _document(source)) is not None and "packages" in document:
            return from_document(document)
        return read_topology(snapshot_of(source, root))
    except TopologyError as error:
        raise error.at(source or root or "this machine") from error


def snapshot_of(source: str | None, root: str | None) -> Snapshot:
    """Return the snapshot in the file `source`, of the folder `root`, else of this machine."""
    from numaforge.snapshot import Snapshot, from_local, from_root

    if source and root:
        raise click.UsageError("give either SNAPSHOT or --root, not both")
    if source:
        return Snapshot.load(Path(source))
    return from_root(Path(root)) if root else from_local()


def _document(source: str) -> dict[str, Any] | None:
    """Return the mapping in a JSON file; None for anything else, which the snapshot's reader explains."""
    try:
        document = json.loads(Path(source).read_text(encoding="utf-8"))
    except ValueError:
        return None
    except RecursionError as error:
        raise NumaforgeError("JSON nested too deeply to be one of ours", where=source) from error
    return document if isinstance(document, dict) else None


def _plan(machine: NodeTopology, profile: str, kubelet_version: str | None) -> NodePlan:
    from numaforge.planning.node import plan_node
    from numaforge.profile import load_profile

    return plan_node(machine, load_profile(profile), kubelet_version)
