"""The machine that a command looks at: this one, or what a snapshot, a topology or a plan says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from numaforge.errors import NumaforgeError
from numaforge.given import NotJsonError, parse_json, read_text
from numaforge.report.terminal import step

# What is not needed for `--help` is imported where it is used.
if TYPE_CHECKING:
    from numaforge.roles.node import NodePlan
    from numaforge.snapshot import Snapshot
    from numaforge.topology.model import NodeTopology

_PLAN = {"cpus", "numa_nodes", "decisions"}  # keys that stand together in plans alone

snapshot_argument = click.argument("source", metavar="[SNAPSHOT]", required=False, type=click.Path())
snapshot_or_plan_argument = click.argument(
    "source", metavar="[SNAPSHOT|PLAN]", required=False, type=click.Path()
)
root_option = click.option(
    "--root", metavar="DIR", type=click.Path(), help="Look at a captured root directory instead."
)


def _profiles(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of ready profiles that begin so; where none does, the shell completes files."""
    from numaforge.profile import ready_profiles

    names = [name for name in ready_profiles() if name.startswith(incomplete)]
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


profile_option = click.option(
    "--profile",
    metavar="NAME|FILE",
    shell_complete=_profiles,
    help="A ready profile's name, or a YAML file with the intent.",
)
kubelet_version_option = click.option(
    "--kubelet-version",
    metavar="VERSION",
    help="Plan for this kubelet, such as 1.36.3, instead of the one that is installed.",
)


def machine_and_plan(
    source: str | None, root: str | None, profile: str | None, kubelet_version: str | None
) -> tuple[NodeTopology, NodePlan | None]:
    """Return the machine as it is with its plan, and the plan that was given, made or found on it."""
    from numaforge.roles.offline.plan import as_planned
    from numaforge.topology.model import NodeTopology

    if source is None:
        machine = machine_of(None, root)
    elif isinstance(found := plan_or_machine(source), NodeTopology):
        machine = machine_of(source, root) if root is not None else found
    elif root or profile or kubelet_version:
        raise click.UsageError("a PLAN is shown as it is: leave out --root, --profile and --kubelet-version")
    else:
        from numaforge.report.layout import topology_of

        return topology_of(found), found
    planned = plan_of(machine, profile, kubelet_version)
    return (machine if planned is None else as_planned(machine, planned.tuning.offline)), planned


def plan_or_machine(source: str) -> NodePlan | NodeTopology:
    """Return the plan in a file, else the machine in it."""
    from numaforge.roles.document import from_document

    document = _document(source)
    if not isinstance(document, dict) or not document.keys() >= _PLAN:
        return _machine_in(document, source)
    with _located(source):
        return from_document(document)


def plan_of(machine: NodeTopology, profile: str | None, kubelet_version: str | None) -> NodePlan | None:
    """Return the plan that a profile gives to a machine, else the one that the host has."""
    if profile is None and kubelet_version is not None:
        raise click.UsageError("--kubelet-version says for which kubelet --profile plans: give both")
    return _plan_of(machine) if profile is None else plan_with(machine, profile, kubelet_version)


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
    from numaforge.topology import read_topology

    if source is not None and root is None:
        return _machine_in(_document(source), source)
    place = root or "this machine"
    with step(f"reading {place}"):
        snapshot = snapshot_of(source, root)
    with _located(place), step(f"interpreting {place}"):
        return read_topology(snapshot)


def snapshot_of(source: str | None, root: str | None) -> Snapshot:
    """Return the snapshot of the folder `root`, else of this machine; there must be no `source` then."""
    from numaforge.snapshot import from_local, from_root

    if source is not None:
        raise click.UsageError("give either SNAPSHOT or --root, not both")
    return from_root(Path(root)) if root is not None else from_local()


def _document(source: str) -> object:
    """Return what a JSON file holds."""
    try:
        with step(f"reading {source}"):
            return parse_json(read_text(source))
    except NotJsonError as error:
        raise NumaforgeError(
            f"not a complete JSON document: {error}",
            where="standard input" if source == "-" else source,
            remedy="give what `numaforge capture`, or `topology` or `plan` with -o json, has written",
        ) from error


def _machine_in(document: object, source: str) -> NodeTopology:
    """Return the machine in a snapshot or in a topology document; `source` is its file."""
    from numaforge.snapshot import Snapshot
    from numaforge.topology import from_document, read_topology

    with _located(source), step(f"interpreting {source}"):
        if isinstance(document, dict) and "packages" in document:
            return from_document(document)
        if isinstance(document, dict) and document.keys() >= _PLAN:
            raise NumaforgeError(
                "is a plan, and no machine",
                remedy="give the snapshot that it was made of; admit, fit and check take it with --plan",
            )
        return read_topology(Snapshot.from_document(document))


def _plan_of(machine: NodeTopology) -> NodePlan | None:
    """Return the plan that is saved on a machine, if one is."""
    from numaforge.roles.document import loads
    from numaforge.snapshot import catalogue

    with _located(catalogue.PLAN):
        return loads(machine.previous_plan) if machine.previous_plan else None


@contextmanager
def _located(place: str) -> Iterator[None]:
    try:
        yield
    except NumaforgeError as error:
        raise error.at(place) from error


def plan_with(machine: NodeTopology, profile: str, kubelet_version: str | None) -> NodePlan:
    """Return the plan that a profile gives to a machine."""
    from numaforge.planning.node import plan_node
    from numaforge.profile import load_profile

    with step(f"planning {machine.hostname or 'the machine'} with {profile}"):
        return plan_node(machine, load_profile(profile), kubelet_version)
