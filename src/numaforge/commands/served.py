"""The nodes of a cluster as their plans make them, and the systems that read about them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from numaforge.commands.machine import Planning, answers_of, each_named, planned_machine
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


def served_nodes(sources: tuple[str, ...], planning: Planning) -> tuple[list[ServedNode], int]:
    """Return the machines as their plans make them, and the exit code for those that cannot be planned."""
    from numaforge.cluster.schedulers.fleet import ServedNode
    from numaforge.rollout.names import node_name

    def served(source: str) -> ServedNode:
        machine, plan = planned_machine(source, planning)
        if not machine.hostname:
            raise NumaforgeError("snapshot has no hostname; cannot match a Node", where=source)
        node_name(machine.hostname.lower())
        return ServedNode.of(machine, plan)

    if not sources:
        raise click.UsageError("name machines: files, a folder of snapshots, ready machines, hosts")
    answers = answers_of(each_named(sources), served)
    for name, why in answers.failed.items():
        remark(f"{name}: {why}")
    nodes = [node for _, node in answers.read]
    counts = Counter(node.name for node in nodes)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise NumaforgeError(f"{', '.join(twice)}: several machines have this name, and a cluster takes one")
    return nodes, answers.code
