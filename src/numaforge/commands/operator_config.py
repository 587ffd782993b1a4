"""Hand geometries over to the GPU operator."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from numaforge.commands.capture import is_inventory
from numaforge.commands.config_maps import config_map_options, say_config_map
from numaforge.commands.machine import (
    kubelet_version_option,
    machine_argument,
    machine_of,
    plan_or_machine,
    planned_machine,
    profile_option,
)
from numaforge.commands.options import output_option
from numaforge.errors import ExitCode, HostError, PlanError

# What is not needed for `--help` is imported where it is used.
if TYPE_CHECKING:
    from numaforge.roles.node import NodePlan
    from numaforge.topology.model import NodeTopology


@click.command("operator-config")
@machine_argument("MACHINE...|INVENTORY", nargs=-1, required=True)
@click.option("--limit", "limits", multiple=True, metavar="HOST|GROUP", help="As pyinfra's --limit.")
@profile_option
@kubelet_version_option
@config_map_options("numaforge-mig-parted")
@output_option("yaml", "json")
def operator_config(
    sources: tuple[str, ...],
    limits: tuple[str, ...],
    profile: str | None,
    kubelet_version: str | None,
    name: str,
    namespace: str,
    output: str,
) -> int:
    """Write the ConfigMap with which the GPU operator's MIG manager cuts the GPUs as planned.

    It has one config for each distinct geometry. The label nvidia.com/mig.config of a Node chooses one;
    the roll-out sets it on a drained node, where the profile says mig.managed_by: gpu-operator.

    Of an INVENTORY (a file NAME.py, or a folder with an inventory.py) every host is asked, and planned by its
    own profile; those whose profile says so are in the ConfigMap. None is written while a host is silent.

    \b
    Example:
      numaforge mig operator-config inventories/prod | kubectl apply -f -
      numaforge mig operator-config dgx-h100 hgx-b200 --profile inference.yaml | kubectl apply -f -
    """
    from numaforge.roles.device_plugin.manifests import operator_config_map

    inventory = next(filter(is_inventory, sources), None)
    if inventory and (len(sources) > 1 or profile or kubelet_version):
        raise click.UsageError("an INVENTORY stands alone, and says each host's profile itself")
    if limits and not inventory:
        raise click.UsageError("--limit chooses hosts of an INVENTORY, and there is none")
    machines = (
        _of_inventory(inventory, limits)
        if inventory
        else [_of_snapshot(source, profile, kubelet_version) for source in sources]
    )
    manifest, labels = operator_config_map(machines, name, namespace)
    say_config_map(manifest, labels, output)
    return ExitCode.YES


def _of_snapshot(
    source: str, profile: str | None, kubelet_version: str | None
) -> tuple[NodePlan, NodeTopology]:
    machine, planned = planned_machine(source, profile, kubelet_version)
    if not machine.gpus:
        raise PlanError(
            "says nothing of GPUs",
            where=source,
            remedy="name the snapshot of a machine with GPUs, not its plan",
        )
    return planned, machine


def _of_inventory(inventory: str, limits: Sequence[str]) -> list[tuple[NodePlan, NodeTopology]]:
    """Return the plans and machines of those hosts that leave their GPUs to the operator.

    Raises HostError, naming them, where hosts cannot be asked or planned, and PlanError where none does so.
    """
    from numaforge.commands.over_inventory import ask_all
    from numaforge.roles.node import NodePlan
    from numaforge.roles.topology import RECORDED

    with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
        out = ("--data", f"out={json.dumps(folder)}")
        function = "numaforge.roles.topology.record"
        answers = ask_all(inventory, limits, function, RECORDED, "asking every host what it is", out)
        if answers.failed:
            lines = [f"{name}: {why.removeprefix(f'{name}: ')}" for name, why in answers.failed.items()]
            raise HostError(
                "\n  ".join(["no ConfigMap without all hosts:", *lines]),
                where=inventory,
                remedy="--limit leaves hosts out",
            )
        found = [
            (plan_or_machine(told["plan"]), machine_of(told["file"], None)) for told in answers.told.values()
        ]
    machines = [
        (plan, machine)
        for plan, machine in found
        if isinstance(plan, NodePlan) and plan.mig.managed_by == "gpu-operator" and plan.mig.gpus
    ]
    if not machines:
        raise PlanError(
            "no host leaves the cutting of its GPUs to the operator",
            where=inventory,
            remedy="say mig.managed_by: gpu-operator in the profiles of those that do",
        )
    return machines
