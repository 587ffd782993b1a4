"""The options and output of commands that write a ConfigMap and the Node labels that choose from it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from numaforge.commands.capture import inventories_of
from numaforge.commands.machine import (
    Planning,
    machine_argument,
    machine_of,
    plan_or_machine,
    planned_machine,
    planning_options,
)
from numaforge.commands.options import Command, limit_option, offered, output_option
from numaforge.lib.errors import HostError, PlanError
from numaforge.report.terminal import save, show_json

if TYPE_CHECKING:
    from numaforge.machine.topology.model import NodeTopology
    from numaforge.planning.plan import NodePlan


class Handed(NamedTuple):
    """Which plans leave their GPUs to a manager, and the error where no host of an inventory does."""

    leaves: Callable[[NodePlan], bool]
    none: str
    remedy: str


def config_map_options(
    name: str, namespace: str = "gpu-operator", noun: str = "ConfigMap"
) -> Callable[[Command], Command]:
    """Offer `--name` and `--namespace` of the object, with their defaults."""
    return offered(
        click.option("--name", default=name, show_default=True, help=f"Name of the {noun}."),
        click.option("--namespace", default=namespace, show_default=True, help=f"Namespace of the {noun}."),
    )


def handing_options(
    name: str, namespace: str = "gpu-operator"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Offer the options of a ConfigMap for a GPU manager: machines or an inventory, name and namespace."""
    return offered(
        machine_argument("MACHINE...|INVENTORY", nargs=-1, required=True),
        limit_option,
        planning_options,
        config_map_options(name, namespace),
        output_option("yaml", "json"),
    )


def handed_machines(
    handed: Handed, sources: Sequence[str], limits: Sequence[str], planning: Planning
) -> list[tuple[NodePlan, NodeTopology]]:
    """Return the plans and machines for a ConfigMap: the named ones, or all of an inventory's hosts."""
    if inventories := inventories_of(sources, limits):
        if len(sources) > 1 or any(planning):
            raise click.UsageError("give an INVENTORY alone: it has each host's profile")
        return _of_inventory(inventories[0], limits, handed)
    machines = []
    for source in sources:
        machine, planned = planned_machine(source, planning)
        if not machine.gpus:
            raise PlanError(
                "has no settings for GPUs",
                where=source,
                remedy="name the snapshot of a machine with GPUs, not its plan",
            )
        machines.append((planned, machine))
    return machines


def say_manifests(
    manifests: Sequence[object], labels: Mapping[str, Mapping[str, str]], output: str, /, **document: object
) -> None:
    """Print manifests, with each host's labels as comments; as JSON, `document` with the labels."""
    from numaforge.lib.kubernetes_objects import as_yaml

    if output == "json":
        show_json({"schema": 1, **document, "labels": labels})
        return
    lines = (
        f"# {host}: {key}={value}\n"
        for host, host_labels in labels.items()
        for key, value in host_labels.items()
    )
    save("".join([*lines, as_yaml(*manifests)]), None)


def _of_inventory(
    inventory: str, limits: Sequence[str], handed: Handed
) -> list[tuple[NodePlan, NodeTopology]]:
    from numaforge.commands.over_inventory import ask_all
    from numaforge.planning.plan import NodePlan
    from numaforge.run.topology import RECORDED

    with tempfile.TemporaryDirectory(prefix="numaforge-") as folder:
        out = ("--data", f"out={json.dumps(folder)}")
        function = "numaforge.run.topology.record"
        answers = ask_all(inventory, limits, function, RECORDED, "asking every host what it is", out)
        if answers.failed:
            lines = [f"{name}: {why.removeprefix(f'{name}: ')}" for name, why in answers.failed.items()]
            raise HostError(
                "\n  ".join(["no ConfigMap without all hosts:", *lines]),
                where=inventory,
                remedy="--limit leaves hosts out",
            )
        sources = [
            (plan_or_machine(answer["plan"]), machine_of(answer["file"], None))
            for answer in answers.events.values()
        ]
    machines = [
        (plan, machine) for plan, machine in sources if isinstance(plan, NodePlan) and handed.leaves(plan)
    ]
    if not machines:
        raise PlanError(handed.none, where=inventory, remedy=handed.remedy)
    return machines
