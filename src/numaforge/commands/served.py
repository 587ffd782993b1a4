"""The nodes of a cluster as their plans make them, and the systems that read about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from numaforge.commands.machine import answers_of, each_named, machine_and_plan
from numaforge.lib.errors import NumaforgeError
from numaforge.report.terminal import remark

if TYPE_CHECKING:
    from numaforge.cluster.schedulers.fleet import ServedNode

DRA = "dra"
SYSTEMS = (
    "labels",
    "nfd",
    "noderesourcetopology",
    "volcano",
    "koordinator",
    "coscheduling",
    "gangs",
    "kueue",
    "openshift",
    DRA,
    "gpu-operator",
    "network-operator",
    "amd-gpu-operator",
)
"""The names of the systems in `numaforge.cluster.schedulers.systems`, for --help and completion."""

systems_option = click.option(
    "--for", "systems", multiple=True, type=click.Choice(SYSTEMS), help="Limit to this system; repeatable."
)


def served_nodes(
    sources: tuple[str, ...], profile: str | None, kubelet_version: str | None
) -> tuple[list[ServedNode], int]:
    """Return the machines as their plans make them, and the exit code for those that cannot be planned."""
    if not sources:
        raise click.UsageError("name machines: files, a folder of snapshots, ready machines, hosts")
    answers = answers_of(each_named(sources), lambda name: _served(name, profile, kubelet_version))
    for name, why in answers.failed.items():
        remark(f"{name}: {why}")
    nodes = [node for _, node in answers.read]
    _require_names(nodes)
    return nodes, answers.code


def _served(source: str, profile: str | None, kubelet_version: str | None) -> ServedNode:
    """Return a machine as its plan makes it."""
    from numaforge.cluster.schedulers.fleet import ServedNode
    from numaforge.rollout.names import node_name

    machine, plan = machine_and_plan(source, None, profile, kubelet_version)
    if plan is None:
        raise click.UsageError(f"{source} has no plan: give --profile")
    if not machine.hostname:
        raise NumaforgeError("snapshot has no hostname; cannot match a Node", where=source)
    node_name(machine.hostname.lower())
    return ServedNode.of(machine, plan)


def _require_names(nodes: Sequence[ServedNode]) -> None:
    names = [node.name for node in nodes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise NumaforgeError(f"{', '.join(twice)}: several machines have this name, and a cluster takes one")
