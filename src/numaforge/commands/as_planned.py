"""The node that a question is about: as a profile or a plan makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from numaforge.commands.machine import plan_or_machine, plan_with
from numaforge.errors import NumaforgeError

# What is not needed for `--help` is imported where it is used.
if TYPE_CHECKING:
    from numaforge.planning.planned_node import PlannedNode
    from numaforge.roles.node import NodePlan
    from numaforge.topology.model import NodeTopology

plan_option = click.option(
    "--plan", metavar="FILE", type=click.Path(), help="A plan of this machine, instead of --profile."
)


def node_as_planned(
    machine: NodeTopology,
    profile: str | None,
    plan: str | None,
    kubelet_version: str | None,
    state: Mapping[str, str],
) -> PlannedNode:
    """Return a machine as a profile, or the plan in a file, makes it; `state` are the kubelet's state files.

    Raises NumaforgeError where that cannot be, or where the plan is that of another host.
    """
    from numaforge.kubelet.minors.versions import LATEST_MINOR
    from numaforge.planning.planned_node import planned_node
    from numaforge.render import files_of
    from numaforge.roles.kubelet import kubelet

    installed = machine.kubelet.version if machine.kubelet else None
    wanted = kubelet_version or (None if installed else f"1.{LATEST_MINOR}")
    decided = plan_for(machine, profile, plan, wanted)
    files = files_of(kubelet, decided, machine.kubelet_config)
    return planned_node(machine, decided, files, state)


def plan_for(
    machine: NodeTopology, profile: str | None, plan: str | None, kubelet_version: str | None = None
) -> NodePlan:
    """Return the plan that a profile gives to a machine, or the one in a file.

    Raises NumaforgeError for a file that holds none, or that of another host.
    """
    from numaforge.roles.node import NodePlan

    if profile is not None and plan is not None:
        raise click.UsageError("give --profile or --plan, not both")
    if plan is None:
        return plan_with(machine, str(profile), kubelet_version)
    found = plan_or_machine(plan)
    if not isinstance(found, NodePlan):
        remedy = "give what `numaforge plan -o json` has written"
        raise NumaforgeError("is no plan", where=plan, remedy=remedy)
    if machine.hostname and found.hostname != machine.hostname:
        raise NumaforgeError(
            f"is the plan of {found.hostname}, and the machine is {machine.hostname}",
            where=plan,
            remedy="give the plan and the snapshot of one host",
        )
    return found


def given_kubelet(
    machine: NodeTopology,
    config: str | None,
    drop_in: str | None,
    flags: tuple[str, ...],
    version: str | None,
) -> NodeTopology:
    """Return a machine whose kubelet is set up as given by name, where anything is."""
    from numaforge.commands.inputs import read_drop_ins
    from numaforge.given import read_text
    from numaforge.kubelet.config.loading import CONFIG_PATH
    from numaforge.topology.model import KubeletInstall

    there = machine.kubelet or KubeletInstall(version, None, CONFIG_PATH, None, ())
    if config is not None:
        there = replace(there, config_text=read_text(config), config_dir=None, flags=(), drop_ins={})
    if drop_in is not None:
        texts = {f"{drop_in}/{name}": text for name, text in read_drop_ins(drop_in).items()}
        there = replace(there, config_dir=drop_in, drop_ins=texts)
        flags = (*(flags or there.flags), f"--config-dir={drop_in}")
    return replace(machine, kubelet=replace(there, flags=flags or there.flags))
